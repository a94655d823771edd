#include "tessera/tools/testing/failing_files.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace tessera {
namespace {

struct State {
  std::atomic<bool> is_active{false};
  std::atomic<bool> has_failed{false};
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> written{0};
  FileFailures failures;  // written while inactive
};
constinit State state;

/// Returns -1 with errno.
int Fail(int error) {
  state.has_failed = true;
  errno = error;
  return -1;
}

/// Counts a call. Returns whether it fails.
bool IsFailingCall() { return state.is_active && state.calls++ == state.failures.failing_call; }

}  // namespace

FailingFiles::FailingFiles(const FileFailures& failures) {
  state.failures = failures;
  state.calls = state.written = 0;
  state.has_failed = false;
  state.is_active = true;
}

FailingFiles::~FailingFiles() { state.is_active = false; }

bool FailingFiles::has_failed() const { return state.has_failed; }

}  // namespace tessera

// The calls of the C library, as it declares them.
extern "C" {

ssize_t write(int descriptor, const void* data, size_t size_bytes) {
  using namespace tessera;  // NOLINT
  if (IsFailingCall()) return Fail(EIO);
  // Standard output and error are not files under test.
  if (state.is_active && descriptor > 2) {
    int64_t allowed = static_cast<int64_t>(size_bytes);
    if (state.failures.largest_write_bytes > 0) {
      allowed = std::min(allowed, state.failures.largest_write_bytes);
    }
    if (state.failures.room_bytes >= 0) {
      allowed = std::min(allowed, state.failures.room_bytes - state.written);
      if (allowed <= 0 && size_bytes > 0) return Fail(ENOSPC);
    }
    if (allowed < static_cast<int64_t>(size_bytes)) state.has_failed = true;
    state.written += allowed;
    size_bytes = static_cast<size_t>(allowed);
  }
  return syscall(SYS_write, descriptor, data, size_bytes);
}

int fsync(int descriptor) {
  if (tessera::IsFailingCall()) return tessera::Fail(EIO);
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  if (tessera::IsFailingCall()) return tessera::Fail(EIO);
  return static_cast<int>(syscall(SYS_mkdirat, folder, name, mode));
}

int renameat(int old_folder, const char* old_name, int new_folder, const char* new_name) noexcept {
  if (tessera::IsFailingCall()) return tessera::Fail(EIO);
  return static_cast<int>(syscall(SYS_renameat2, old_folder, old_name, new_folder, new_name, 0u));
}

int renameat2(int old_folder, const char* old_name, int new_folder, const char* new_name,
              unsigned flags) noexcept {
  if (tessera::IsFailingCall()) return tessera::Fail(EIO);
  if (tessera::state.is_active && tessera::state.failures.no_exchange) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(
      syscall(SYS_renameat2, old_folder, old_name, new_folder, new_name, flags));
}

}  // extern "C"
