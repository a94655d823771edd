#include "tessera/io/csv_iter.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/io/csv_reader.h"

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

RowIterOptions Describe(const CsvIterOptions& options) {
  return {.name = "CsvIter",
          .path = options.data_csv,
          .data = {options.data_name, BatchShape(options.batch_size, options.data_shape),
                   options.dtype},
          .label = {options.label_name, LabelShape(options), options.dtype},
          .round_batch = options.round_batch};
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
    : RowIter(Describe(Checked(options))),
      dtype_(options.dtype),
      data_rows_(
          std::make_unique<Rows>(options.data_csv, static_cast<size_t>(options.data_shape.Size()))),
      label_rows_(options.label_csv.empty()
                      ? nullptr
                      : std::make_unique<Rows>(options.label_csv,
                                               static_cast<size_t>(options.label_shape.Size()))),
      data_bytes_(BatchBytes(ProvideData()[0])),
      label_bytes_(BatchBytes(ProvideLabel()[0])) {}

CsvIter::~CsvIter() = default;

void CsvIter::Rewind() {
  data_rows_->Rewind();
  if (label_rows_ != nullptr) label_rows_->Rewind();
}

bool CsvIter::Read(index_t at) {
  const auto row = [this, at](std::vector<std::byte>& bytes) {
    return bytes.data() +
           bytes.size() / static_cast<size_t>(batch_size()) * static_cast<size_t>(at);
  };
  if (!data_rows_->Read(dtype_, row(data_bytes_))) return false;
  if (label_rows_ != nullptr && !label_rows_->Read(dtype_, row(label_bytes_))) {
    throw DataLoss(label_rows_->path(), ": ends after ", examples_read(),
                   " labels, expected one for each row of ", data_rows_->path());
  }
  return true;
}

/// Copies the batch to the next arrays of the ring.
void CsvIter::SetArrays(DataBatch* batch) {
  if (ring_.size() < kBatches) {
    const auto array = [](const DataDesc& description) {
      return NDArray(description.shape, Device::Cpu(), description.dtype);
    };
    ring_.push_back({array(ProvideData()[0]), array(ProvideLabel()[0])});
    slot_ = ring_.size() - 1;
  } else {
    slot_ = (slot_ + 1) % kBatches;
  }
  const auto& [data, label] = ring_[slot_];
  for (const auto& [array, bytes] :
       {std::pair(&data, &data_bytes_), std::pair(&label, &label_bytes_)}) {
    array->WaitToWrite();
    std::memcpy(array->data().dptr_, bytes->data(), bytes->size());
  }
  batch->data = {data};
  batch->label = {label};
}

}  // namespace tessera
