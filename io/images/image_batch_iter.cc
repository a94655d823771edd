#include "tessera/io/image_batch_iter.h"

#include <utility>

#include "tessera/io/images/record_batches.h"

namespace tessera {

ImageBatchIter::ImageBatchIter(std::unique_ptr<io_internal::RecordBatches> batches)
    : batches_(std::move(batches)) {}

ImageBatchIter::~ImageBatchIter() = default;

void ImageBatchIter::BeforeFirst() { batches_->BeforeFirst(); }
bool ImageBatchIter::Next() { return batches_->Next(); }
const DataBatch& ImageBatchIter::GetBatch() const { return batches_->GetBatch(); }
const std::vector<DataDesc>& ImageBatchIter::ProvideData() const { return batches_->ProvideData(); }
const std::vector<DataDesc>& ImageBatchIter::ProvideLabel() const {
  return batches_->ProvideLabel();
}
index_t ImageBatchIter::batch_size() const { return batches_->batch_size(); }
TrainingState ImageBatchIter::SaveState() const { return batches_->SaveState(); }
void ImageBatchIter::LoadState(const TrainingState& state) { batches_->LoadState(state); }
int64_t ImageBatchIter::num_damaged() const { return batches_->num_damaged(); }

}  // namespace tessera
