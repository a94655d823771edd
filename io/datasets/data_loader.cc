#include "tessera/io/data_loader.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/datasets/split_mix.h"
#include "tessera/io/internal/csr_rows.h"
#include "tessera/io/internal/iterator_state.h"
#include "tessera/ndarray/host_function.h"
#include "tessera/ndarray/sparse.h"

namespace tessera {
namespace {

using io_internal::CsrRows;
using io_internal::SplitMix;

std::vector<uint8_t> ElementBytes(const Number& value, DType dtype) {
  return VisitDType(dtype, [&value](auto tag) {
    const auto element = value.Element<typename decltype(tag)::type>();
    std::vector<uint8_t> bytes(sizeof(element));
    std::memcpy(bytes.data(), &element, sizeof(element));
    return bytes;
  });
}

/// Returns the array of a batch over the first elements of a buffer.
NDArray FirstElements(const NDArray& buffer, const TShape& shape) {
  if (shape == buffer.shape()) return buffer;
  const TShape flat = {buffer.shape().Size()};
  return buffer.Reshape(flat).Slice(0, shape.Size()).Reshape(shape);
}

/// Returns the shape of a batch of examples of one shape. A key is the first extent of each.
TShape BatchShape(const TShape& example, index_t batch_size, index_t bucket_key) {
  TShape shape = TShape::OfRank(std::max(example.ndim(), 0) + 1);
  shape[0] = batch_size;
  for (int axis = 0; axis < example.ndim(); ++axis) shape[axis + 1] = example[axis];
  if (bucket_key > 0 && shape.ndim() > 1) shape[1] = bucket_key;
  return shape;
}

/// Writes row `row` of a batch's array: the example's elements, and then the element `pad`.
void WriteRow(const HostArray& example, std::span<const uint8_t> pad, index_t row,
              const NDArray& array) {
  const TShape& shape = array.shape();
  const auto row_bytes = static_cast<size_t>(shape.ProdShape(1, shape.ndim())) * pad.size();
  uint8_t* to = static_cast<uint8_t*>(array.data().dptr_) + static_cast<size_t>(row) * row_bytes;
  uint8_t* const end = to + row_bytes;
  if (!example.bytes.empty()) std::memcpy(to, example.bytes.data(), example.bytes.size());
  for (to += example.bytes.size(); to != end; to += pad.size()) {
    std::memcpy(to, pad.data(), pad.size());
  }
}

bool IsCsr(const DataDesc& description) { return description.storage == StorageType::kCsr; }

/// Returns whether the columns rise from 0 or more and are below the vector's size.
bool ColumnsFit(const std::vector<int64_t>& columns, index_t size) {
  return std::ranges::adjacent_find(columns, std::greater_equal<>()) == columns.end() &&
         (columns.empty() || (columns.front() >= 0 && columns.back() < size));
}

/// The work of loading one batch.
struct Work {
  uint64_t epoch = 0;
  index_t bucket_key = 0;
  std::vector<index_t> examples;
  std::vector<NDArray> arrays;  // of the batch; none for a csr one
};

}  // namespace

/// The data set and the options that worker threads read.
struct DataLoader::Source {
  std::shared_ptr<const Dataset> dataset;
  Transform transform;
  uint64_t seed = 0;
  std::vector<DataDesc> arrays = {};            // of the largest batch: data, then labels
  std::vector<std::vector<uint8_t>> pads = {};  // an element for each array

  /// Returns an example. Its exceptions are Errors that name it.
  Example Get(index_t index, uint64_t epoch) const {
    try {
      Example example = dataset->Get(index);
      if (transform == nullptr) return example;
      const uint64_t stream = SplitMix(seed, epoch).Draw();
      const uint64_t random = SplitMix(stream, static_cast<uint64_t>(index)).Draw();
      return transform(std::move(example), {.index = index, .epoch = epoch, .random = random});
    } catch (const Error& error) {
      throw error.WithMessage("DataLoader: example " + std::to_string(index) + ": " + error.what());
    } catch (const std::bad_alloc&) {
      throw ResourceExhausted("DataLoader: example ", index, ": no memory");
    } catch (const std::exception& error) {
      throw InvalidArgument("DataLoader: example ", index, ": ", error.what());
    } catch (...) {
      throw InvalidArgument("DataLoader: example ", index, ": an exception of unknown type");
    }
  }

  static void CheckCount(const Example& example, index_t index, size_t expected) {
    if (example.size() == expected) return;
    throw InvalidArgument("DataLoader: example ", index, " has ", example.size(),
                          " arrays, expected ", expected, ", the number of names");
  }

  /// Throws Error unless the example fits into a batch with this key.
  void Check(const Example& example, index_t index, index_t key) const {
    CheckCount(example, index, arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      const HostArray& array = example[i];
      TShape expected(std::span(arrays[i].shape.begin() + 1, arrays[i].shape.end()));
      const bool padded = key > 0 && expected.ndim() > 0;
      if (padded) expected[0] = key;
      const bool is_sparse = array.columns.has_value();
      bool fits = array.dtype == arrays[i].dtype && array.shape.known() &&
                  array.shape.ndim() == expected.ndim() && is_sparse == IsCsr(arrays[i]);
      for (int axis = 0; fits && axis < expected.ndim(); ++axis) {
        fits = axis == 0 && padded ? array.shape[0] <= key : array.shape[axis] == expected[axis];
      }
      if (!fits) {
        throw InvalidArgument("DataLoader: example ", index, ": array ", i, " (", arrays[i].name,
                              ") is ", is_sparse ? "sparse " : "", array.dtype, " of shape ",
                              array.shape, ", expected ", IsCsr(arrays[i]) ? "sparse " : "",
                              arrays[i].dtype, " of shape ", expected,
                              padded ? " or a smaller first extent" : "");
      }
      if (is_sparse && !ColumnsFit(*array.columns, expected[0])) {
        throw InvalidArgument("DataLoader: example ", index, ": array ", i, " (", arrays[i].name,
                              ") has columns that do not rise from 0 or more to at most ",
                              expected[0] - 1);
      }
      const auto count =
          is_sparse ? static_cast<int64_t>(array.columns->size()) : array.shape.Size();
      const auto size_bytes = static_cast<size_t>(count * DTypeSizeBytes(array.dtype));
      if (array.bytes.size() != size_bytes) {
        throw InvalidArgument("DataLoader: example ", index, ": array ", i, " (", arrays[i].name,
                              ") has ", array.bytes.size(), " bytes, expected ", size_bytes,
                              " for shape ", array.shape, " of ", array.dtype);
      }
    }
  }

  /// Writes the arrays of a batch, or some of their rows if the load is cancelled. Those of csr
  /// arrays replace what `csr_rows` has, one for each array.
  void LoadBatch(const Work& work, const std::atomic<bool>& cancelled,
                 std::vector<CsrRows>* csr_rows) const {
    for (CsrRows& rows : *csr_rows) rows.Clear();
    for (size_t row = 0; row < work.examples.size(); ++row) {
      if (cancelled.load(std::memory_order_relaxed)) return;
      const index_t index = work.examples[row];
      const Example example = Get(index, work.epoch);
      Check(example, index, work.bucket_key);
      for (size_t i = 0; i < arrays.size(); ++i) {
        if (IsCsr(arrays[i])) {
          (*csr_rows)[i].Append(*example[i].columns, example[i].bytes.data());
        } else {
          WriteRow(example[i], pads[i], static_cast<index_t>(row), work.arrays[i]);
        }
      }
    }
  }
};

struct DataLoader::Slot {
  std::vector<NDArray> buffers;   // with room for the largest batch; none for a csr array
  std::vector<CsrRows> csr_rows;  // one for each array; a load writes them with `loaded`
  NDArray loaded;                 // written by each load, and by nothing else
  DataBatch batch;                // over the buffers; only the caller's thread uses it
  std::exception_ptr error;       // of the load; set when `loaded` has been written
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : batching_(options.batching),
      prefetch_(options.prefetch),
      sampler_(options.sampler),
      batch_size_(options.batching.batch_size),
      cancelled_(std::make_shared<std::atomic<bool>>(false)) {
  if (dataset == nullptr) throw InvalidArgument("DataLoader: no data set");
  if (prefetch_ < 0) {
    throw InvalidArgument("DataLoader: prefetch ", prefetch_, ", expected at least 0");
  }
  if (sampler_ == nullptr) sampler_ = MakeBatchSampler("DataLoader", dataset->size(), batching_);
  EpochBatches batches = sampler_(0);
  if (options.sampler != nullptr) {
    batch_size_ = 0;
    for (const EpochBatches::Batch& batch : batches.batches) {
      batch_size_ = std::max(batch_size_, batch.end - batch.begin);
      largest_key_ = std::max(largest_key_, batch.bucket_key);
    }
  }
  CheckBatches(0, batches);

  Source source{
      .dataset = std::move(dataset), .transform = options.transform, .seed = batching_.seed};
  const index_t index = batches.ExamplesOf(batches.batches[0])[0];
  const Example example = source.Get(index, 0);
  const size_t names = options.data_names.size() + options.label_names.size();
  if (names == 0) throw InvalidArgument("DataLoader: no names, expected one for each array");
  source.CheckCount(example, index, names);
  for (size_t i = 0; i < names; ++i) {
    const bool is_data = i < options.data_names.size();
    const DataDesc description{
        is_data ? options.data_names[i] : options.label_names[i - options.data_names.size()],
        BatchShape(example[i].shape, batch_size_, largest_key_), example[i].dtype,
        example[i].columns ? StorageType::kCsr : StorageType::kDefault};
    if (IsCsr(description) && (largest_key_ > 0 || example[i].shape.ndim() != 1)) {
      throw InvalidArgument("DataLoader: array ", i, " (", description.name,
                            ") is sparse of shape ", example[i].shape,
                            ", expected one axis, and no bucket keys");
    }
    (is_data ? data_ : label_).push_back(description);
    source.arrays.push_back(description);
    source.pads.push_back(ElementBytes(
        i < options.pad_values.size() ? options.pad_values[i] : Number(), description.dtype));
  }
  source.Check(example, index, largest_key_);
  source_ = std::make_shared<const Source>(std::move(source));
  SetEpoch(0, std::move(batches));

  for (index_t i = 0; i < prefetch_ + 2; ++i) {
    const auto slot = std::make_shared<Slot>();
    for (const DataDesc& description : source_->arrays) {
      slot->buffers.push_back(IsCsr(description)
                                  ? NDArray()
                                  : NDArray(description.shape, Device::Cpu(), description.dtype));
      slot->csr_rows.emplace_back(description.dtype);
    }
    slot->loaded = NDArray({1}, Device::Cpu(), DType::kUint8);
    ring_.push_back(slot);
  }
}

DataLoader::~DataLoader() {
  Cancel();
  for (const std::shared_ptr<Slot>& slot : ring_) {
    try {
      slot->loaded.WaitToRead();
    } catch (const std::exception&) {
      // The engine is stopped. The loads own what they use, and do nothing when it starts.
    }
  }
}

void DataLoader::BeforeFirst() {
  has_batch_ = false;
  if (given_ == 0) return;
  EpochBatches batches =
      next_epoch_batches_ ? *std::move(next_epoch_batches_) : BatchesOf(epoch_ + 1);
  // At the end of an epoch, batches of the next one are being loaded.
  if (given_ < num_batches()) Cancel();
  SetEpoch(epoch_ + 1, std::move(batches));
}

bool DataLoader::Next() {
  has_batch_ = false;
  if (given_ == num_batches()) return false;
  Prefetch();
  Slot& slot = *ring_[next_];
  slot.loaded.WaitToRead();
  next_ = (next_ + 1) % ring_.size();
  --loading_;
  ++given_;
  if (slot.error != nullptr) std::rethrow_exception(std::exchange(slot.error, nullptr));
  for (size_t i = 0; i < slot.buffers.size(); ++i) {
    if (!slot.buffers[i].is_none()) continue;
    NDArray& array = i < data_.size() ? slot.batch.data[i] : slot.batch.label[i - data_.size()];
    array = slot.csr_rows[i].ToArray(source_->arrays[i].shape[1]);
  }
  has_batch_ = true;
  return true;
}

const DataBatch& DataLoader::GetBatch() const {
  if (!has_batch_) {
    throw FailedPrecondition(
        "DataIter::GetBatch: there is no batch; expected a call of Next that gave true before it");
  }
  return ring_[(next_ + ring_.size() - 1) % ring_.size()]->batch;
}

TrainingState DataLoader::SaveState() const {
  TrainingState state = io_internal::NewState("DataLoader", Setup());
  state.integers["epoch"] = {static_cast<int64_t>(epoch_)};
  state.integers["batch"] = {given_};
  return state;
}

void DataLoader::LoadState(const TrainingState& state) {
  io_internal::CheckState(state, "DataLoader", Setup());
  const auto epoch = static_cast<uint64_t>(
      io_internal::IntegerUpTo(state, "epoch", std::numeric_limits<int64_t>::max()));
  EpochBatches batches = BatchesOf(epoch);
  const index_t given =
      io_internal::IntegerUpTo(state, "batch", static_cast<int64_t>(batches.batches.size()));
  Cancel();
  has_batch_ = false;
  SetEpoch(epoch, std::move(batches));
  given_ = given;
}

/// Returns the numbers that decide the batches.
std::vector<int64_t> DataLoader::Setup() const {
  return {source_->dataset->size(),
          batch_size_,
          batching_.shuffle,
          static_cast<int64_t>(batching_.seed),
          static_cast<int64_t>(batching_.last_batch),
          batching_.num_parts,
          batching_.part_index};
}

/// Returns the batches of an epoch, which the arrays have room for.
EpochBatches DataLoader::BatchesOf(uint64_t epoch) const {
  EpochBatches batches = sampler_(epoch);
  CheckBatches(epoch, batches);
  return batches;
}

void DataLoader::CheckBatches(uint64_t epoch, const EpochBatches& batches) const {
  if (batches.batches.empty()) {
    throw InvalidArgument("DataLoader: epoch ", epoch, " has no batch, expected at least one");
  }
  const auto count = static_cast<index_t>(batches.examples.size());
  const index_t least_key = largest_key_ > 0 ? 1 : 0;
  for (size_t i = 0; i < batches.batches.size(); ++i) {
    const EpochBatches::Batch& batch = batches.batches[i];
    if (batch.begin < 0 || batch.begin >= batch.end || batch.end > count ||
        batch.end - batch.begin > batch_size_) {
      throw InvalidArgument("DataLoader: batch ", i, " of epoch ", epoch, " is [", batch.begin,
                            ", ", batch.end, ") of ", count, " examples, expected 1 to ",
                            batch_size_, " of them");
    }
    if (batch.bucket_key < least_key || batch.bucket_key > largest_key_) {
      throw InvalidArgument("DataLoader: batch ", i, " of epoch ", epoch, " has bucket key ",
                            batch.bucket_key, ", expected ", least_key, " to ", largest_key_,
                            ", as in epoch 0");
    }
  }
}

void DataLoader::SetEpoch(uint64_t epoch, EpochBatches batches) {
  epoch_ = epoch;
  epoch_batches_ = std::move(batches);
  next_epoch_batches_.reset();
  given_ = 0;
}

/// Ends all loads soon. Their slots are loaded again after them.
void DataLoader::Cancel() {
  // Relaxed: a load that does not see it yet only does more work in vain.
  cancelled_->store(true, std::memory_order_relaxed);
  cancelled_ = std::make_shared<std::atomic<bool>>(false);
  loading_ = 0;
}

/// Begins to load the next batch and those that are prefetched with it.
void DataLoader::Prefetch() {
  for (; loading_ <= prefetch_; ++loading_) {
    const std::shared_ptr<Slot>& slot =
        ring_[(next_ + static_cast<size_t>(loading_)) % ring_.size()];
    const index_t position = given_ + loading_;
    if (position < num_batches()) {
      Load(slot, epoch_, epoch_batches_, position);
      continue;
    }
    if (!next_epoch_batches_) {
      try {
        next_epoch_batches_ = BatchesOf(epoch_ + 1);
      } catch (const std::exception&) {
        return;  // BeforeFirst will throw it
      }
    }
    const index_t in_next = position - num_batches();
    if (in_next >= static_cast<index_t>(next_epoch_batches_->batches.size())) return;
    Load(slot, epoch_ + 1, *next_epoch_batches_, in_next);
  }
}

/// Begins to load batch `number` of an epoch.
void DataLoader::Load(const std::shared_ptr<Slot>& slot, uint64_t epoch,
                      const EpochBatches& batches, index_t number) {
  const EpochBatches::Batch& batch = batches.batches[static_cast<size_t>(number)];
  const std::span<const index_t> examples = batches.ExamplesOf(batch);
  slot->batch.pad = batch.pad;
  slot->batch.bucket_key = batch.bucket_key;
  slot->batch.index.assign(examples.begin(), examples.end());
  slot->batch.data.clear();
  slot->batch.label.clear();
  std::vector<NDArray> written = {slot->loaded};
  for (const NDArray& buffer : slot->buffers) {
    std::vector<NDArray>& list =
        slot->batch.data.size() < data_.size() ? slot->batch.data : slot->batch.label;
    if (buffer.is_none()) {
      list.emplace_back();
      continue;
    }
    written.push_back(buffer);
    TShape shape = buffer.shape();
    shape[0] = static_cast<index_t>(examples.size());
    if (batch.bucket_key > 0 && shape.ndim() > 1) shape[1] = batch.bucket_key;
    list.push_back(FirstElements(buffer, shape));
  }
  Work work{.epoch = epoch,
            .bucket_key = batch.bucket_key,
            .examples = slot->batch.index,
            .arrays = slot->batch.data};
  work.arrays.insert(work.arrays.end(), slot->batch.label.begin(), slot->batch.label.end());
  PushHostFunction(
      [source = source_, slot, work = std::move(work), cancelled = cancelled_] {
        slot->error = nullptr;
        try {
          source->LoadBatch(work, *cancelled, &slot->csr_rows);
        } catch (...) {
          slot->error = std::current_exception();
        }
      },
      {}, written, "DataLoader");
}

}  // namespace tessera
