#include "tessera/io/ndarray_iter.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/io/internal/csr_rows.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/sparse.h"

namespace tessera {
namespace {

/// Checks all arrays, and returns the number of examples in each.
index_t CountExamples(const NamedArrays& data, const NamedArrays& label) {
  index_t count = -1;
  for (const NamedArrays* list : {&data, &label}) {
    for (const auto& [name, array] : *list) {
      if (array.is_none() || array.shape().ndim() < 1) {
        throw InvalidArgument("NDArrayIter: array ", name,
                              " has no rows, expected examples in its first dimension");
      }
      if (array.device().type == DeviceType::kGpu) {
        throw InvalidArgument("NDArrayIter: array ", name, " lies on ", array.device(),
                              ", expected host memory");
      }
      if (count >= 0 && array.shape()[0] != count) {
        throw InvalidArgument("NDArrayIter: array ", name, " has shape ", array.shape(),
                              ", expected ", count, " examples, as ", data[0].first, " has");
      }
      count = array.shape()[0];
    }
  }
  if (data.empty()) throw InvalidArgument("NDArrayIter: no data array, expected at least one");
  return count;
}

std::vector<DataDesc> Describe(const NamedArrays& arrays, index_t batch_size) {
  std::vector<DataDesc> descriptions;
  for (const auto& [name, array] : arrays) {
    TShape shape = array.shape();
    shape[0] = batch_size;
    const bool is_csr = StorageTypeOf(array) == StorageType::kCsr;
    descriptions.push_back(
        {name, shape, array.dtype(), is_csr ? StorageType::kCsr : StorageType::kDefault});
  }
  return descriptions;
}

}  // namespace

NDArrayIter::NDArrayIter(const NamedArrays& data, const NamedArrays& label,
                         const BatchingOptions& options)
    : ExampleIter("NDArrayIter", Describe(data, options.batch_size),
                  Describe(label, options.batch_size), CountExamples(data, label), options) {
  for (const NamedArrays* list : {&data, &label}) {
    for (const auto& [name, array] : *list) {
      array.WaitToRead();
      if (StorageTypeOf(array) == StorageType::kRowSparse) {
        const NDArray numbers = sparse::Indices(array);
        StoredRows& stored = stored_[static_cast<int>(arrays_.size())];
        stored.numbers.resize(static_cast<size_t>(numbers.shape()[0]));
        numbers.SyncCopyToCPU(stored.numbers.data(), numbers.shape()[0]);
        stored.values = sparse::Values(array);
        stored.values.WaitToRead();
      }
      arrays_.push_back(array);
    }
  }
}

void NDArrayIter::CopyRows(int array, std::span<const index_t> examples, void* rows) const {
  const auto stored = stored_.find(array);
  const bool is_dense = stored == stored_.end();
  const NDArray& values = is_dense ? arrays_[static_cast<size_t>(array)] : stored->second.values;
  const TBlob source = values.data();
  TShape row = source.shape_;
  row[0] = 1;
  const auto row_bytes = static_cast<size_t>(row.Size() * DTypeSizeBytes(source.type_flag_));
  if (row_bytes == 0) return;
  const char* const from = static_cast<const char*>(source.dptr_);
  char* to = static_cast<char*>(rows);
  for (const index_t example : examples) {
    auto number = static_cast<size_t>(example);
    bool is_stored = true;
    if (!is_dense) {
      const std::vector<int64_t>& numbers = stored->second.numbers;
      const auto found = std::ranges::lower_bound(numbers, example);
      is_stored = found != numbers.end() && *found == example;
      number = static_cast<size_t>(found - numbers.begin());
    }
    if (is_stored) {
      std::memcpy(to, from + number * row_bytes, row_bytes);
    } else {
      std::memset(to, 0, row_bytes);
    }
    to += row_bytes;
  }
}

NDArray NDArrayIter::CsrRows(int array, std::span<const index_t> examples) const {
  const autograd::Pause pause;
  const NDArray numbers =
      io_internal::ListOf(examples.data(), static_cast<index_t>(examples.size()), DType::kInt64);
  return Invoke("take", {arrays_[static_cast<size_t>(array)], numbers}, {{"mode", "clip"}})[0];
}

}  // namespace tessera
