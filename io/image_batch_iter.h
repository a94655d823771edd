#ifndef TESSERA_IO_IMAGE_BATCH_ITER_H_
#define TESSERA_IO_IMAGE_BATCH_ITER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/io/data_iter.h"

namespace tessera {

namespace io_internal {
class RecordBatches;
}  // namespace io_internal

/// An iterator over the images of a record file, which makes batches ahead. A derived class says
/// how a record becomes an example.
///
/// Operations of the default engine make the batches, one for each image, on all of its workers.
/// Batches are in a ring of arrays, each of which is written again once no operation uses it. The
/// order and the augmentation depend on the options alone, not on the number of workers.
class ImageBatchIter : public DataIter {
 public:
  ~ImageBatchIter() override;

  void BeforeFirst() final;
  bool Next() final;
  const DataBatch& GetBatch() const final;
  const std::vector<DataDesc>& ProvideData() const final;
  const std::vector<DataDesc>& ProvideLabel() const final;
  index_t batch_size() const final;
  TrainingState SaveState() const final;
  void LoadState(const TrainingState& state) final;

  /// Returns the number of damaged records and images that were left out, of all batches that Next
  /// has returned. An image that is left out makes its batch's padding longer.
  int64_t num_damaged() const;

 protected:
  explicit ImageBatchIter(std::unique_ptr<io_internal::RecordBatches> batches);

 private:
  const std::unique_ptr<io_internal::RecordBatches> batches_;
};

}  // namespace tessera

#endif  // TESSERA_IO_IMAGE_BATCH_ITER_H_
