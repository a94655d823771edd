#ifndef TESSERA_SYMBOL_RUN_DERIVED_ARRAYS_H_
#define TESSERA_SYMBOL_RUN_DERIVED_ARRAYS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_contents.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::symbol_internal {

/// Arrays that are a function of other arrays, kept while these have the same elements: those of
/// the last sources that were given.
///
/// Threads: every member may be called from any thread.
class DerivedArrays {
 public:
  /// Returns the arrays that were kept for these sources, if their elements are the same still.
  std::optional<std::vector<NDArray>> Find(std::span<const NDArray> sources);

  /// Keeps arrays in place of those from before. `contents` are the sources' from before the
  /// operations were pushed that compute the arrays.
  void Keep(std::vector<ndarray_internal::ArrayContents> contents, std::vector<NDArray> arrays);

 private:
  std::mutex mutex_;
  // Null before the first Keep. The child of a fork has another one.
  Engine* engine_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<ndarray_internal::ArrayContents> contents_ ABSL_GUARDED_BY(mutex_);
  std::vector<NDArray> arrays_ ABSL_GUARDED_BY(mutex_);
};

/// Returns the contents of arrays.
std::vector<ndarray_internal::ArrayContents> ContentsOf(std::span<const NDArray> arrays);

/// The derived arrays that users have in common, by name. They live as long as one of their users.
///
/// Threads: every member may be called from any thread.
class SharedDerivedArrays {
 public:
  /// Returns the arrays of a name, which says what they are computed from and how.
  std::shared_ptr<DerivedArrays> Get(const std::string& name);

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<DerivedArrays>> arrays_ ABSL_GUARDED_BY(mutex_);
  // The number of names at which those without users are forgotten, so that Get is fast on average.
  size_t swept_at_ ABSL_GUARDED_BY(mutex_) = 16;
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_DERIVED_ARRAYS_H_
