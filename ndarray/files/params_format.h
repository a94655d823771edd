#ifndef TESSERA_NDARRAY_FILES_PARAMS_FORMAT_H_
#define TESSERA_NDARRAY_FILES_PARAMS_FORMAT_H_

// MXNet's `.params` files. All numbers are little-endian.
//
//   file    u64 0x112, u64 reserved 0, u64 number of arrays, arrays,
//           u64 number of names (that of arrays, or 0), names,
//           from Tessera: u32 0x54534744, u64 digest (or neither),
//                         u32 0x4b434843, u32 CRC-32 of all bytes before these eight
//   name    u64 length, bytes
//   array   V0  u32 rank, u32 extents[rank], context, type, elements
//           V1  u32 0xf993fac8, shape, context, type, elements
//           V2  u32 0xf993fac9, i32 storage type, [shape of the stored elements,] shape, context,
//               type, [auxiliary types and shapes,] elements[, auxiliary elements]
//           V3  u32 0xf993faca, the rest as V2
//   shape   i32 rank, i64 extents[rank]
//   context i32 device type, i32 device number
//   type    i32, the numbers of DType
//
// Up to V2 an array of rank 0 is one without a shape, and ends after the rank; in V3 that is rank
// -1, and rank 0 is a scalar. Storage type 0 is dense. Storage types 1 (row_sparse) and 2 (csr) are
// sparse and have the fields in brackets: one auxiliary array (rows) or two (row ends, columns), of
// int64; Tessera writes them as V2, which MXNet reads without NumPy semantics.
// Source: MXNet 1.9.1, src/ndarray/ndarray.cc (Save, Load, LegacyLoad).

#include <zlib.h>

#include <bit>
#include <cstdint>

namespace tessera::ndarray_internal {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian; this host would need to swap bytes");

inline constexpr uint64_t kListMagic = 0x112;
inline constexpr uint32_t kMagicV1 = 0xf993fac8;
inline constexpr uint32_t kMagicV2 = 0xf993fac9;
inline constexpr uint32_t kMagicV3 = 0xf993faca;
// "CHCK". MXNet reads no further than the names, so a file may have more data after them.
inline constexpr uint32_t kChecksumMagic = 0x4b434843;
inline constexpr int64_t kChecksumBytes = 2 * sizeof(uint32_t);
// "DGST"
inline constexpr uint32_t kDigestMagic = 0x54534744;
inline constexpr int64_t kDigestBytes = sizeof(uint32_t) + sizeof(uint64_t);
inline constexpr int32_t kUndefinedStorage = -1;
inline constexpr int32_t kDenseStorage = 0;
inline constexpr int32_t kCsrStorage = 2;

/// The CRC-32 of the added bytes.
class Checksum {
 public:
  void Add(const void* data, int64_t size_bytes) {
    // zlib restarts if the address is null, which an empty range may have.
    if (size_bytes == 0) return;
    value_ = crc32_z(value_, static_cast<const Bytef*>(data), static_cast<size_t>(size_bytes));
  }
  uint32_t value() const { return static_cast<uint32_t>(value_); }

 private:
  uLong value_ = crc32_z(0, nullptr, 0);
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_PARAMS_FORMAT_H_
