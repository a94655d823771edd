#ifndef TESSERA_IO_DATASET_H_
#define TESSERA_IO_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/io/host_array.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// The arrays of an example, for instance an image and its class.
using Example = std::vector<HostArray>;

/// A set of numbered examples. Derive from it for a data set of one's own.
///
/// Threads: several threads call a data set at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  /// Returns the number of examples.
  virtual index_t size() const = 0;

  /// Returns an example, 0 <= index < size(). A number of an example always means the same example.
  /// May throw any exception, for instance the Error of a damaged file.
  virtual Example Get(index_t index) const = 0;

 protected:
  Dataset() = default;
};

/// The rows of arrays: example i has row i of each array, without the first dimension. The rows of
/// a csr array are sparse vectors.
///
///     ArrayDataset digits({ReadIdxFile(images), ReadIdxFile(labels)});
class ArrayDataset final : public Dataset {
 public:
  /// Takes arrays in host memory. Throws Error(kInvalidArgument) that names the array's position if
  /// there is none, and for an array of rank 0, of another number of rows, or whose bytes are not
  /// those of its shape.
  explicit ArrayDataset(std::vector<HostArray> arrays);
  /// Shares the elements of dense arrays, which must not be written during the data set's lifetime,
  /// and copies what csr arrays store. Waits for them. Throws Error(kInvalidArgument) also for an
  /// array that is none, lies on a GPU or is row_sparse.
  explicit ArrayDataset(std::vector<NDArray> arrays);

  index_t size() const override { return size_; }
  /// Throws Error(kOutOfRange) unless 0 <= index < size().
  Example Get(index_t index) const override;

 private:
  /// An array whose rows are examples.
  struct Rows {
    const uint8_t* first = nullptr;
    DType dtype = DType::kUint8;
    TShape shape;  // of a row
    size_t row_bytes = 0;
    // Columns and ends of the rows of a csr array: row i has the elements [ends[i], ends[i + 1]).
    std::vector<int64_t> columns = {}, ends = {};
  };

  void Add(const TShape& shape, DType dtype, const void* elements);

  std::vector<HostArray> host_arrays_;
  std::vector<NDArray> arrays_;
  std::vector<Rows> rows_;
  index_t size_ = 0;
};

/// Reads all rows of a CSV file, whose format CsvReader describes, as an array whose rows have
/// shape `row_shape`. The type is float32, int32 or int64. Throws Error(kInvalidArgument) for
/// another type and for an impossible shape, and what CsvReader throws.
HostArray ReadCsvFile(const std::string& path, const TShape& row_shape,
                      DType dtype = DType::kFloat32);

}  // namespace tessera

#endif  // TESSERA_IO_DATASET_H_
