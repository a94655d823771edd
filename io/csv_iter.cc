#include "tessera/io/csv_iter.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/csv_reader.h"
#include "tessera/io/internal/iterator_state.h"

namespace tessera {
namespace {

/// Batches that a loop may run ahead of its computations.
constexpr size_t kBatches = 4;

/// Returns the file, or the files of a folder by name.
std::vector<std::string> ListFiles(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return {path};
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator at(path, failed), end; !failed && at != end;
       at.increment(failed)) {
    std::error_code unknown;
    if (at->is_regular_file(unknown)) files.push_back(at->path().string());
  }
  if (failed) {
    throw FailedPrecondition(path, ": the folder cannot be read: ", failed.message());
  }
  if (files.empty()) throw NotFound(path, ": is a folder without files, expected CSV files");
  std::sort(files.begin(), files.end());
  return files;
}

/// Returns the shape of a batch of examples of one shape.
TShape BatchShape(index_t batch_size, const TShape& example) {
  TShape shape = TShape::OfRank(example.ndim() + 1);
  shape[0] = batch_size;
  for (int i = 0; i < example.ndim(); ++i) shape[i + 1] = example[i];
  return shape;
}

void CheckShape(const char* option, const TShape& shape) {
  if (shape.rank_known() && shape.ndim() < TShape::kMaxRank &&
      std::all_of(shape.begin(), shape.end(), [](index_t extent) { return extent > 0; })) {
    return;
  }
  throw InvalidArgument("CsvIter: ", option, " ", shape, ", expected at most ",
                        TShape::kMaxRank - 1, " positive extents");
}

const CsvIterOptions& Checked(const CsvIterOptions& options) {
  if (options.batch_size < 1) {
    throw InvalidArgument("CsvIter: batch_size ", options.batch_size, ", expected at least 1");
  }
  CheckShape("data_shape", options.data_shape);
  CheckShape("label_shape", options.label_shape);
  switch (options.dtype) {
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kInt64:
      return options;
    default:
      throw InvalidArgument("CsvIter: dtype ", options.dtype, ", expected float32, int32 or int64");
  }
}

/// Labels of one number have no dimension for it, as in MXNet, which ignores the label's shape if
/// there is no file of labels.
TShape LabelShape(const CsvIterOptions& options) {
  if (options.label_csv.empty() || options.label_shape == TShape({1})) return {options.batch_size};
  return BatchShape(options.batch_size, options.label_shape);
}

size_t BatchBytes(const DataDesc& description) {
  return static_cast<size_t>(description.shape.Size() * DTypeSizeBytes(description.dtype));
}

}  // namespace

/// The rows of a file, or of all files of a folder.
class CsvIter::Rows {
 public:
  Rows(const std::string& path, size_t row_size)
      : path_(path), files_(ListFiles(path)), row_size_(row_size) {
    Rewind();
  }

  const std::string& path() const { return path_; }

  void Rewind() {
    reader_.emplace(files_[0]);
    next_file_ = 1;
  }

  /// Reads the next row to `row`. Returns false at the end.
  bool Read(DType dtype, std::byte* row) {
    switch (dtype) {
      case DType::kInt32:
        return ReadAs<int32_t>(row);
      case DType::kInt64:
        return ReadAs<int64_t>(row);
      default:
        return ReadAs<float>(row);
    }
  }

 private:
  template <typename T>
  bool ReadAs(std::byte* row) {
    while (!reader_->ReadRow(std::span<T>(reinterpret_cast<T*>(row), row_size_))) {
      if (next_file_ == files_.size()) return false;
      reader_.emplace(files_[next_file_++]);
    }
    return true;
  }

  const std::string path_;
  const std::vector<std::string> files_;
  const size_t row_size_;
  size_t next_file_ = 0;
  std::optional<CsvReader> reader_;
};

CsvIter::CsvIter(const CsvIterOptions& options)
    : options_(Checked(options)),
      data_(
          {{options.data_name, BatchShape(options.batch_size, options.data_shape), options.dtype}}),
      label_({{options.label_name, LabelShape(options), options.dtype}}),
      data_rows_(
          std::make_unique<Rows>(options.data_csv, static_cast<size_t>(options.data_shape.Size()))),
      label_rows_(options.label_csv.empty()
                      ? nullptr
                      : std::make_unique<Rows>(options.label_csv,
                                               static_cast<size_t>(options.label_shape.Size()))),
      data_bytes_(BatchBytes(data_[0])),
      label_bytes_(BatchBytes(label_[0])),
      index_(static_cast<size_t>(options.batch_size)) {}

CsvIter::~CsvIter() = default;

void CsvIter::BeforeFirst() {
  has_batch_ = false;
  if (!next_epoch_begun_) Rewind();
  next_epoch_begun_ = false;
  epoch_ended_ = false;
}

bool CsvIter::Next() {
  has_batch_ = false;
  if (epoch_ended_) return false;
  epoch_ended_ = true;  // also if reading fails
  const index_t batch = options_.batch_size;
  index_t count = 0;
  while (count < batch && ReadExample(count)) ++count;
  if (count == 0) {
    if (example_ > 0) return false;
    throw DataLoss(options_.data_csv, ": found no rows, expected at least one");
  }
  const index_t pad = batch - count;
  if (pad > 0 && options_.round_batch) {
    Rewind();
    while (count < batch) {
      if (ReadExample(count)) {
        ++count;
      } else {
        Rewind();  // the batch is larger than the data
      }
    }
    next_epoch_begun_ = true;
  }
  Publish(pad);
  epoch_ended_ = pad > 0;
  return true;
}

const DataBatch& CsvIter::GetBatch() const {
  if (!has_batch_) {
    throw FailedPrecondition(
        "DataIter::GetBatch: there is no batch; expected a call of Next that gave true before it");
  }
  return ring_[slot_];
}

TrainingState CsvIter::SaveState() const {
  TrainingState state = io_internal::NewState("CsvIter", Setup());
  state.integers["example"] = {example_};
  state.integers["epoch_ended"] = {epoch_ended_};
  state.integers["next_epoch_begun"] = {next_epoch_begun_};
  return state;
}

void CsvIter::LoadState(const TrainingState& state) {
  io_internal::CheckState(state, "CsvIter", Setup());
  const index_t example =
      io_internal::IntegerUpTo(state, "example", std::numeric_limits<index_t>::max());
  const bool epoch_ended = io_internal::IntegerUpTo(state, "epoch_ended", 1) != 0;
  const bool next_epoch_begun = io_internal::IntegerUpTo(state, "next_epoch_begun", 1) != 0;
  has_batch_ = false;
  epoch_ended_ = true;  // also if reading fails
  next_epoch_begun_ = false;
  Rewind();
  while (example_ < example) {
    // The rows of the last batch are where padding that is not round finds them.
    if (!ReadExample(example_ % options_.batch_size)) {
      throw DataLoss(options_.data_csv, ": ends after ", example_, " rows, expected at least ",
                     example, " as when the state was saved");
    }
  }
  epoch_ended_ = epoch_ended;
  next_epoch_begun_ = next_epoch_begun;
}

/// Returns the numbers that decide the batches.
std::vector<int64_t> CsvIter::Setup() const { return {options_.batch_size, options_.round_batch}; }

void CsvIter::Rewind() {
  data_rows_->Rewind();
  if (label_rows_ != nullptr) label_rows_->Rewind();
  example_ = 0;
}

/// Reads the next example to position `at` of the batch. Returns false at the end of the data.
bool CsvIter::ReadExample(index_t at) {
  const auto row = [this, at](std::vector<std::byte>& bytes) {
    return bytes.data() +
           bytes.size() / static_cast<size_t>(options_.batch_size) * static_cast<size_t>(at);
  };
  if (!data_rows_->Read(options_.dtype, row(data_bytes_))) return false;
  if (label_rows_ != nullptr && !label_rows_->Read(options_.dtype, row(label_bytes_))) {
    throw DataLoss(label_rows_->path(), ": ends after ", example_,
                   " labels, expected one for each row of ", data_rows_->path());
  }
  index_[static_cast<size_t>(at)] = example_++;
  return true;
}

/// Copies the batch to the next arrays of the ring.
void CsvIter::Publish(index_t pad) {
  if (ring_.size() < kBatches) {
    ring_.push_back({.data = {NDArray(data_[0].shape, Device::Cpu(), data_[0].dtype)},
                     .label = {NDArray(label_[0].shape, Device::Cpu(), label_[0].dtype)}});
    slot_ = ring_.size() - 1;
  } else {
    slot_ = (slot_ + 1) % kBatches;
  }
  DataBatch& batch = ring_[slot_];
  for (const auto& [array, bytes] :
       {std::pair(&batch.data[0], &data_bytes_), std::pair(&batch.label[0], &label_bytes_)}) {
    array->WaitToWrite();
    std::memcpy(array->data().dptr_, bytes->data(), bytes->size());
  }
  batch.pad = pad;
  batch.index = index_;
  has_batch_ = true;
}

}  // namespace tessera
