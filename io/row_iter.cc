#include "tessera/io/row_iter.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/internal/iterator_state.h"

namespace tessera {

RowIter::RowIter(RowIterOptions options)
    : options_(std::move(options)),
      data_{options_.data},
      label_{options_.label},
      batch_size_(options_.data.shape[0]),
      index_(static_cast<size_t>(batch_size_)) {}

void RowIter::BeforeFirst() {
  has_batch_ = false;
  if (!next_epoch_begun_) ReadFromBeginning();
  next_epoch_begun_ = false;
  epoch_ended_ = false;
}

bool RowIter::Next() {
  has_batch_ = false;
  if (epoch_ended_) return false;
  epoch_ended_ = true;  // also if reading fails
  index_t count = 0;
  while (count < batch_size_ && ReadExample(count)) ++count;
  if (count == 0) {
    if (example_ > 0) return false;
    throw DataLoss(options_.path, ": found no rows, expected at least one");
  }
  const index_t pad = batch_size_ - count;
  if (pad > 0 && options_.round_batch) {
    ReadFromBeginning();
    while (count < batch_size_) {
      if (ReadExample(count)) {
        ++count;
      } else {
        ReadFromBeginning();  // the batch is larger than the data
      }
    }
    next_epoch_begun_ = true;
  }
  if (count < batch_size_) Pad(count);
  SetArrays(&batch_);
  batch_.pad = pad;
  batch_.index = index_;
  has_batch_ = true;
  epoch_ended_ = pad > 0;
  return true;
}

const DataBatch& RowIter::GetBatch() const {
  if (!has_batch_) {
    throw FailedPrecondition(
        "DataIter::GetBatch: there is no batch; expected a call of Next that gave true before it");
  }
  return batch_;
}

TrainingState RowIter::SaveState() const {
  TrainingState state = io_internal::NewState(options_.name, Setup());
  state.integers["example"] = {example_};
  state.integers["epoch_ended"] = {epoch_ended_};
  state.integers["next_epoch_begun"] = {next_epoch_begun_};
  return state;
}

void RowIter::LoadState(const TrainingState& state) {
  io_internal::CheckState(state, options_.name, Setup());
  const index_t example =
      io_internal::IntegerUpTo(state, "example", std::numeric_limits<index_t>::max());
  const bool epoch_ended = io_internal::IntegerUpTo(state, "epoch_ended", 1) != 0;
  const bool next_epoch_begun = io_internal::IntegerUpTo(state, "next_epoch_begun", 1) != 0;
  has_batch_ = false;
  epoch_ended_ = true;  // also if reading fails
  next_epoch_begun_ = false;
  ReadFromBeginning();
  while (example_ < example) {
    // The rows of the last batch are where padding that is not round may look for them.
    if (!ReadExample(example_ % batch_size_)) {
      throw DataLoss(options_.path, ": ends after ", example_, " rows, expected at least ", example,
                     " as when the state was saved");
    }
  }
  epoch_ended_ = epoch_ended;
  next_epoch_begun_ = next_epoch_begun;
}

/// Returns the numbers that decide the batches.
std::vector<int64_t> RowIter::Setup() const {
  std::vector<int64_t> setup = {batch_size_, options_.round_batch};
  setup.insert(setup.end(), options_.setup.begin(), options_.setup.end());
  return setup;
}

void RowIter::ReadFromBeginning() {
  Rewind();
  example_ = 0;
}

bool RowIter::ReadExample(index_t at) {
  if (!Read(at)) return false;
  index_[static_cast<size_t>(at)] = example_++;
  return true;
}

}  // namespace tessera
