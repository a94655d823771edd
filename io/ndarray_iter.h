#ifndef TESSERA_IO_NDARRAY_ITER_H_
#define TESSERA_IO_NDARRAY_ITER_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/io/example_iter.h"

namespace tessera {

/// Named arrays, each with the examples in its first dimension.
using NamedArrays = std::vector<std::pair<std::string, NDArray>>;

/// Examples from arrays in host memory. Batches have the arrays' types and shapes, except for the
/// first extent. Those of a csr array are csr, all others dense.
///
/// The constructor waits for the arrays, which must not be written during the iterator's lifetime.
/// Throws what ExampleIter's constructor throws, and Error(kInvalidArgument) if there is no data
/// array and for an array that is on a GPU, has rank 0 or differs in its number of examples; the
/// error names that array.
class NDArrayIter final : public ExampleIter {
 public:
  NDArrayIter(const NamedArrays& data, const NamedArrays& label, const BatchingOptions& options);

 private:
  /// The stored rows of a row_sparse array.
  struct StoredRows {
    std::vector<int64_t> numbers;  // which rise
    NDArray values;
  };

  void CopyRows(int array, std::span<const index_t> examples, void* rows) const override;
  NDArray CsrRows(int array, std::span<const index_t> examples) const override;

  std::vector<NDArray> arrays_;
  std::map<int, StoredRows> stored_;  // by the array's position
};

}  // namespace tessera

#endif  // TESSERA_IO_NDARRAY_ITER_H_
