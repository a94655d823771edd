#include "tessera/io/ndarray_iter.h"

#include <cstring>

#include "tessera/base/error.h"

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
    descriptions.push_back({name, shape, array.dtype()});
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
      arrays_.push_back(array);
    }
  }
}

void NDArrayIter::CopyRows(int array, std::span<const index_t> examples, void* rows) const {
  const TBlob source = arrays_[static_cast<size_t>(array)].data();
  TShape row = source.shape_;
  row[0] = 1;
  const int64_t row_bytes = row.Size() * DTypeSizeBytes(source.type_flag_);
  if (row_bytes == 0) return;
  const char* from = static_cast<const char*>(source.dptr_);
  char* to = static_cast<char*>(rows);
  for (const index_t example : examples) {
    std::memcpy(to, from + example * row_bytes, static_cast<size_t>(row_bytes));
    to += row_bytes;
  }
}

}  // namespace tessera
