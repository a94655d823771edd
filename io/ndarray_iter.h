#ifndef TESSERA_IO_NDARRAY_ITER_H_
#define TESSERA_IO_NDARRAY_ITER_H_

#include <string>
#include <utility>
#include <vector>

#include "tessera/io/example_iter.h"

namespace tessera {

/// Named arrays, each with the examples in its first dimension.
using NamedArrays = std::vector<std::pair<std::string, NDArray>>;

/// Examples from arrays in host memory. Batches have the arrays' types and, but for the batch size
/// in front, their shapes.
///
/// The constructor waits for the arrays; they must not be written as long as the iterator lives.
/// Throws Error(kInvalidArgument) that names the array if there is none, if it lies on a GPU or has
/// rank 0, or if the numbers of examples differ; and for a batch larger than the data.
class NDArrayIter final : public ExampleIter {
 public:
  NDArrayIter(const NamedArrays& data, const NamedArrays& label, const BatchingOptions& options);

 private:
  void CopyRows(int array, std::span<const index_t> examples, void* rows) const override;

  std::vector<NDArray> arrays_;
};

}  // namespace tessera

#endif  // TESSERA_IO_NDARRAY_ITER_H_
