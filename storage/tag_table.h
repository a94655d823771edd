#ifndef TESSERA_STORAGE_TAG_TABLE_H_
#define TESSERA_STORAGE_TAG_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/storage/statistics.h"

namespace tessera::storage_internal {

/// Live memory by the names that allocations carry. Thread-safe.
class TagTable {
 public:
  /// The number of a tag, new or known; -1 for the empty one, which is not counted.
  /// Throws std::bad_alloc.
  int32_t Intern(std::string_view tag) { return tag.empty() ? -1 : InternNonEmpty(tag); }

  void CountAlloc(int32_t tag, int64_t size_bytes);
  void CountFree(int32_t tag, int64_t size_bytes);

  /// The largest live ones first.
  std::vector<StorageTagStats> Stats() const;

 private:
  int32_t InternNonEmpty(std::string_view tag);

  mutable std::mutex mutex_;
  std::map<std::string, int32_t, std::less<>> numbers_ ABSL_GUARDED_BY(mutex_);
  std::vector<StorageTagStats> stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_TAG_TABLE_H_
