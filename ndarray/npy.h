#ifndef TESSERA_NDARRAY_NPY_H_
#define TESSERA_NDARRAY_NPY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ndarray/named_array.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// Write one array as NumPy's `.npy`, version 1.0: to a file, which appears when it is complete and
/// on disk, or into the returned bytes. Wait for the array, and throw its error.
///
/// Throw Error(kUnimplemented) for bfloat16, for which NumPy has no type, and
/// Error(kInvalidArgument) if the array is_none(). SaveNpy throws errors of the file as
/// SaveNDArrays does.
void SaveNpy(const std::string& path, const NDArray& array);
std::string SerializeNpy(const NDArray& array);

/// Read an array in NumPy's `.npy` format, version 1.0 to 3.0, into a CPU array. Big-endian
/// elements and Fortran order are converted.
///
/// Throw Error that names the file: kNotFound; kFailedPrecondition (no permission, not an ordinary
/// file); kUnimplemented for element types without a DType, such as complex numbers, texts, objects
/// and structures, and for a rank above TShape::kMaxRank; kDataLoss for inconsistent data, and for
/// bytes that follow the array. No memory is allocated for sizes that the file cannot hold.
NDArray LoadNpy(const std::string& path);
NDArray DeserializeNpy(std::string_view bytes);

/// How the arrays of an `.npz` file are stored.
enum class NpzCompression {
  kStored,    ///< as they are, like numpy.savez
  kDeflated,  ///< compressed, like numpy.savez_compressed
};

/// Write named arrays as NumPy's `.npz`: a zip archive with an entry NAME.npy for each. The archive
/// is made in memory. Equal arrays give equal bytes.
///
/// Throw what SaveNpy throws, and Error(kInvalidArgument) if two arrays have one name or a name is
/// not UTF-8 or contains a zero byte.
void SaveNpz(const std::string& path, std::span<const NamedArray> arrays,
             NpzCompression compression = NpzCompression::kStored);
std::string SerializeNpz(std::span<const NamedArray> arrays,
                         NpzCompression compression = NpzCompression::kStored);

/// Limits of LoadNpz and DeserializeNpz.
struct NpzLimits {
  /// The most memory for the arrays, in bytes. Compressed data may become a thousand times larger.
  /// Default: four times the file's size and 64 MiB.
  std::optional<int64_t> size_bytes;
};

/// Read the arrays of an `.npz` file in the archive's order, stored or compressed. Every entry must
/// be an array; its name is returned without `.npy`. Checksums are verified.
///
/// Throw what LoadNpy throws; kUnimplemented also for encrypted entries, for compression other than
/// deflate, and for entries that are no arrays; kResourceExhausted if the arrays take more than the
/// limit.
std::vector<NamedArray> LoadNpz(const std::string& path, const NpzLimits& limits = {});
std::vector<NamedArray> DeserializeNpz(std::string_view bytes, const NpzLimits& limits = {});

}  // namespace tessera

#endif  // TESSERA_NDARRAY_NPY_H_
