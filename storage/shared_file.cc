#include "tessera/storage/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/storage/device/file_descriptor.h"
#include "tessera/storage/device/shared_segments.h"
#include "tessera/storage/translate_bad_alloc.h"

namespace tessera {

using storage_internal::FileDescriptor;
using storage_internal::NewAnonymousFile;
using storage_internal::TranslateBadAlloc;

namespace {

/// The descriptors that objects of this process own. A fork copies the set as it is, because it has
/// no lock.
class OwnedDescriptors {
 public:
  /// Notes the descriptor, and returns whether it was noted before. Linux allows no number above
  /// the set's size by default; such a one is never noted.
  bool Add(int descriptor) {
    return InSet(descriptor) && (Word(descriptor).fetch_or(Bit(descriptor)) & Bit(descriptor)) != 0;
  }
  void Remove(int descriptor) {
    if (InSet(descriptor)) Word(descriptor).fetch_and(~Bit(descriptor));
  }

 private:
  static constexpr int kBits = 64;
  static constexpr int kSize = 1 << 20;
  static bool InSet(int descriptor) { return descriptor >= 0 && descriptor < kSize; }
  static uint64_t Bit(int descriptor) { return uint64_t{1} << (descriptor % kBits); }
  std::atomic<uint64_t>& Word(int descriptor) {
    return words_[static_cast<size_t>(descriptor / kBits)];
  }

  std::array<std::atomic<uint64_t>, kSize / kBits> words_ = {};
};

constinit OwnedDescriptors owned_descriptors;

/// A file and its mapping have a byte at least.
int64_t MappedBytes(int64_t size_bytes) { return std::max<int64_t>(size_bytes, 1); }

}  // namespace

std::shared_ptr<SharedFile> SharedFile::Create(int64_t size_bytes) {
  if (size_bytes < 0) throw InvalidArgument("SharedFile::Create: the size is ", size_bytes);
  FileDescriptor file(NewAnonymousFile(MappedBytes(size_bytes)));
  if (file.get() < 0) {
    throw ResourceExhausted("SharedFile::Create: ", size_bytes, " bytes: ", std::strerror(errno));
  }
  std::shared_ptr<SharedFile> made = Map("SharedFile::Create", file.get(), size_bytes);
  made->Own(file.Release());
  return made;
}

std::shared_ptr<SharedFile> SharedFile::Open(int descriptor, int64_t size_bytes) {
  struct stat status;
  if (descriptor < 0 || size_bytes < 0 || fstat(descriptor, &status) != 0 ||
      !S_ISREG(status.st_mode) || status.st_size < size_bytes) {
    throw InvalidArgument("SharedFile::Open: ", descriptor,
                          " is not the descriptor of a file with ", size_bytes, " bytes");
  }
  std::shared_ptr<SharedFile> made = Map("SharedFile::Open", descriptor, size_bytes);
  made->Own(descriptor);
  return made;
}

std::shared_ptr<SharedFile> SharedFile::Map(const char* caller, int descriptor,
                                            int64_t size_bytes) {
  auto made = TranslateBadAlloc(caller, [] { return std::shared_ptr<SharedFile>(new SharedFile); });
  void* const data = mmap(nullptr, static_cast<size_t>(MappedBytes(size_bytes)),
                          PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    throw ResourceExhausted(caller, ": cannot map ", size_bytes, " bytes: ", std::strerror(errno));
  }
  made->data_ = data;
  made->size_bytes_ = size_bytes;
  return made;
}

void SharedFile::Own(int descriptor) {
  if (owned_descriptors.Add(descriptor)) {
    descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) throw ResourceExhausted("SharedFile::Open: ", std::strerror(errno));
    owned_descriptors.Add(descriptor);
  }
  descriptor_ = descriptor;
}

SharedFile::~SharedFile() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(MappedBytes(size_bytes_)));
  if (descriptor_ < 0) return;
  owned_descriptors.Remove(descriptor_);
  close(descriptor_);
}

}  // namespace tessera
