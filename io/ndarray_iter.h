#ifndef TESSERA_IO_NDARRAY_ITER_H_
#define TESSERA_IO_NDARRAY_ITER_H_

#include <string>
#include <utility>
#include <vector>

#include "tessera/io/example_iter.h"

namespace tessera {

/// Named arrays, each with the examples in its first dimension.
using NamedArrays = std::vector<std::pair<std::string, NDArray>>;

/// Examples from arrays in host memory. Batches have the arrays' types and shapes, except for the
/// first extent.
///
/// The constructor waits for the arrays, which must not be written during the iterator's lifetime.
/// Throws what ExampleIter's constructor throws, and Error(kInvalidArgument) if there is no data
/// array and for an array that is on a GPU, has rank 0 or differs in its number of examples; the
/// error names that array.
class NDArrayIter final : public ExampleIter {
 public:
  NDArrayIter(const NamedArrays& data, const NamedArrays& label, const BatchingOptions& options);

 private:
  void CopyRows(int array, std::span<const index_t> examples, void* rows) const override;

  std::vector<NDArray> arrays_;
};

}  // namespace tessera

#endif  // TESSERA_IO_NDARRAY_ITER_H_
