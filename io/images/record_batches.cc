#include "tessera/io/images/record_batches.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/image_list.h"
#include "tessera/io/internal/iterator_state.h"

namespace tessera::io_internal {
namespace {

const RecordBatchOptions& Checked(std::string_view what, const RecordBatchOptions& options) {
  const auto check = [what](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    throw InvalidArgument(what, ": ", name, " ", value, ", expected ", low, " to ", high);
  };
  check("batch_size", options.batch_size, 1, int64_t{1} << 24);
  check("prefetch_buffer", options.prefetch_buffer, 1, 1024);
  return options;
}

/// Mixes numbers to a seed (Steele et al., "Fast splittable pseudorandom number generators", 2014:
/// SplitMix64).
uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9e3779b97f4a7c15u * (b + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Returns the bytes of example `i` in an array of the batch.
std::span<std::byte> BytesOf(const TBlob& array, index_t i) {
  const TShape& shape = array.shape_;
  const auto size_bytes =
      static_cast<size_t>(shape.Size() / shape[0] * DTypeSizeBytes(array.type_flag_));
  return {static_cast<std::byte*>(array.dptr_) + static_cast<size_t>(i) * size_bytes, size_bytes};
}

}  // namespace

ListedLabels ReadListedLabels(const std::string& path) {
  ListedLabels labels;
  if (path.empty()) return labels;
  for (ListedImage& image : ReadImageList(path)) {
    labels.insert_or_assign(image.id, std::move(image.label));
  }
  if (labels.empty()) throw DataLoss(path, ": found an empty list, expected a line at least");
  return labels;
}

void CheckPixelOptions(std::string_view what, int64_t channels, std::span<const float> deviation) {
  if (channels != 1 && channels != 3 && channels != 4) {
    throw InvalidArgument(what, ": ", channels, " channels, expected 1, 3 or 4");
  }
  if (std::ranges::find(deviation, 0.0f) != deviation.end()) {
    throw InvalidArgument(what, ": a deviation is 0, expected other numbers");
  }
}

/// An image on its way into a batch.
struct RecordBatches::Example {
  RecordFile::Record record;
  uint64_t number = 0;  // drawn numbers depend on it
  bool is_damaged = false;
  std::exception_ptr failure;
};

struct RecordBatches::Slot {
  Variable* variable = nullptr;
  DataBatch batch;
  TBlob data, label;  // of the batch
  std::vector<Example> examples;
  index_t count = 0;  // examples that were read
  Position end;       // behind them
  bool has_examples = false;
  bool ends_epoch = false;
  int64_t num_damaged = 0;
  std::exception_ptr failure;

  void CopyExample(index_t from, index_t to) {
    for (const TBlob* const array : {&data, &label}) {
      const std::span<const std::byte> bytes = BytesOf(*array, from);
      std::memcpy(BytesOf(*array, to).data(), bytes.data(), bytes.size());
    }
    batch.index[static_cast<size_t>(to)] = batch.index[static_cast<size_t>(from)];
  }

  void ClearExample(index_t i) {
    for (const TBlob* const array : {&data, &label}) {
      std::ranges::fill(BytesOf(*array, i), std::byte{0});
    }
    batch.index[static_cast<size_t>(i)] = 0;
  }
};

RecordBatches::RecordBatches(std::string_view what, const RecordBatchOptions& options,
                             ListedLabels labels, const DataDesc& data, const DataDesc& label,
                             std::unique_ptr<ExampleMaker> maker)
    : what_(what),
      options_(Checked(what, options)),
      labels_(std::move(labels)),
      data_({data}),
      label_({label}),
      maker_(std::move(maker)),
      file_(options.path_imgrec, options.num_parts, options.part_index),
      engine_(Engine::Get()),
      reader_(engine_->NewVariable("image records")) {
  StartPass();
  // One for the program, and others ahead.
  slots_.resize(static_cast<size_t>(options.prefetch_buffer) + 1);
  for (Slot& slot : slots_) {
    slot.variable = engine_->NewVariable("batch of images");
    slot.batch.data.emplace_back(data.shape, Device::Cpu(), data.dtype);
    slot.batch.label.emplace_back(label.shape, Device::Cpu(), label.dtype);
    slot.data = slot.batch.data[0].data();
    slot.label = slot.batch.label[0].data();
    slot.batch.index.resize(static_cast<size_t>(options.batch_size));
    slot.examples.resize(static_cast<size_t>(options.batch_size));
  }
}

RecordBatches::~RecordBatches() {
  for (const Slot& slot : slots_) {
    try {
      engine_->WaitForVar(slot.variable);
    } catch (...) {
      // An error of the program's operations on the arrays, after which nothing of the slot runs;
      // or a fork has lost the engine, where nothing runs at all.
    }
    engine_->DeleteVariable(slot.variable);
  }
  engine_->DeleteVariable(reader_);
}

void RecordBatches::BeforeFirst() {
  has_batch_ = false;
  const bool is_between_epochs = std::exchange(epoch_ended_, false) && !has_failed_;
  if (is_between_epochs || is_at_beginning_) return;
  WaitForAll();
  // Not behind the passes of batches that were made ahead.
  if (has_begun_) pass_ = slots_[current_].end.pass;
  has_begun_ = has_failed_ = false;
  is_at_beginning_ = true;
  StartPass();
}

bool RecordBatches::Next() {
  has_batch_ = false;
  if (epoch_ended_) return false;
  is_at_beginning_ = false;
  if (!has_begun_) {
    has_begun_ = true;
    current_ = slots_.size() - 1;
    for (size_t i = 0; i + 1 < slots_.size(); ++i) Make(&slots_[i]);
  }
  // The batch that the program has used comes last.
  Make(&slots_[current_]);
  current_ = (current_ + 1) % slots_.size();
  Slot& slot = slots_[current_];
  engine_->WaitForVar(slot.variable);
  num_damaged_ += slot.num_damaged;
  if (slot.failure) {
    epoch_ended_ = has_failed_ = true;
    std::rethrow_exception(std::exchange(slot.failure, nullptr));
  }
  epoch_ended_ = slot.ends_epoch;
  has_batch_ = slot.has_examples;
  return has_batch_;
}

const DataBatch& RecordBatches::GetBatch() const {
  if (!has_batch_) {
    throw FailedPrecondition(
        "DataIter::GetBatch: there is no batch; expected a call of Next that gave true before it");
  }
  return slots_[current_].batch;
}

TrainingState RecordBatches::SaveState() const {
  const Position at = has_begun_ ? slots_[current_].end : ReaderPosition();
  TrainingState state = NewState(what_.c_str(), Setup());
  state.integers["pass"] = {static_cast<int64_t>(at.pass)};
  state.integers["record"] = {at.record};
  state.integers["pass_count"] = {static_cast<int64_t>(at.pass_count)};
  state.integers["at_beginning"] = {is_at_beginning_};
  state.integers["epoch_ended"] = {epoch_ended_};
  state.integers["failed"] = {has_failed_};
  state.integers["num_damaged"] = {num_damaged_};
  return state;
}

void RecordBatches::LoadState(const TrainingState& state) {
  CheckState(state, what_.c_str(), Setup());
  const auto integer = [&state](const char* name, int64_t most) {
    return IntegerUpTo(state, name, most);
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Position at = {.pass = static_cast<uint64_t>(integer("pass", kMost)),
                       .record = integer("record", kMost),
                       .pass_count = static_cast<uint64_t>(integer("pass_count", kMost))};
  const bool is_at_beginning = integer("at_beginning", 1) != 0;
  const bool epoch_ended = integer("epoch_ended", 1) != 0;
  const bool has_failed = integer("failed", 1) != 0;
  const int64_t num_damaged = integer("num_damaged", kMost);
  WaitForAll();
  has_begun_ = has_batch_ = is_at_beginning_ = false;
  epoch_ended_ = has_failed_ = true;  // also if the file has no such position
  pass_ = at.pass - 1;
  StartPass();
  file_.SetPosition(at.record);
  pass_count_ = at.pass_count;
  is_at_beginning_ = is_at_beginning;
  epoch_ended_ = epoch_ended;
  has_failed_ = has_failed;
  num_damaged_ = num_damaged;
}

/// Returns the numbers that decide the batches.
std::vector<int64_t> RecordBatches::Setup() const {
  return {options_.batch_size, options_.round_batch,
          options_.shuffle,    static_cast<int64_t>(options_.seed),
          options_.num_parts,  options_.part_index};
}

void RecordBatches::WaitForAll() {
  for (const Slot& slot : slots_) engine_->WaitForVar(slot.variable);
}

/// Pushes the operations that make the slot's next batch.
void RecordBatches::Make(Slot* slot) {
  Variable* const data = slot->batch.data[0].var();
  Variable* const label = slot->batch.label[0].var();
  engine_->PushSync(
      [this, slot](const RunContext&) {
        ReadRecords(slot);
        slot->end = ReaderPosition();
      },
      Device::Cpu(), {}, {reader_, slot->variable, data, label}, {.name = "read image records"});
  for (index_t i = 0; i < options_.batch_size; ++i) {
    engine_->PushSync([this, slot, i](const RunContext&) { DecodeExample(slot, i); }, Device::Cpu(),
                      {slot->variable}, {}, {.name = "decode image"});
  }
  engine_->PushSync([this, slot](const RunContext&) { EndBatch(slot); }, Device::Cpu(), {},
                    {slot->variable, data, label}, {.name = "batch of images"});
}

/// Begins a pass over the records. Calls do not overlap.
void RecordBatches::StartPass() {
  if (options_.shuffle) {
    file_.Shuffle(Mix(options_.seed, pass_));
  } else {
    file_.Rewind();
  }
  ++pass_;
  pass_count_ = 0;
}

void RecordBatches::ReadRecords(Slot* slot) {
  slot->count = 0;
  slot->has_examples = slot->ends_epoch = false;
  slot->num_damaged = 0;
  slot->failure = nullptr;
  slot->batch.pad = 0;
  try {
    const index_t batch = options_.batch_size;
    while (slot->count < batch && ReadExample(slot)) ++slot->count;
    if (slot->count == batch) {
      slot->has_examples = true;
      return;
    }
    slot->ends_epoch = true;
    slot->has_examples = slot->count > 0;
    if (pass_count_ == 0) ThrowNoRecords();
    slot->batch.pad = batch - slot->count;
    StartPass();
    if (!slot->has_examples || !options_.round_batch) return;
    while (slot->count < batch) {
      if (ReadExample(slot)) {
        ++slot->count;
      } else if (pass_count_ > 0) {
        StartPass();  // the batch is larger than the data
      } else {
        ThrowNoRecords();
      }
    }
  } catch (...) {
    slot->count = 0;
    slot->failure = std::current_exception();
  }
}

void RecordBatches::ThrowNoRecords() const {
  throw DataLoss(file_.path(), ": found no records in part ", options_.part_index, " of ",
                 options_.num_parts, ", expected one at least");
}

/// Reads the next record that is not left out. Returns false at the end of the pass.
bool RecordBatches::ReadExample(Slot* slot) {
  Example& example = slot->examples[static_cast<size_t>(slot->count)];
  while (true) {
    try {
      if (!file_.Read(&example.record)) return false;
    } catch (const Error&) {
      if (options_.damaged == DamagedImages::kThrow) throw;
      ++slot->num_damaged;
      continue;
    }
    if (!labels_.empty()) {
      // A damaged record is found when it is decoded.
      uint64_t id = 0;
      constexpr size_t kIdOffset = 8;
      if (example.record.bytes.size() >= kIdOffset + sizeof id) {
        std::memcpy(&id, example.record.bytes.data() + kIdOffset, sizeof id);
        if (!labels_.contains(id)) continue;
      }
    }
    example.number = Mix(pass_, pass_count_++);
    return true;
  }
}

void RecordBatches::DecodeExample(Slot* slot, index_t i) {
  if (i >= slot->count) return;
  Example& example = slot->examples[static_cast<size_t>(i)];
  example.is_damaged = false;
  example.failure = nullptr;
  try {
    Decode(slot, i, &example);
  } catch (const Error& error) {
    example.is_damaged =
        error.code() == Error::kDataLoss || error.code() == Error::kResourceExhausted;
    example.failure = std::current_exception();
  } catch (...) {
    example.failure = std::current_exception();
  }
}

void RecordBatches::Decode(Slot* slot, index_t i, Example* example) {
  const std::string name =
      file_.path() + ": the record at byte " + std::to_string(example->record.offset);
  ImageRecord record = ParseImageRecord(example->record.bytes, name);
  const auto found = labels_.find(record.id);
  if (found != labels_.end()) record.label = found->second;
  ImageRandom random(Mix(options_.seed, example->number));
  std::unique_ptr<Image> image = images_.Take();
  maker_->Make(record, name, &random, image.get(), BytesOf(slot->data, i).data(),
               reinterpret_cast<float*>(BytesOf(slot->label, i).data()));
  images_.GiveBack(std::move(image));
  slot->batch.index[static_cast<size_t>(i)] = static_cast<index_t>(record.id);
}

/// Leaves out the damaged examples, or keeps the first failure for Next.
void RecordBatches::EndBatch(Slot* slot) {
  if (slot->failure || !slot->has_examples) return;
  const index_t batch = options_.batch_size, given = batch - slot->batch.pad;
  index_t kept = 0, kept_of_given = 0;
  for (index_t i = 0; i < slot->count; ++i) {
    const Example& example = slot->examples[static_cast<size_t>(i)];
    if (example.failure) {
      if (!example.is_damaged || options_.damaged == DamagedImages::kThrow) {
        slot->failure = example.failure;
        return;
      }
      ++slot->num_damaged;
      continue;
    }
    if (kept != i) slot->CopyExample(i, kept);
    ++kept;
    if (i < given) ++kept_of_given;
  }
  slot->batch.pad = batch - kept_of_given;
  for (; kept < batch; ++kept) slot->ClearExample(kept);
}

}  // namespace tessera::io_internal
