#include "tessera/io/dataset.h"

#include <span>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/csv_reader.h"
#include "tessera/ndarray/sparse.h"

namespace tessera {
namespace {

std::vector<int64_t> NumbersOf(const NDArray& array) {
  std::vector<int64_t> numbers(static_cast<size_t>(array.shape().Size()));
  array.SyncCopyToCPU(numbers.data(), array.shape().Size());
  return numbers;
}

/// Appends the rows of the file to `bytes`, and returns their number.
template <typename T>
index_t ReadRows(const std::string& path, size_t row_size, std::vector<uint8_t>* bytes) {
  CsvReader reader(path);
  const size_t row_bytes = row_size * sizeof(T);
  for (index_t count = 0;; ++count) {
    const size_t read_bytes = bytes->size();
    bytes->resize(read_bytes + row_bytes);
    const std::span<T> row(reinterpret_cast<T*>(bytes->data() + read_bytes), row_size);
    if (!reader.ReadRow(row)) {
      bytes->resize(read_bytes);
      return count;
    }
  }
}

}  // namespace

ArrayDataset::ArrayDataset(std::vector<HostArray> arrays) : host_arrays_(std::move(arrays)) {
  if (host_arrays_.empty()) throw InvalidArgument("ArrayDataset: no array, expected at least one");
  for (const HostArray& array : host_arrays_) {
    const auto size_bytes = static_cast<size_t>(array.shape.Size() * DTypeSizeBytes(array.dtype));
    if (array.bytes.size() != size_bytes) {
      throw InvalidArgument("ArrayDataset: array ", rows_.size(), " has ", array.bytes.size(),
                            " bytes, expected ", size_bytes, " for shape ", array.shape, " of ",
                            array.dtype);
    }
    Add(array.shape, array.dtype, array.bytes.data());
  }
}

ArrayDataset::ArrayDataset(std::vector<NDArray> arrays) : arrays_(std::move(arrays)) {
  if (arrays_.empty()) throw InvalidArgument("ArrayDataset: no array, expected at least one");
  for (NDArray& array : arrays_) {
    if (array.is_none() || array.device().type == DeviceType::kGpu) {
      throw InvalidArgument("ArrayDataset: array ", rows_.size(), " ",
                            array.is_none() ? "is none" : "lies on a GPU",
                            ", expected an array in host memory");
    }
    array.WaitToRead();
    if (StorageTypeOf(array) != StorageType::kCsr) {
      Add(array.shape(), array.dtype(), array.data().dptr_);
      continue;
    }
    const NDArray csr = array;
    array = sparse::Values(csr);
    array.WaitToRead();
    Add(csr.shape(), csr.dtype(), array.data().dptr_);
    rows_.back().columns = NumbersOf(sparse::Indices(csr));
    rows_.back().ends = NumbersOf(sparse::IndPtr(csr));
  }
}

Example ArrayDataset::Get(index_t index) const {
  if (index < 0 || index >= size_) {
    throw OutOfRange("ArrayDataset::Get: index ", index, ", expected 0 to ", size_ - 1);
  }
  Example example;
  example.reserve(rows_.size());
  for (const Rows& rows : rows_) {
    if (!rows.ends.empty()) {
      const int64_t* const ends = rows.ends.data() + index;
      const auto size_bytes = static_cast<int64_t>(DTypeSizeBytes(rows.dtype));
      example.push_back(
          {rows.dtype, rows.shape,
           std::vector<uint8_t>(rows.first + ends[0] * size_bytes,
                                rows.first + ends[1] * size_bytes),
           std::vector<int64_t>(rows.columns.begin() + ends[0], rows.columns.begin() + ends[1])});
      continue;
    }
    const uint8_t* const row = rows.first + static_cast<size_t>(index) * rows.row_bytes;
    example.push_back({rows.dtype, rows.shape, std::vector<uint8_t>(row, row + rows.row_bytes)});
  }
  return example;
}

void ArrayDataset::Add(const TShape& shape, DType dtype, const void* elements) {
  if (shape.ndim() < 1) {
    throw InvalidArgument("ArrayDataset: array ", rows_.size(), " has shape ", shape,
                          ", expected examples in its first dimension");
  }
  if (rows_.empty()) size_ = shape[0];
  if (shape[0] != size_) {
    throw InvalidArgument("ArrayDataset: array ", rows_.size(), " has shape ", shape, ", expected ",
                          size_, " examples, as array 0 has");
  }
  const TShape row(std::span<const index_t>(shape.begin() + 1, shape.end()));
  rows_.push_back({.first = static_cast<const uint8_t*>(elements),
                   .dtype = dtype,
                   .shape = row,
                   .row_bytes = static_cast<size_t>(row.Size() * DTypeSizeBytes(dtype))});
}

HostArray ReadCsvFile(const std::string& path, const TShape& row_shape, DType dtype) {
  if (!row_shape.known() || row_shape.ndim() >= TShape::kMaxRank || row_shape.Size() == 0) {
    throw InvalidArgument("ReadCsvFile: row_shape ", row_shape, ", expected at most ",
                          TShape::kMaxRank - 1, " positive extents");
  }
  HostArray array{.dtype = dtype};
  const auto row_size = static_cast<size_t>(row_shape.Size());
  index_t count = 0;
  switch (dtype) {
    case DType::kFloat32:
      count = ReadRows<float>(path, row_size, &array.bytes);
      break;
    case DType::kInt32:
      count = ReadRows<int32_t>(path, row_size, &array.bytes);
      break;
    case DType::kInt64:
      count = ReadRows<int64_t>(path, row_size, &array.bytes);
      break;
    default:
      throw InvalidArgument("ReadCsvFile: dtype ", dtype, ", expected float32, int32 or int64");
  }
  array.shape = TShape::OfRank(row_shape.ndim() + 1);
  array.shape[0] = count;
  for (int i = 0; i < row_shape.ndim(); ++i) array.shape[i + 1] = row_shape[i];
  return array;
}

}  // namespace tessera
