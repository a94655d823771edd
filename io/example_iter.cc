#include "tessera/io/example_iter.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr index_t kBlocks = 4;
/// A block should stay in a core's cache from its filling to its use.
constexpr int64_t kBlockBytes = 256 << 10;
constexpr index_t kMaxBatchesPerBlock = 16;

/// SplitMix64 (G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014). It is good enough for an order, and gives the same numbers on every machine.
class OrderGenerator {
 public:
  OrderGenerator(uint64_t seed, uint64_t epoch) : state_(seed) { state_ = Draw() ^ epoch; }

  /// Returns a number uniform in [0, bound), with a bias below bound / 2^64.
  index_t Below(index_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<index_t>((Wide{Draw()} * static_cast<uint64_t>(bound)) >> 64);
  }

 private:
  uint64_t Draw() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

int64_t BatchBytes(const std::vector<DataDesc>& descriptions) {
  int64_t bytes = 0;
  for (const DataDesc& description : descriptions) {
    bytes += description.shape.Size() * DTypeSizeBytes(description.dtype);
  }
  return bytes;
}

}  // namespace

ExampleIter::ExampleIter(std::string_view what, std::vector<DataDesc> data,
                         std::vector<DataDesc> label, index_t begin, index_t end,
                         const BatchingOptions& options)
    : options_(options),
      data_(std::move(data)),
      label_(std::move(label)),
      begin_(begin),
      end_(end) {
  const index_t batch = options_.batch_size;
  if (batch < 1) throw InvalidArgument(what, ": batch_size ", batch, ", expected at least 1");
  if (begin == end) throw InvalidArgument(what, ": found no examples, expected at least 1");
  if (batch > end - begin) {
    throw InvalidArgument(what, ": batch_size ", batch,
                          " is larger than the data, expected at most ", end - begin,
                          ", its number of examples");
  }
  num_batches_ = options_.round_batch ? (end - begin + batch - 1) / batch : (end - begin) / batch;
}

void ExampleIter::BeforeFirst() {
  const bool untouched = started_ && position_ < 0;
  if (!untouched) StartEpoch();
}

bool ExampleIter::Next() {
  if (!started_) StartEpoch();
  if (position_ + 1 >= num_batches_) {
    position_ = num_batches_;
    return false;
  }
  if (ring_.empty()) MakeRing();
  slot_ = (slot_ + 1) % static_cast<index_t>(ring_.size());
  if (slot_ % batches_per_block_ == 0) FillBlock(position_ + 1);
  ++position_;
  return true;
}

const DataBatch& ExampleIter::GetBatch() const {
  if (position_ < 0 || position_ >= num_batches_) {
    throw FailedPrecondition(
        "DataIter::GetBatch: there is no batch; expected a call of Next that gave true before it");
  }
  return ring_[static_cast<size_t>(slot_)];
}

void ExampleIter::StartEpoch() {
  const index_t count = end_ - begin_;
  order_.resize(static_cast<size_t>(std::max(num_batches_ * options_.batch_size, count)));
  std::iota(order_.begin(), order_.begin() + count, begin_);
  if (options_.shuffle) {
    OrderGenerator generator(options_.seed, epoch_);
    for (index_t i = count - 1; i > 0; --i) {
      std::swap(order_[static_cast<size_t>(i)],
                order_[static_cast<size_t>(generator.Below(i + 1))]);
    }
  }
  // A batch is not larger than the data, so the padding is part of the epoch's beginning.
  std::copy_n(order_.begin(), static_cast<index_t>(order_.size()) - count, order_.begin() + count);
  ++epoch_;
  position_ = -1;
  started_ = true;
  // The rest of the current block belongs to the old order.
  if (batches_per_block_ > 0) slot_ += batches_per_block_ - 1 - slot_ % batches_per_block_;
}

void ExampleIter::MakeRing() {
  const int64_t batch_bytes = std::max<int64_t>(BatchBytes(data_) + BatchBytes(label_), 1);
  batches_per_block_ = std::clamp<index_t>(kBlockBytes / batch_bytes, 1,
                                           std::min(kMaxBatchesPerBlock, num_batches_));
  const index_t batch = options_.batch_size;
  for (index_t b = 0; b < kBlocks; ++b) {
    std::vector<NDArray>& block = blocks_.emplace_back();
    for (const std::vector<DataDesc>* descriptions : {&data_, &label_}) {
      for (const DataDesc& description : *descriptions) {
        TShape shape = description.shape;
        shape[0] = batch * batches_per_block_;
        block.emplace_back(shape, Device::Cpu(), description.dtype);
      }
    }
    for (index_t i = 0; i < batches_per_block_; ++i) {
      DataBatch& slices = ring_.emplace_back();
      for (size_t array = 0; array < block.size(); ++array) {
        std::vector<NDArray>& list = array < data_.size() ? slices.data : slices.label;
        list.push_back(block[array].Slice(i * batch, (i + 1) * batch));
      }
      slices.index.resize(static_cast<size_t>(batch));
    }
  }
  slot_ = static_cast<index_t>(ring_.size()) - 1;
}

void ExampleIter::FillBlock(index_t first_batch) {
  const index_t batch = options_.batch_size;
  const index_t batches = std::min(batches_per_block_, num_batches_ - first_batch);
  const std::span<const index_t> examples = std::span<const index_t>(order_).subspan(
      static_cast<size_t>(first_batch * batch), static_cast<size_t>(batches * batch));
  std::vector<NDArray>& block = blocks_[static_cast<size_t>(slot_ / batches_per_block_)];
  for (size_t array = 0; array < block.size(); ++array) {
    block[array].WaitToWrite();
    CopyRows(static_cast<int>(array), examples, block[array].data().dptr_);
  }
  for (index_t i = 0; i < batches; ++i) {
    DataBatch& slices = ring_[static_cast<size_t>(slot_ + i)];
    std::copy_n(examples.begin() + i * batch, batch, slices.index.begin());
    slices.pad = std::max<index_t>((first_batch + i + 1) * batch - (end_ - begin_), 0);
  }
}

}  // namespace tessera
