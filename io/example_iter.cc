#include "tessera/io/example_iter.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/internal/iterator_state.h"

namespace tessera {
namespace {

constexpr index_t kBlocks = 4;
/// A block should stay in a core's cache from its filling to its use.
constexpr int64_t kBlockBytes = 256 << 10;
constexpr index_t kMaxBatchesPerBlock = 16;

bool IsCsr(const DataDesc& description) { return description.storage == StorageType::kCsr; }

int64_t BatchBytes(const std::vector<DataDesc>& descriptions) {
  int64_t bytes = 0;
  for (const DataDesc& description : descriptions) {
    if (IsCsr(description)) continue;
    bytes += description.shape.Size() * DTypeSizeBytes(description.dtype);
  }
  return bytes;
}

}  // namespace

ExampleIter::ExampleIter(std::string_view what, std::vector<DataDesc> data,
                         std::vector<DataDesc> label, index_t count, const BatchingOptions& options)
    : options_(options),
      data_(std::move(data)),
      label_(std::move(label)),
      sampler_(MakeBatchSampler(what, count, options)),
      num_examples_(PartOf(what, count, options).size()) {
  if (options.last_batch == LastBatch::kKeep) {
    throw InvalidArgument(what, ": last_batch kKeep, expected kPad, kDiscard or kRollOver");
  }
  StartEpoch(0);
}

NDArray ExampleIter::CsrRows(int, std::span<const index_t>) const {
  throw Internal("ExampleIter::CsrRows: this iterator has no csr arrays");
}

void ExampleIter::BeforeFirst() {
  has_batch_ = false;
  if (given_ > 0) StartEpoch(epoch_ + 1);
}

bool ExampleIter::Next() {
  has_batch_ = false;
  if (given_ == num_batches()) return false;
  if (ring_.empty()) MakeRing();
  const index_t slot = (slot_ + 1) % static_cast<index_t>(ring_.size());
  if (slot % batches_per_block_ == 0) FillBlock(slot, given_);
  slot_ = slot;
  ++given_;
  has_batch_ = true;
  return true;
}

const DataBatch& ExampleIter::GetBatch() const {
  if (!has_batch_) {
    throw FailedPrecondition(
        "DataIter::GetBatch: there is no batch; expected a call of Next that gave true before it");
  }
  return ring_[static_cast<size_t>(slot_)];
}

TrainingState ExampleIter::SaveState() const {
  TrainingState state = io_internal::NewState("ExampleIter", Setup());
  state.integers["epoch"] = {static_cast<int64_t>(epoch_)};
  state.integers["batch"] = {given_};
  return state;
}

void ExampleIter::LoadState(const TrainingState& state) {
  io_internal::CheckState(state, "ExampleIter", Setup());
  const auto epoch = static_cast<uint64_t>(
      io_internal::IntegerUpTo(state, "epoch", std::numeric_limits<int64_t>::max()));
  const index_t given = io_internal::IntegerUpTo(
      state, "batch", static_cast<int64_t>(sampler_(epoch).batches.size()));
  StartEpoch(epoch);
  given_ = given;
}

/// Returns the numbers that decide the batches.
std::vector<int64_t> ExampleIter::Setup() const {
  return {num_examples_,
          options_.batch_size,
          options_.shuffle,
          static_cast<int64_t>(options_.seed),
          static_cast<int64_t>(options_.last_batch),
          options_.num_parts,
          options_.part_index};
}

void ExampleIter::StartEpoch(uint64_t epoch) {
  order_ = sampler_(epoch);
  epoch_ = epoch;
  given_ = 0;
  has_batch_ = false;
  // The rest of the current block belongs to the old order.
  if (batches_per_block_ > 0) slot_ += batches_per_block_ - 1 - slot_ % batches_per_block_;
}

void ExampleIter::MakeRing() {
  const int64_t batch_bytes = std::max<int64_t>(BatchBytes(data_) + BatchBytes(label_), 1);
  batches_per_block_ = std::clamp<index_t>(kBlockBytes / batch_bytes, 1,
                                           std::min(kMaxBatchesPerBlock, num_batches()));
  const index_t batch = options_.batch_size;
  for (index_t b = 0; b < kBlocks; ++b) {
    std::vector<NDArray>& block = blocks_.emplace_back();
    for (const std::vector<DataDesc>* descriptions : {&data_, &label_}) {
      for (const DataDesc& description : *descriptions) {
        TShape shape = description.shape;
        shape[0] = batch * batches_per_block_;
        block.push_back(IsCsr(description) ? NDArray()
                                           : NDArray(shape, Device::Cpu(), description.dtype));
      }
    }
    for (index_t i = 0; i < batches_per_block_; ++i) {
      DataBatch& slices = ring_.emplace_back();
      for (size_t array = 0; array < block.size(); ++array) {
        std::vector<NDArray>& list = array < data_.size() ? slices.data : slices.label;
        list.push_back(block[array].is_none() ? NDArray()
                                              : block[array].Slice(i * batch, (i + 1) * batch));
      }
      slices.index.resize(static_cast<size_t>(batch));
    }
  }
  slot_ = static_cast<index_t>(ring_.size()) - 1;
}

void ExampleIter::FillBlock(index_t slot, index_t first_batch) {
  const index_t batch = options_.batch_size;
  const index_t count = std::min(batches_per_block_, num_batches() - first_batch);
  const auto batches = std::span<const EpochBatches::Batch>(order_.batches)
                           .subspan(static_cast<size_t>(first_batch), static_cast<size_t>(count));
  const std::span<const index_t> examples =
      order_.ExamplesOf({.begin = batches.front().begin, .end = batches.back().end});
  std::vector<NDArray>& block = blocks_[static_cast<size_t>(slot / batches_per_block_)];
  for (size_t array = 0; array < block.size(); ++array) {
    if (block[array].is_none()) continue;
    block[array].WaitToWrite();
    CopyRows(static_cast<int>(array), examples, block[array].data().dptr_);
  }
  for (index_t i = 0; i < count; ++i) {
    DataBatch& slices = ring_[static_cast<size_t>(slot + i)];
    std::copy_n(examples.begin() + i * batch, batch, slices.index.begin());
    slices.pad = batches[static_cast<size_t>(i)].pad;
    for (size_t array = 0; array < block.size(); ++array) {
      if (!block[array].is_none()) continue;
      NDArray& rows =
          array < data_.size() ? slices.data[array] : slices.label[array - data_.size()];
      rows = CsrRows(static_cast<int>(array), slices.index);
    }
  }
}

}  // namespace tessera
