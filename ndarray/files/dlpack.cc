#include "tessera/ndarray/dlpack.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "tessera/base/checked_size.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/dlpack_abi.h"
#include "tessera/ndarray/files/array_size.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera {
namespace {

using namespace ndarray_internal;  // NOLINT

constexpr uint32_t kMajorVersion = 1;
// The first version that asks for strides, which are given here.
constexpr uint32_t kMinorVersion = 2;

/// DLPack's description of an element type.
struct DLPackType {
  DType dtype;
  uint8_t code;
  uint8_t bits;
};
constexpr DLPackType kTypes[] = {
    {DType::kFloat32, kDLFloat, 32}, {DType::kFloat64, kDLFloat, 64},
    {DType::kFloat16, kDLFloat, 16}, {DType::kBFloat16, kDLBfloat, 16},
    {DType::kInt8, kDLInt, 8},       {DType::kInt16, kDLInt, 16},
    {DType::kInt32, kDLInt, 32},     {DType::kInt64, kDLInt, 64},
    {DType::kUint8, kDLUInt, 8},     {DType::kUint16, kDLUInt, 16},
    {DType::kUint32, kDLUInt, 32},   {DType::kUint64, kDLUInt, 64},
    {DType::kBool, kDLBool, 8},
};

/// The owner of the memory that an exported structure needs until its deleter is called.
template <typename Managed>
struct Export {
  NDArray array;
  std::array<int64_t, TShape::kMaxRank> shape;
  std::array<int64_t, TShape::kMaxRank> strides;
  Managed managed;

  static void Delete(Managed* self) { delete static_cast<Export*>(self->manager_ctx); }
};

DLDevice ToDLDevice(Device device) {
  switch (device.type) {
    case DeviceType::kGpu:
      return {kDLCUDA, device.id};
    case DeviceType::kCpuPinned:
      return {kDLCUDAHost, 0};
    case DeviceType::kCpu:
    case DeviceType::kCpuShared:
      break;
  }
  return {kDLCPU, 0};
}

DLDataType ToDLDataType(DType dtype) {
  for (const DLPackType& type : kTypes) {
    if (type.dtype == dtype) return {type.code, type.bits, 1};
  }
  throw Internal("ToDLPack: no code for ", dtype);
}

template <typename Managed>
std::unique_ptr<Export<Managed>> MakeExport(const char* operation, const NDArray& array) {
  if (array.is_none()) {
    throw FailedPrecondition(operation, ": there is no array (is_none())");
  }
  array.WaitToRead();
  auto result = std::make_unique<Export<Managed>>();
  result->array = array;
  ArrayAccess::NoteOtherWriters(array);
  const TBlob blob = array.data();
  const int rank = blob.ndim();
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    result->shape[i] = blob.size(i);
    result->strides[i] = stride;
    // An empty array may have extents whose product would overflow.
    stride = (CheckedSize(stride) * blob.size(i)).value().value_or(0);
  }
  result->managed.manager_ctx = result.get();
  result->managed.deleter = &Export<Managed>::Delete;
  result->managed.dl_tensor = {.data = blob.Size() == 0 ? nullptr : blob.dptr_,
                               .device = ToDLDevice(blob.device_),
                               .ndim = rank,
                               .dtype = ToDLDataType(blob.type_flag_),
                               .shape = result->shape.data(),
                               .strides = result->strides.data(),
                               .byte_offset = 0};
  return result;
}

Device FromDLDevice(DLDevice device) {
  switch (static_cast<int32_t>(device.device_type)) {
    case kDLCPU:
      return Device::Cpu();
    case kDLCUDA:
      RuntimeFor(Device::Gpu(device.device_id));
      return Device::Gpu(device.device_id);
    case kDLCUDAHost:
      return Device::CpuPinned();
    default:
      throw Unimplemented("FromDLPack: found device type ",
                          static_cast<int32_t>(device.device_type),
                          ", expected 1 (host), 2 (CUDA) or 3 (CUDA's pinned memory)");
  }
}

DType FromDLDataType(DLDataType found) {
  for (const DLPackType& type : kTypes) {
    if (type.code == found.code && type.bits == found.bits && found.lanes == 1) return type.dtype;
  }
  throw Unimplemented("FromDLPack: found elements of code ", int{found.code}, " with ",
                      int{found.bits}, " bits and ", found.lanes,
                      " lanes, which no DType stands for");
}

TShape ReadShape(const DLTensor& tensor) {
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    throw InvalidArgument("FromDLPack: found rank ", tensor.ndim,
                          tensor.ndim < 0 ? "" : " without a shape");
  }
  if (tensor.ndim > TShape::kMaxRank) {
    throw Unimplemented("FromDLPack: rank ", tensor.ndim, " is not supported, at most ",
                        TShape::kMaxRank);
  }
  TShape shape = TShape::OfRank(tensor.ndim);
  for (int i = 0; i < tensor.ndim; ++i) {
    shape[i] = tensor.shape[i];
    if (shape[i] < 0) throw InvalidArgument("FromDLPack: found extent ", shape[i]);
  }
  return shape;
}

/// Throws unless the elements lie in row-major order without gaps.
void RequireCompact(const DLTensor& tensor, const TShape& shape) {
  if (tensor.strides == nullptr) return;
  int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    // The stride of an extent of 1 is never used.
    if (shape[i] != 1 && tensor.strides[i] != expected) {
      throw Unimplemented("FromDLPack: found stride ", tensor.strides[i], " in dimension ", i,
                          " of shape ", shape, ", expected ", expected,
                          " (compact in row-major order); the producer can make such a copy");
    }
    expected *= shape[i];
  }
}

/// Returns the memory. Throws unless an NDArray can hold it.
TBlob ReadTensor(const DLTensor& tensor) {
  const DType dtype = FromDLDataType(tensor.dtype);
  const TShape shape = ReadShape(tensor);
  const std::optional<int64_t> size_bytes = ElementsSizeBytes({shape.begin(), shape.end()}, dtype);
  if (!size_bytes) {
    throw InvalidArgument("FromDLPack: shape ", shape, " of ", dtype,
                          " takes more bytes than fit in 63 bits");
  }
  const Device device = FromDLDevice(tensor.device);
  if (*size_bytes == 0) return TBlob(nullptr, shape, dtype, device);
  RequireCompact(tensor, shape);
  if (tensor.data == nullptr) throw InvalidArgument("FromDLPack: found no memory (null)");
  void* const first = static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (reinterpret_cast<uintptr_t>(first) % static_cast<uintptr_t>(DTypeSizeBytes(dtype)) != 0) {
    throw InvalidArgument("FromDLPack: the elements are not aligned to their size of ",
                          DTypeSizeBytes(dtype), " bytes");
  }
  return TBlob(first, shape, dtype, device);
}

/// An imported structure. Its deleter is called only if the array was made.
template <typename Managed>
class Import {
 public:
  explicit Import(Managed* managed) : managed_(managed) {}
  ~Import() {
    if (is_taken_ && managed_->deleter != nullptr) managed_->deleter(managed_);
  }
  Import(const Import&) = delete;
  Import& operator=(const Import&) = delete;

  void Take() { is_taken_ = true; }

 private:
  Managed* const managed_;
  bool is_taken_ = false;
};

template <typename Managed>
NDArray MakeArray(Managed* managed) {
  const TBlob blob = ReadTensor(managed->dl_tensor);
  const auto owner = std::make_shared<Import<Managed>>(managed);
  NDArray array(blob, owner);
  owner->Take();
  return array;
}

}  // namespace

DLManagedTensorVersioned* ToDLPack(const NDArray& array) {
  auto result = MakeExport<DLManagedTensorVersioned>("ToDLPack", array);
  result->managed.version = {kMajorVersion, kMinorVersion};
  result->managed.flags = 0;
  return &result.release()->managed;
}

DLManagedTensor* ToLegacyDLPack(const NDArray& array) {
  return &MakeExport<DLManagedTensor>("ToLegacyDLPack", array).release()->managed;
}

NDArray FromDLPack(DLManagedTensorVersioned* tensor, const FromDLPackOptions& options) {
  if (tensor == nullptr) throw InvalidArgument("FromDLPack: found no tensor (null)");
  // Other versions agree on no field but this and the deleter.
  if (tensor->version.major != kMajorVersion) {
    throw Unimplemented("FromDLPack: found version ", tensor->version.major, ".",
                        tensor->version.minor, " of DLPack, expected ", kMajorVersion, ".x");
  }
  if ((tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0 && !options.accept_read_only) {
    throw FailedPrecondition(
        "FromDLPack: the producer's memory is read-only; expected memory that may be written, or "
        "options that accept it");
  }
  return MakeArray(tensor);
}

NDArray FromDLPack(DLManagedTensor* tensor) {
  if (tensor == nullptr) throw InvalidArgument("FromDLPack: found no tensor (null)");
  return MakeArray(tensor);
}

}  // namespace tessera
