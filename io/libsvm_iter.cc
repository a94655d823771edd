#include "tessera/io/libsvm_iter.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/internal/iterator_state.h"

namespace tessera {
namespace {

/// Batches that a loop may run ahead of its computations.
constexpr size_t kBatches = 4;

const LibSvmIterOptions& Checked(const LibSvmIterOptions& options) {
  const auto check = [](const char* name, int64_t value) {
    constexpr int64_t kMost = int64_t{1} << 40;
    if (value >= 1 && value <= kMost) return;
    throw InvalidArgument("LibSvmIter: ", name, " ", value, ", expected 1 to ", kMost);
  };
  check("batch_size", options.batch_size);
  check("data_size", options.data_size);
  check("label_size", options.label_size);
  return options;
}

TShape LabelShape(const LibSvmIterOptions& options) {
  if (options.label_libsvm.empty()) return {options.batch_size};
  return {options.batch_size, options.label_size};
}

/// Returns example `at` of an array.
std::span<float> RowOf(const NDArray& array, index_t at) {
  const TBlob blob = array.data();
  const index_t size = blob.shape_.Size() / blob.shape_[0];
  return {static_cast<float*>(blob.dptr_) + at * size, static_cast<size_t>(size)};
}

}  // namespace

LibSvmIter::LibSvmIter(const LibSvmIterOptions& options)
    : options_(Checked(options)),
      data_(
          {{options.data_name, TShape({options.batch_size, options.data_size}), DType::kFloat32}}),
      label_({{options.label_name, LabelShape(options), DType::kFloat32}}) {
  Rewind();
}

void LibSvmIter::BeforeFirst() {
  has_batch_ = false;
  if (!next_epoch_begun_) Rewind();
  next_epoch_begun_ = false;
  epoch_ended_ = false;
}

bool LibSvmIter::Next() {
  has_batch_ = false;
  if (epoch_ended_) return false;
  epoch_ended_ = true;  // also if reading fails
  if (ring_.size() < kBatches) {
    ring_.push_back(MakeBatch());
    slot_ = ring_.size() - 1;
  } else {
    slot_ = (slot_ + 1) % kBatches;
  }
  DataBatch& batch = ring_[slot_];
  batch.data[0].WaitToWrite();
  batch.label[0].WaitToWrite();
  const index_t size = options_.batch_size;
  index_t count = 0;
  while (count < size && ReadExample(&batch, count)) ++count;
  if (count == 0) {
    if (example_ > 0) return false;
    throw DataLoss(options_.data_libsvm, ": found no rows, expected at least one");
  }
  batch.pad = size - count;
  if (batch.pad > 0 && options_.round_batch) {
    Rewind();
    while (count < size) {
      if (ReadExample(&batch, count)) {
        ++count;
      } else {
        Rewind();  // the batch is larger than the data
      }
    }
    next_epoch_begun_ = true;
  }
  for (; count < size; ++count) {
    std::ranges::fill(RowOf(batch.data[0], count), 0.0f);
    std::ranges::fill(RowOf(batch.label[0], count), 0.0f);
    batch.index[static_cast<size_t>(count)] = 0;
  }
  has_batch_ = true;
  epoch_ended_ = batch.pad > 0;
  return true;
}

const DataBatch& LibSvmIter::GetBatch() const {
  if (!has_batch_) {
    throw FailedPrecondition(
        "DataIter::GetBatch: there is no batch; expected a call of Next that gave true before it");
  }
  return ring_[slot_];
}

TrainingState LibSvmIter::SaveState() const {
  TrainingState state = io_internal::NewState("LibSvmIter", Setup());
  state.integers["example"] = {example_};
  state.integers["epoch_ended"] = {epoch_ended_};
  state.integers["next_epoch_begun"] = {next_epoch_begun_};
  return state;
}

void LibSvmIter::LoadState(const TrainingState& state) {
  io_internal::CheckState(state, "LibSvmIter", Setup());
  const index_t example =
      io_internal::IntegerUpTo(state, "example", std::numeric_limits<index_t>::max());
  const bool epoch_ended = io_internal::IntegerUpTo(state, "epoch_ended", 1) != 0;
  const bool next_epoch_begun = io_internal::IntegerUpTo(state, "next_epoch_begun", 1) != 0;
  has_batch_ = false;
  epoch_ended_ = true;  // also if reading fails
  next_epoch_begun_ = false;
  Rewind();
  DataBatch unread = MakeBatch();
  while (example_ < example) {
    if (!ReadExample(&unread, 0)) {
      throw DataLoss(options_.data_libsvm, ": ends after ", example_, " rows, expected at least ",
                     example, " as when the state was saved");
    }
  }
  epoch_ended_ = epoch_ended;
  next_epoch_begun_ = next_epoch_begun;
}

/// Returns the numbers that decide the batches.
std::vector<int64_t> LibSvmIter::Setup() const {
  return {options_.batch_size, options_.round_batch, options_.num_parts, options_.part_index};
}

/// Returns a batch with arrays of its own.
DataBatch LibSvmIter::MakeBatch() const {
  return {.data = {NDArray(data_[0].shape, Device::Cpu(), data_[0].dtype)},
          .label = {NDArray(label_[0].shape, Device::Cpu(), label_[0].dtype)},
          .index = std::vector<index_t>(static_cast<size_t>(options_.batch_size))};
}

void LibSvmIter::Rewind() {
  std::vector<LibSvmReader> readers;
  readers.emplace_back(options_.data_libsvm, options_.num_parts, options_.part_index);
  if (!options_.label_libsvm.empty()) {
    readers.emplace_back(options_.label_libsvm, options_.num_parts, options_.part_index);
  }
  readers_ = std::move(readers);
  example_ = 0;
}

/// Reads the next example to position `at` of the batch. Returns false at the end of the part.
bool LibSvmIter::ReadExample(DataBatch* batch, index_t at) {
  float label = 0;
  if (!readers_[0].ReadRow(&label, RowOf(batch->data[0], at))) return false;
  const std::span<float> labels = RowOf(batch->label[0], at);
  if (options_.label_libsvm.empty()) {
    labels[0] = label;
  } else if (!readers_[1].ReadRow(&label, labels)) {
    throw DataLoss(options_.label_libsvm, ": ends after ", example_,
                   " rows, expected one for each row of ", options_.data_libsvm);
  }
  batch->index[static_cast<size_t>(at)] = example_++;
  return true;
}

}  // namespace tessera
