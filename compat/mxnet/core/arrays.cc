#include "tessera/compat/mxnet/core/arrays.h"

#include <atomic>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/fork.h"

namespace tessera::mxnet {
namespace {

thread_local bool numpy_shape_of_thread = false;
std::atomic<bool> numpy_shape_of_all{false};  // relaxed: a setting, which guards nothing

}  // namespace

Handles<NDArray>& Arrays() {
  // Never destroyed: Python frees arrays until the process ends.
  static auto* const arrays = [] {
    PrepareForForks();
    return new Handles<NDArray>("an NDArray", 1);
  }();
  return *arrays;
}

std::vector<NDArray> ArraysOf(const NDArrayHandle* handles, size_t size, const char* argument,
                              bool null_is_none) {
  std::vector<NDArray> arrays;
  arrays.reserve(size);
  for (const NDArrayHandle handle : ListOf(handles, size, argument)) {
    arrays.push_back(handle == nullptr && null_is_none ? NDArray() : ArrayOf(handle));
  }
  return arrays;
}

NDArrayHandle* KeepHandles(const std::vector<NDArray>& arrays) {
  std::vector<NDArrayHandle> handles;
  handles.reserve(arrays.size());
  for (const NDArray& array : arrays) handles.push_back(Arrays().Add(array));
  return Results::OfThread().Keep(std::move(handles));
}

bool NumpyShape() {
  return numpy_shape_of_thread || numpy_shape_of_all.load(std::memory_order_relaxed);
}

int NumpyShapeMode() {
  return numpy_shape_of_all.load(std::memory_order_relaxed) ? 2 : numpy_shape_of_thread ? 1 : 0;
}

bool SetNumpyShapeOfThread(bool numpy_shape) {
  return std::exchange(numpy_shape_of_thread, numpy_shape);
}

int SetNumpyShapeMode(int mode) {
  if (mode < 0 || mode > 2) {
    throw InvalidArgument(mode, " is not the number of a mode of shapes, expected 0 to 2");
  }
  if (mode != 1) numpy_shape_of_all.store(mode == 2, std::memory_order_relaxed);
  return std::exchange(numpy_shape_of_thread, mode != 0) ? 1 : 0;
}

Device DeviceOf(int type, int id) {
  switch (static_cast<DeviceType>(type)) {
    case DeviceType::kCpu:
    case DeviceType::kGpu:
    case DeviceType::kCpuPinned:
    case DeviceType::kCpuShared:
      if (id >= 0) return {static_cast<DeviceType>(type), id};
      break;
  }
  throw InvalidArgument("there is no device of type ", type, " with number ", id,
                        "; expected type 1 (cpu), 2 (gpu), 3 (cpu_pinned) or 5 (cpu_shared)");
}

DType TypeOf(int number) {
  if (number < 0 || number > static_cast<int>(DType::kBFloat16)) {
    throw InvalidArgument(number, " is not the number of an element type, expected 0 to ",
                          static_cast<int>(DType::kBFloat16));
  }
  return static_cast<DType>(number);
}

}  // namespace tessera::mxnet
