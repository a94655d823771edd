#ifndef TESSERA_STORAGE_FAILING_NEW_H_
#define TESSERA_STORAGE_FAILING_NEW_H_

#include <cstdint>

namespace tessera {

/// For tests: makes an allocation of host memory by `operator new` fail on the calling thread. A
/// program that links this gets an operator new that counts its calls.
///
///     for (int64_t n = 0;; ++n) {
///       FailingNew failing(n);     // call number n from here on, counted from 0, throws bad_alloc
///       try { Work(); } catch (const Error&) {}
///       if (!failing.has_failed()) break;
///     }
class FailingNew {
 public:
  explicit FailingNew(int64_t calls_until_failure);
  /// The end of counting.
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  bool has_failed() const;
};

/// Calls of operator new minus calls of operator delete, on all threads so far.
int64_t OutstandingNews();

}  // namespace tessera

#endif  // TESSERA_STORAGE_FAILING_NEW_H_
