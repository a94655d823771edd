#include "tessera/storage/options.h"

#include <string>
#include <utility>

#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera {
namespace {

std::string VariablePrefix(Device device) {
  switch (device.type) {
    case DeviceType::kCpu:
      return "TESSERA_CPU_MEM_";
    case DeviceType::kGpu:
      return "TESSERA_GPU_MEM_";
    case DeviceType::kCpuPinned:
      return "TESSERA_CPU_PINNED_MEM_";
    case DeviceType::kCpuShared:
      return "TESSERA_CPU_SHARED_MEM_";
  }
  throw InvalidArgument("StorageOptions: ", device, " is no device");
}

StoragePoolKind PoolKindFromEnvironment(const std::string& variable, StoragePoolKind default_kind) {
  constexpr std::pair<const char*, StoragePoolKind> kKinds[] = {
      {"none", StoragePoolKind::kNone},
      {"exact", StoragePoolKind::kExact},
      {"round", StoragePoolKind::kRounded},
      {"best_fit", StoragePoolKind::kBestFit}};
  const std::string name = EnvironmentString(variable.c_str(), "");
  if (name.empty()) return default_kind;
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
  }
  throw InvalidArgument("environment variable ", variable, "=\"", Excerpt(name),
                        "\": expected none, exact, round or best_fit");
}

int64_t LimitFromEnvironment(const std::string& variable, int64_t default_bytes) {
  constexpr int64_t kMegabyte = int64_t{1} << 20;
  const int64_t megabytes = EnvironmentInt(variable.c_str(), -1, -1, kNoLimit / kMegabyte);
  return megabytes < 0 ? default_bytes : megabytes * kMegabyte;
}

}  // namespace

StorageOptions StorageOptions::FromEnvironment(Device device) {
  const std::string prefix = VariablePrefix(device);
  StorageOptions options;
  options.pool = PoolKindFromEnvironment(prefix + "POOL_TYPE", options.pool);
  options.limit_bytes = LimitFromEnvironment(prefix + "LIMIT_MB", options.limit_bytes);
  options.cached_limit_bytes =
      LimitFromEnvironment(prefix + "CACHED_LIMIT_MB", options.cached_limit_bytes);
  options.thread_cache_bytes =
      LimitFromEnvironment(prefix + "THREAD_CACHE_MB", options.thread_cache_bytes);
  const std::string cutoff = prefix + "POOL_ROUND_LINEAR_CUTOFF";
  options.round_linear_cutoff_bytes = int64_t{1} << EnvironmentInt(cutoff.c_str(), 24, 12, 40);
  return options;
}

}  // namespace tessera
