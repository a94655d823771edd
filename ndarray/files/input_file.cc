#include "tessera/ndarray/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/base/error.h"

namespace tessera::ndarray_internal {

InputFile::InputFile(const std::string& operation, const std::string& path)
    : name_(operation + ": " + path) {
  do {
    // Opening a pipe without a writer blocks unless O_NONBLOCK is set. The flag has no effect on
    // files.
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) throw NotFound(name_, ": ", std::strerror(error));
    throw FailedPrecondition(name_, ": ", std::strerror(error));
  }
  struct stat status;
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    throw FailedPrecondition(name_, ": not an ordinary file");
  }
  size_bytes_ = status.st_size;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

int64_t InputFile::ReadSome(void* data, int64_t size_bytes) {
  for (;;) {
    const ssize_t read = ::read(descriptor_, data, static_cast<size_t>(size_bytes));
    if (read > 0) return read;
    if (read == 0) throw DataLoss(name_, ": became shorter while it was read");
    if (errno != EINTR) throw DataLoss(name_, ": ", std::strerror(errno));
  }
}

}  // namespace tessera::ndarray_internal
