#ifndef TESSERA_TOOLS_TESTING_FAILING_FILES_H_
#define TESSERA_TOOLS_TESTING_FAILING_FILES_H_

#include <cstdint>

// For tests: a program that links this gets a layer below its files, which fails where it is told
// to.

namespace tessera {

/// The failures of FailingFiles.
struct FileFailures {
  /// The call that fails with EIO, of write, fsync, mkdirat, renameat and renameat2 together,
  /// counted from 0. Negative: none.
  int64_t failing_call = -1;
  /// The bytes that all writes together may write before the disk is full (ENOSPC). Negative: any.
  int64_t room_bytes = -1;
  /// The most bytes that one call of write writes. 0: all.
  int64_t largest_write_bytes = 0;
  /// Whether renameat2 fails with EINVAL, as on file systems that cannot exchange names.
  bool no_exchange = false;
};

/// Makes the C library's calls fail for all threads as long as an object lives.
///
///     for (int64_t n = 0;; ++n) {
///       FailingFiles failing({.failing_call = n});
///       try { Save(); } catch (const Error&) {}
///       if (!failing.has_failed()) break;
///     }
///
/// One object at a time.
class FailingFiles {
 public:
  explicit FailingFiles(const FileFailures& failures);
  ~FailingFiles();
  FailingFiles(const FailingFiles&) = delete;
  FailingFiles& operator=(const FailingFiles&) = delete;

  /// Returns whether a call has failed, or has written less than it was given.
  bool has_failed() const;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TESTING_FAILING_FILES_H_
