#include "tessera/symbol/run/derived_arrays.h"

#include <utility>

namespace tessera::symbol_internal {

using ndarray_internal::ArrayContents;

std::optional<std::vector<NDArray>> DerivedArrays::Find(std::span<const NDArray> sources) {
  const std::lock_guard lock(mutex_);
  if (engine_ != Engine::Get() || sources.size() != contents_.size()) return std::nullopt;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!contents_[i].AreOf(sources[i])) return std::nullopt;
  }
  return arrays_;
}

void DerivedArrays::Keep(std::vector<ArrayContents> contents, std::vector<NDArray> arrays) {
  {
    const std::lock_guard lock(mutex_);
    engine_ = Engine::Get();
    contents_.swap(contents);
    arrays_.swap(arrays);
  }
  // The old arrays are released without the lock.
}

std::vector<ArrayContents> ContentsOf(std::span<const NDArray> arrays) {
  return std::vector<ArrayContents>(arrays.begin(), arrays.end());
}

std::shared_ptr<DerivedArrays> SharedDerivedArrays::Get(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (arrays_.size() >= swept_at_) {
    std::erase_if(arrays_, [](const auto& entry) { return entry.second.expired(); });
    swept_at_ = 2 * arrays_.size() + 16;
  }
  std::weak_ptr<DerivedArrays>& known = arrays_[name];
  std::shared_ptr<DerivedArrays> arrays = known.lock();
  if (arrays == nullptr) known = arrays = std::make_shared<DerivedArrays>();
  return arrays;
}

}  // namespace tessera::symbol_internal
