#include "tessera/ndarray/call/finite_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera::ndarray_internal {
namespace {

/// The first element that is not finite.
struct Finding {
  index_t element;
  double value;
};

/// Returns the first element that is not finite in the host's memory.
template <typename T>
std::optional<Finding> FindOnHost(const T* data, index_t size) {
  for (index_t i = 0; i < size; ++i) {
    const auto value = static_cast<double>(data[i]);
    if (!std::isfinite(value)) return Finding{i, value};
  }
  return std::nullopt;
}

std::optional<Finding> Find(const TBlob& blob) {
  if (blob.dptr_ == nullptr || !IsReal(blob.type_flag_)) return std::nullopt;
  return VisitRealDType(blob.type_flag_, "finite check", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const index_t size = blob.Size();
    if (blob.dev_mask() == cpu::kDevMask) {
      return FindOnHost(static_cast<const T*>(blob.dptr_), size);
    }
    std::vector<T> copy(static_cast<size_t>(size));
    CopyBytes(copy.data(), Device::Cpu(), blob.dptr_, blob.device_,
              size * static_cast<index_t>(sizeof(T)));
    return FindOnHost(copy.data(), size);
  });
}

/// "NaN at element 3"
std::string Describe(const Finding& finding) {
  const char* const value = std::isnan(finding.value) ? "NaN" : finding.value > 0 ? "inf" : "-inf";
  return std::string(value) + " at element " + std::to_string(finding.element);
}

}  // namespace

bool ChecksFinite() {
  static const bool checks = EnvironmentBool("TESSERA_CHECK_FINITE", false);
  return checks;
}

void CheckFinite(std::span<const NamedBlob> inputs, std::span<const NamedBlob> outputs,
                 void* stream) {
  const auto on_device = [](const NamedBlob& array) {
    return array.blob.dptr_ != nullptr && array.blob.dev_mask() != cpu::kDevMask;
  };
  const auto first = std::find_if(outputs.begin(), outputs.end(), on_device);
  if (first != outputs.end()) RuntimeFor(first->blob.device_).Wait(stream);

  for (const NamedBlob& output : outputs) {
    const std::optional<Finding> finding = Find(output.blob);
    if (!finding) continue;
    std::string cause;
    for (const NamedBlob& input : inputs) {
      if (std::any_of(outputs.begin(), outputs.end(), [&input](const NamedBlob& other) {
            return other.blob.dptr_ == input.blob.dptr_;
          })) {
        continue;
      }
      const std::optional<Finding> of_input = Find(input.blob);
      if (of_input) cause += "; input " + input.name + " has " + Describe(*of_input);
    }
    throw OutOfRange("output ", output.name, " of shape ", output.blob.shape_, " has ",
                     Describe(*finding), cause, " (TESSERA_CHECK_FINITE is on)");
  }
}

}  // namespace tessera::ndarray_internal
