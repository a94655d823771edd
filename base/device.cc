#include "tessera/base/device.h"

#include <charconv>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera {
namespace {

constexpr std::pair<DeviceType, std::string_view> kNames[] = {
    {DeviceType::kCpu, "cpu"},
    {DeviceType::kGpu, "gpu"},
    {DeviceType::kCpuPinned, "cpu_pinned"},
    {DeviceType::kCpuShared, "cpu_shared"},
};

}  // namespace

Device Device::Parse(std::string_view text) {
  const Error malformed =
      InvalidArgument("device \"", Excerpt(text),
                      "\": expected cpu, gpu, cpu_pinned or cpu_shared, with an "
                      "optional index as in gpu(1)");
  const size_t bracket = text.find('(');
  Device device;
  if (bracket != std::string_view::npos) {
    const char* first = text.data() + bracket + 1;
    const char* last = text.data() + text.size();
    const auto [end, status] = std::from_chars(first, last, device.id);
    if (status != std::errc() || end + 1 != last || *end != ')' || device.id < 0) throw malformed;
  }
  for (const auto& [type, name] : kNames) {
    if (name == text.substr(0, bracket)) {
      device.type = type;
      return device;
    }
  }
  throw malformed;
}

std::string Device::ToString() const {
  std::string_view name = "device?";
  for (const auto& [known, known_name] : kNames) {
    if (known == type) name = known_name;
  }
  return std::string(name) + "(" + std::to_string(id) + ")";
}

std::ostream& operator<<(std::ostream& os, Device device) { return os << device.ToString(); }

}  // namespace tessera
