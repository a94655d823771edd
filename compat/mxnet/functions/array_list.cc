// Lists of arrays for clients of MXNet's c_predict_api, which knows no other arrays.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/extents.h"
#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/ndarray/serialization.h"

namespace tessera::mxnet {
namespace {

/// An array of a file.
struct ListedArray {
  std::string name;           ///< empty if the file has no names
  std::vector<float> values;  ///< converted from any type
  std::vector<uint32_t> shape;
};

using ArrayList = std::vector<ListedArray>;

Handles<ArrayList>& ArrayLists() {
  static auto* const lists = new Handles<ArrayList>("an NDList", 8);
  return *lists;
}

ArrayList ReadList(std::string_view bytes) {
  ArrayList list;
  for (const NamedArray& named : DeserializeNDArrayList(bytes).arrays) {
    ListedArray& listed = list.emplace_back();
    listed.name = named.name;
    listed.shape = ExtentsForClient<uint32_t>("MXNDListCreate", named.array.shape());
    if (!named.array.is_none()) listed.values = named.array.ToVector();
  }
  return list;
}

}  // namespace
}  // namespace tessera::mxnet

using tessera::InvalidArgument;
using tessera::OutOfRange;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXNDListCreate(const char* nd_file_bytes, int nd_file_size, NDListHandle* out,
                                     uint32_t* out_length) {
  return ApiCall([&] {
    NotNull(nd_file_bytes, "nd_file_bytes");
    NotNull(out, "out");
    NotNull(out_length, "out_length");
    if (nd_file_size < 0) {
      throw InvalidArgument("MXNDListCreate: nd_file_size is ", nd_file_size);
    }
    ArrayList list = ReadList({nd_file_bytes, static_cast<size_t>(nd_file_size)});
    *out_length = static_cast<uint32_t>(list.size());
    *out = ArrayLists().Add(std::move(list));
  });
}

TESSERA_MXNET_API int MXNDListGet(NDListHandle handle, uint32_t index, const char** out_key,
                                  const float** out_data, const uint32_t** out_shape,
                                  uint32_t* out_ndim) {
  return ApiCall([&] {
    NotNull(out_key, "out_key");
    NotNull(out_data, "out_data");
    NotNull(out_shape, "out_shape");
    NotNull(out_ndim, "out_ndim");
    // The results live as long as the handle.
    const std::shared_ptr<const ArrayList> list = ArrayLists().Get(handle);
    if (index >= list->size()) {
      throw OutOfRange("MXNDListGet: array ", index, " was asked for, but there are ",
                       list->size());
    }
    const ListedArray& listed = (*list)[index];
    *out_key = listed.name.c_str();
    *out_data = listed.values.data();
    *out_shape = listed.shape.data();
    *out_ndim = static_cast<uint32_t>(listed.shape.size());
  });
}

TESSERA_MXNET_API int MXNDListFree(NDListHandle handle) {
  return ApiCall([&] { ArrayLists().Remove(handle); });
}
