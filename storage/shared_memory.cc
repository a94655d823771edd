#include "tessera/storage/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/storage/device/file_descriptor.h"
#include "tessera/storage/device/shared_segments.h"
#include "tessera/storage/pool/block.h"
#include "tessera/storage/translate_bad_alloc.h"

namespace tessera {

using storage_internal::FileDescriptor;
using storage_internal::FindSharedSegment;
using storage_internal::SharedSegment;
using storage_internal::TranslateBadAlloc;

namespace {

constexpr std::string_view kPrefix = "tessera-shared";
constexpr int64_t kPageBytes = 4096;

/// Removes a colon and a number from the front of `text`. Returns false if there are none.
template <typename Number>
bool ReadNumber(std::string_view* text, Number* number) {
  if (text->empty() || text->front() != ':') return false;
  const char* const begin = text->data() + 1;
  const auto [end, error] = std::from_chars(begin, text->data() + text->size(), *number);
  if (error != std::errc() || *number < 0) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

}  // namespace

std::string SharedBlock::ToString() const {
  return TranslateBadAlloc("SharedBlock::ToString", [this] {
    std::string text(kPrefix);
    for (const int64_t number : {process_id, descriptor}) text += ":" + std::to_string(number);
    text += ":" + std::to_string(file_number);
    for (const int64_t number : {offset_bytes, size_bytes}) text += ":" + std::to_string(number);
    return text;
  });
}

SharedBlock SharedBlock::FromString(std::string_view text) {
  SharedBlock block;
  std::string_view rest = text;
  const bool has_prefix = rest.starts_with(kPrefix);
  if (has_prefix) rest.remove_prefix(kPrefix.size());
  if (!has_prefix || !ReadNumber(&rest, &block.process_id) ||
      !ReadNumber(&rest, &block.descriptor) || !ReadNumber(&rest, &block.file_number) ||
      !ReadNumber(&rest, &block.offset_bytes) || !ReadNumber(&rest, &block.size_bytes) ||
      !rest.empty()) {
    throw InvalidArgument("SharedBlock::FromString: \"", Excerpt(text), "\"; expected ", kPrefix,
                          ":PROCESS:DESCRIPTOR:FILE:OFFSET:SIZE");
  }
  return block;
}

SharedBlock Share(const StorageHandle& block) {
  SharedBlock shared = {.process_id = getpid(), .descriptor = 0};
  if (block.block == nullptr) return shared;
  const bool live = block.block->HasGeneration(block.generation);
  std::optional<SharedSegment> segment;
  if (live && block.device.type == DeviceType::kCpuShared) segment = FindSharedSegment(block.dptr);
  if (!segment.has_value()) {
    throw FailedPrecondition("Share: the block of ", block.size_bytes, " bytes on ", block.device,
                             live ? " is" : " was freed; it is",
                             " no live block of Device::CpuShared()");
  }
  shared.descriptor = segment->descriptor;
  shared.file_number = segment->file_number;
  shared.offset_bytes = static_cast<const char*>(block.dptr) - segment->begin;
  shared.size_bytes = block.size_bytes;
  return shared;
}

SharedMapping SharedMapping::Open(const SharedBlock& block) {
  SharedMapping mapping;
  if (block.size_bytes == 0) return mapping;
  const std::string path = TranslateBadAlloc("SharedMapping::Open", [&block] {
    return "/proc/" + std::to_string(block.process_id) + "/fd/" + std::to_string(block.descriptor);
  });
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status;
  if (file.get() < 0 || fstat(file.get(), &status) != 0) {
    throw NotFound("SharedMapping::Open: ", block.ToString(), ": ", path, ": ",
                   std::strerror(errno), "; expected a process that lives and holds the block");
  }
  // A reused descriptor may refer to a file of another file system with the same inode.
  struct statfs system;
  const bool in_memory = fstatfs(file.get(), &system) == 0 && system.f_type == TMPFS_MAGIC;
  if (!in_memory || static_cast<uint64_t>(status.st_ino) != block.file_number) {
    throw NotFound("SharedMapping::Open: ", block.ToString(),
                   ": the process has given this memory back");
  }
  const int64_t file_bytes = status.st_size;
  if (block.offset_bytes < 0 || block.size_bytes < 0 || block.offset_bytes > file_bytes ||
      block.size_bytes > file_bytes - block.offset_bytes) {
    throw InvalidArgument("SharedMapping::Open: ", block.ToString(), ": the memory has only ",
                          file_bytes, " bytes");
  }
  const int64_t before_bytes = block.offset_bytes % kPageBytes;
  mapping.mapped_bytes_ = before_bytes + block.size_bytes;
  void* const mapped =
      mmap(nullptr, static_cast<size_t>(mapping.mapped_bytes_), PROT_READ | PROT_WRITE, MAP_SHARED,
           file.get(), static_cast<off_t>(block.offset_bytes - before_bytes));
  if (mapped == MAP_FAILED) {
    throw ResourceExhausted("SharedMapping::Open: ", block.ToString(), ": ", std::strerror(errno));
  }
  mapping.mapped_ = mapped;
  mapping.data_ = static_cast<char*>(mapped) + before_bytes;
  mapping.size_bytes_ = block.size_bytes;
  return mapping;
}

SharedMapping::~SharedMapping() {
  if (mapped_ != nullptr) munmap(mapped_, static_cast<size_t>(mapped_bytes_));
}

void SharedMapping::swap(SharedMapping& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
}

}  // namespace tessera
