#ifndef TESSERA_NDARRAY_SAFETENSORS_H_
#define TESSERA_NDARRAY_SAFETENSORS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ndarray/named_array.h"

namespace tessera {

/// The contents of a safetensors file.
struct Safetensors {
  std::vector<NamedArray> arrays;               ///< the arrays, whose names are distinct
  std::map<std::string, std::string> metadata;  ///< `__metadata__`, texts by key
};

/// Write a safetensors file: to a file, which appears when it is complete and on disk, or into the
/// returned bytes. Arrays lie in the order that the format's own library chooses: types from
/// uint64 down to bool, then names. Wait for the arrays, and throw their errors.
///
/// Throw Error(kInvalidArgument) for an array that is_none(), for two arrays of one name, for the
/// name `__metadata__`, for a name or metadata that is not UTF-8, and if the header would be longer
/// than 100 MB. SaveSafetensors throws errors of the file as SaveNDArrays does.
void SaveSafetensors(const std::string& path, const Safetensors& contents);
std::string SerializeSafetensors(const Safetensors& contents);

/// Read a safetensors file into CPU arrays, in the order of their elements in the file.
///
/// Throw Error that names the file: kNotFound; kFailedPrecondition (no permission, not an ordinary
/// file); kUnimplemented for element types without a DType, such as F8_E4M3, and for a rank above
/// TShape::kMaxRank; kResourceExhausted for more arrays than fit in four times the file's size and
/// 64 MiB; kDataLoss for a header that is longer than 100 MB or is not the JSON that the format
/// asks for, for names that occur twice, and for elements that overlap, leave bytes out, or have
/// another size than their shape. No memory is allocated for sizes that the file cannot hold. The
/// format has no checksum: changed elements are not noticed.
Safetensors LoadSafetensors(const std::string& path);
Safetensors DeserializeSafetensors(std::string_view bytes);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_SAFETENSORS_H_
