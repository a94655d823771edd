#ifndef TESSERA_TOOLS_TESTING_COUNTED_NEW_H_
#define TESSERA_TOOLS_TESTING_COUNTED_NEW_H_

#include <cstdint>
#include <functional>

// For tests: a program that links this gets an operator new that counts its calls, and fails where
// it is told to.

namespace tessera {

/// Calls of operator new so far, on all threads, but for those that failed.
int64_t NewCalls();

/// The same on the calling thread.
int64_t NewCallsOfThisThread();

/// Calls of operator new minus calls of operator delete so far, on all threads.
int64_t OutstandingNews();

/// Makes an allocation of host memory by operator new fail on the calling thread.
///
///     for (int64_t n = 0;; ++n) {
///       FailingNew failing(n);     // call number n from here on, counted from 0, throws bad_alloc
///       try { Work(); } catch (const Error&) {}
///       if (!failing.has_failed()) break;
///     }
class FailingNew {
 public:
  /// With more `failures` so many calls in a row.
  explicit FailingNew(int64_t calls_until_failure, int64_t failures = 1);
  /// The end of counting.
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  bool has_failed() const;
};

/// How many of the allocations that `run(n)` makes stay behind, for each n from 0 on until it
/// returns false. It is to make, use and destroy the same things each time, with a FailingNew(n)
/// for part of that, and to return whether that has failed. What is made at the first runs and kept
/// for later ones does not count.
int64_t NewsLeftBehind(const std::function<bool(int64_t)>& run);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TESTING_COUNTED_NEW_H_
