#include "tessera/compat/mxnet/functions/testing/array_client.h"

#include <cstdio>
#include <cstdlib>

namespace tessera::mxnet::testing {

std::string ErrorOf(int status) { return status == 0 ? "" : MXGetLastError(); }

namespace {

/// Ends the process, because the rest of a test would have no meaning.
void Require(int status) {
  if (status == 0) return;
  std::fprintf(stderr, "%s\n", MXGetLastError());
  std::abort();
}

}  // namespace

NDArrayHandle ArrayOfValues(const std::vector<uint32_t>& shape, const std::vector<float>& values,
                            int device_type) {
  NDArrayHandle handle = nullptr;
  Require(MXNDArrayCreateEx(shape.data(), static_cast<uint32_t>(shape.size()), device_type, 0, 0, 0,
                            &handle));
  Require(MXNDArraySyncCopyFromCPU(handle, values.data(), values.size()));
  return handle;
}

std::string Invoke(const std::string& op, std::vector<NDArrayHandle> inputs,
                   const TextParameters& parameters, NDArrayHandle* result, NDArrayHandle out) {
  void* creator = nullptr;
  Require(NNGetOpHandle(op.c_str(), &creator));
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : parameters) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  NDArrayHandle* outputs = out == nullptr ? nullptr : &out;
  int num_outputs = out == nullptr ? 0 : 1;
  const int* types = nullptr;
  const int status = MXImperativeInvokeEx(creator, static_cast<int>(inputs.size()), inputs.data(),
                                          &num_outputs, &outputs, static_cast<int>(keys.size()),
                                          keys.data(), values.data(), &types);
  if (status != 0) return MXGetLastError();
  *result = outputs[0];
  return "";
}

NDArrayHandle Invoked(const std::string& op, std::vector<NDArrayHandle> inputs,
                      const TextParameters& parameters) {
  NDArrayHandle result = nullptr;
  const std::string error = Invoke(op, std::move(inputs), parameters, &result);
  Require(error.empty() ? 0 : -1);
  return result;
}

std::vector<int> ShapeOf(NDArrayHandle handle) {
  int rank = 0;
  const int* extents = nullptr;
  Require(MXNDArrayGetShapeEx(handle, &rank, &extents));
  return {extents, extents + rank};
}

std::vector<float> ValuesOf(NDArrayHandle handle) {
  size_t size = 1;
  for (const int extent : ShapeOf(handle)) size *= static_cast<size_t>(extent);
  std::vector<float> values(size);
  if (MXNDArraySyncCopyToCPU(handle, values.data(), size) != 0) return {};
  return values;
}

}  // namespace tessera::mxnet::testing
