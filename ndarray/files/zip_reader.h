#ifndef TESSERA_NDARRAY_FILES_ZIP_READER_H_
#define TESSERA_NDARRAY_FILES_ZIP_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ndarray/files/byte_source.h"

// libzip's types, whose header only the sources include.
struct zip;
struct zip_file;
struct zip_source;

namespace tessera::ndarray_internal {

/// A zip archive that is open for reading.
class ZipReader {
 public:
  /// An entry of the archive.
  struct Entry {
    std::string name;
    int64_t size_bytes = 0;  ///< decompressed
  };

  /// Open a file, or bytes, which must outlive the reader. `operation` begins every error. Throw
  /// what InputFile's constructor throws. Throw Error(kDataLoss) for a damaged archive,
  /// Error(kUnimplemented) for entries that are encrypted, or neither stored nor deflated, and
  /// Error(kResourceExhausted) if the entries take more than `limit_bytes`, or by default more than
  /// four times the archive and kFreeBytes with what the directory and the arrays take.
  static ZipReader OpenFile(const std::string& operation, const std::string& path,
                            std::optional<int64_t> limit_bytes);
  static ZipReader OpenMemory(const std::string& operation, std::string_view bytes,
                              std::optional<int64_t> limit_bytes);

  const std::string& name() const { return name_; }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  friend class ZipEntrySource;
  struct Discard {
    void operator()(zip* archive) const;
    void operator()(zip_source* source) const;
  };
  using Source = std::unique_ptr<zip_source, Discard>;

  /// `source` may be null, if libzip had no memory for it.
  ZipReader(std::string name, Source source, int64_t size_bytes,
            std::optional<int64_t> limit_bytes);

  void ReadEntries(int64_t budget_bytes);
  Entry ReadEntry(uint64_t index) const;

  std::string name_;
  int64_t size_bytes_;
  std::unique_ptr<zip, Discard> archive_;
  std::vector<Entry> entries_;
};

/// The bytes of an entry, decompressed as they are read. The reader must outlive it.
class ZipEntrySource final : public ByteSource {
 public:
  /// Throws Error(kDataLoss) if the archive is damaged there.
  ZipEntrySource(const ZipReader& reader, size_t entry);
  ~ZipEntrySource() override;

  /// Verifies the checksum. Requires: all bytes have been read. Throws Error(kDataLoss).
  void RequireEnd();

 private:
  void ReadNext(char* data, int64_t size_bytes) override;
  int64_t ReadSome(char* data, int64_t size_bytes);

  zip_file* file_ = nullptr;
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_ZIP_READER_H_
