#ifndef TESSERA_BASE_DEVICE_H_
#define TESSERA_BASE_DEVICE_H_

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "tessera/base/dialect.h"

namespace mshadow {

/// A base of the device tags that makes this namespace one of those in which a compiler looks for
/// functions of tensors: programs written for mshadow, whose tensors lived here, add kernels to it
/// after the code that calls them.
struct DeviceTag {};

}  // namespace mshadow

namespace tessera {

/// Compile-time device tags: the first argument of Tensor<cpu, 2, float>. Both exist in every
/// build.
struct cpu : mshadow::DeviceTag {
  static constexpr bool kDevCPU = true;  ///< whether the host computes there
  static constexpr int kDevMask = 1;     ///< the bit that stands for it in masks
};
struct gpu : mshadow::DeviceTag {
  static constexpr bool kDevCPU = false;  ///< as in cpu
  static constexpr int kDevMask = 2;      ///< as in cpu
};

/// Kinds of memory and of places that compute; the numbers are those that MXNet's files hold.
enum class DeviceType : int {
  kCpu = 1,
  kGpu = 2,
  kCpuPinned = 3,  ///< host memory that CUDA copies from without staging
  kCpuShared = 5,  ///< host memory that several processes map
};

/// A place at run time: a device type and, where there are several, which one.
struct Device {
  DeviceType type = DeviceType::kCpu;  ///< its kind
  int id = 0;                          ///< its number among those of its kind

  /// The place of that kind and number.
  static constexpr Device Cpu(int id = 0) { return {DeviceType::kCpu, id}; }
  static constexpr Device Gpu(int id = 0) { return {DeviceType::kGpu, id}; }
  static constexpr Device CpuPinned(int id = 0) { return {DeviceType::kCpuPinned, id}; }
  static constexpr Device CpuShared(int id = 0) { return {DeviceType::kCpuShared, id}; }

  /// Reads "cpu", "gpu", "cpu(0)", "gpu(1)", "cpu_pinned(0)", "cpu_shared(0)".
  /// Throws Error(kInvalidArgument) that quotes the text.
  static Device Parse(std::string_view text);

  /// cpu::kDevMask where the host can read the memory, else gpu::kDevMask.
  constexpr int dev_mask() const {
    return type == DeviceType::kGpu ? gpu::kDevMask : cpu::kDevMask;
  }

  /// "cpu(0)", "gpu(1)", …
  std::string ToString() const;

  friend constexpr bool operator==(Device, Device) = default;
};

/// Prints ToString().
std::ostream& operator<<(std::ostream& os, Device device);

}  // namespace tessera

template <>
struct std::hash<tessera::Device> {
  size_t operator()(tessera::Device device) const noexcept {
    return static_cast<size_t>(device.type) * 1000003u + static_cast<size_t>(device.id);
  }
};

#endif  // TESSERA_BASE_DEVICE_H_
