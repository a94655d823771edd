#ifndef TESSERA_STORAGE_DEVICE_FILE_DESCRIPTOR_H_
#define TESSERA_STORAGE_DEVICE_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace tessera::storage_internal {

/// Owns a file descriptor and closes it in the destructor. A negative number stands for none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_DEVICE_FILE_DESCRIPTOR_H_
