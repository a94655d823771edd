#ifndef TESSERA_NDARRAY_SERIALIZATION_H_
#define TESSERA_NDARRAY_SERIALIZATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ndarray/named_array.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// The meaning of shapes in MXNet's `.params` format, which the version of an array states. MXNet
/// reads arrays of the meaning that its thread uses, and no others.
enum class ShapeMeaning {
  kMixed,   ///< V2, and V3 for scalars and empty arrays
  kLegacy,  ///< V2 or an earlier version; scalars, which it cannot represent, are V3
  kNumpy,   ///< V3: MXNet reads it with NumPy's shapes on
};

/// Writes named arrays in MXNet's `.params` format: list magic 0x112, and each array as V2. Scalars
/// and empty arrays, which V2 cannot represent, are written as V3; MXNet reads it with NumPy
/// semantics on. Sparse arrays are V2, with what they store. A checksum follows, which MXNet does
/// not read. The file is written beside its final name and renamed when it is complete and on disk,
/// so that a failure or a crash keeps an earlier file. Waits for the arrays, and throws their
/// errors before it accesses the disk.
///
/// `digest`, if given, is stored beside the checksum: the caller's digest of a file that belongs to
/// the arrays, such as their network.
///
/// Throws Error that names the file: kInvalidArgument for an entry that is_none(), kNotFound (the
/// folder), kResourceExhausted (disk full), kFailedPrecondition (no permission, not an ordinary
/// file).
void SaveNDArrays(const std::string& path, const std::map<std::string, NDArray>& arrays,
                  std::optional<uint64_t> digest = std::nullopt);

/// An array in a file that an NDArray cannot hold.
struct LeftOutArray {
  std::string name;    ///< its name in the file
  std::string reason;  ///< e.g. "rank 9 is not supported, at most 8"
};

/// Reads a file that SaveNDArrays or MXNet wrote (dense arrays in any version, V0 of 2015 to V3,
/// and sparse ones) into CPU arrays. What a sparse array stores is checked (sparse::CheckFormat).
/// Arrays of a file without names are called "0", "1", … in their order. An array that MXNet saved
/// before it had a shape is_none(). If `left_out` is given, it receives the arrays that an NDArray
/// cannot hold, those of rank 9 and more and sparse ones with indices that are not int64, and the
/// others are returned. If `digest` is given, it receives the digest that SaveNDArrays was given.
///
/// Throws Error that names the file: kNotFound; kFailedPrecondition (no permission, not an ordinary
/// file); kUnimplemented with the names of arrays that an NDArray cannot hold, unless `left_out` is
/// given; kDataLoss for inconsistent data, with the offset, the value found and the value expected,
/// and for a wrong checksum; kResourceExhausted for more arrays than fit in four times the file's
/// size and 64 MiB. No memory is allocated for sizes that the file cannot hold.
std::map<std::string, NDArray> LoadNDArrays(const std::string& path,
                                            std::vector<LeftOutArray>* left_out = nullptr,
                                            std::optional<uint64_t>* digest = nullptr);

/// The contents of a `.params` file in its order.
struct NDArrayList {
  std::vector<NamedArray> arrays;  ///< the arrays; names are empty if has_names is false
  bool has_names = true;           ///< false for a list without names, as MXNet's nd.save([a, b])
  std::optional<uint64_t> digest;  ///< as in SaveNDArrays
  /// The versions in which the arrays are written, or were read. An empty list is kMixed.
  ShapeMeaning shapes = ShapeMeaning::kMixed;
};

/// Writes a list as SaveNDArrays writes named arrays, in the list's order. Throws
/// Error(kInvalidArgument) if two arrays have one name, and what SaveNDArrays throws.
void SaveNDArrayList(const std::string& path, const NDArrayList& list);

/// Returns the bytes of the file that SaveNDArrayList writes. Throws its errors of the arrays.
std::string SerializeNDArrayList(const NDArrayList& list);

/// Read what LoadNDArrays reads, from a file or from its bytes, and keep the order. `left_out` and
/// errors are those of LoadNDArrays; an array without a name is left out by its number.
NDArrayList LoadNDArrayList(const std::string& path, std::vector<LeftOutArray>* left_out = nullptr);
NDArrayList DeserializeNDArrayList(std::string_view bytes,
                                   std::vector<LeftOutArray>* left_out = nullptr);

/// Returns the bytes that an array has within a `.params` file. MXNet calls them raw bytes
/// (MXNDArraySaveRawBytes). They have no checksum. Waits for the array, and throws its error.
/// Throws Error(kInvalidArgument) if it is_none().
std::string SerializeArray(const NDArray& array, ShapeMeaning shapes = ShapeMeaning::kMixed);

/// Reads the bytes of one array, of any version from V0 to V3, into a CPU array. If `shapes` is
/// given, it receives kLegacy or kNumpy. Throws Error(kUnimplemented) for an array that an NDArray
/// cannot hold, and Error(kDataLoss) for inconsistent data and for bytes that follow the array.
NDArray DeserializeArray(std::string_view bytes, ShapeMeaning* shapes = nullptr);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_SERIALIZATION_H_
