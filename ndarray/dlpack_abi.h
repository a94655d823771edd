#ifndef TESSERA_NDARRAY_DLPACK_ABI_H_
#define TESSERA_NDARRAY_DLPACK_ABI_H_

// The part of DLPack's C interface, version 1.x, that "tessera/ndarray/dlpack.h" uses, for programs
// that do not have DLPack's own header. A program that has it includes <dlpack/dlpack.h>, before
// this header if it includes both: names and layout are the same, and this header then declares
// nothing. Source: https://dmlc.github.io/dlpack/latest/c_api.html.

#include <cstdint>

#include "tessera/base/dialect.h"

#ifndef DLPACK_DLPACK_H_

/// Kinds of devices.
enum DLDeviceType : int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,  ///< host memory that CUDA has pinned
};

/// A device.
struct DLDevice {
  DLDeviceType device_type;  ///< its kind, which may have a number that no enumerator has
  int32_t device_id;         ///< its number among those of its kind; 0 for the host
};

/// Kinds of elements.
enum DLDataTypeCode : uint32_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLBool = 6,
};

/// An element type.
struct DLDataType {
  uint8_t code;    ///< a DLDataTypeCode
  uint8_t bits;    ///< of one lane
  uint16_t lanes;  ///< 1, except for vectors
};

/// An array's memory and its meaning, without an owner.
struct DLTensor {
  void* data;        ///< the allocation on the device
  DLDevice device;   ///< the place of the memory
  int32_t ndim;      ///< the rank
  DLDataType dtype;  ///< the element type
  int64_t* shape;    ///< `ndim` extents
  int64_t* strides;  ///< `ndim` strides in elements; some producers give null for row-major order
  uint64_t byte_offset;  ///< from `data` to the first element
};

/// The interface before version 1.0.
struct DLManagedTensor {
  DLTensor dl_tensor;                      ///< the array
  void* manager_ctx;                       ///< the producer's
  void (*deleter)(DLManagedTensor* self);  ///< releases all; may be null
};

/// A version of the interface. Equal major versions have one layout.
struct DLPackVersion {
  uint32_t major;  ///< versions with another number have another layout
  uint32_t minor;  ///< later ones add flags and types
};

/// The interface since version 1.0.
struct DLManagedTensorVersioned {
  DLPackVersion version;                            ///< the producer's
  void* manager_ctx;                                ///< the producer's
  void (*deleter)(DLManagedTensorVersioned* self);  ///< releases all; may be null
  uint64_t flags;                                   ///< DLPACK_FLAG_BITMASK_…
  DLTensor dl_tensor;                               ///< the array
};

/// The memory must not be written.
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
/// The memory was copied for the consumer.
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

#endif  // DLPACK_DLPACK_H_

#endif  // TESSERA_NDARRAY_DLPACK_ABI_H_
