// Inference of shapes and types. Functions of MXNet's C API; see types.h.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/extents.h"
#include "tessera/compat/mxnet/core/symbols.h"

namespace tessera::mxnet {

namespace {

/// A list of shapes as clients read it.
template <typename Extent, typename Rank, typename Count>
struct ShapeList {
  Count* size;
  const Rank** ranks;
  const Extent*** extents;

  void Put(const char* function, const std::vector<TShape>& shapes) const {
    Results& results = Results::OfThread();
    std::vector<Rank> all_ranks;
    std::vector<const Extent*> all_extents;
    for (const TShape& shape : shapes) {
      all_ranks.push_back(
          static_cast<Rank>(NumpyShape() ? shape.ndim() : std::max(shape.ndim(), 0)));
      all_extents.push_back(results.Keep(ExtentsForClient<Extent>(function, shape)));
    }
    *NotNull(size, "shape_size") = static_cast<Count>(shapes.size());
    *NotNull(ranks, "shape_ndim") = results.Keep(std::move(all_ranks));
    *NotNull(extents, "shape_data") = results.Keep(std::move(all_extents));
  }
};

/// Returns the values that a client gives by name, or in the order of the arguments. Inference
/// refuses names that no variable has.
template <typename T, typename ValueOf>
std::map<std::string, T> Known(const Symbol& symbol, uint32_t count, const char** keys,
                               const ValueOf& value_of) {
  const std::vector<std::string> names =
      keys == nullptr ? symbol.ListArguments() : TextsOf(keys, count, "keys");
  if (names.size() < count) {
    throw InvalidArgument("inference: ", count, " values were given for ", names.size(),
                          " arguments");
  }
  std::map<std::string, T> known;
  for (uint32_t i = 0; i < count; ++i) known[names[i]] = value_of(i);
  return known;
}

template <typename Index, typename Extent, typename Rank, typename OutExtent, typename Count>
void InferShape(const char* function, SymbolHandle handle, bool partial, uint32_t count,
                const char** keys, const Index* offsets, const Extent* extents,
                const ShapeList<OutExtent, Rank, Count>& in,
                const ShapeList<OutExtent, Rank, Count>& out,
                const ShapeList<OutExtent, Rank, Count>& aux, int* complete) {
  const Symbol symbol = *SymbolOf(handle);
  if (count != 0) NotNull(offsets, "arg_ind_ptr");
  const auto known = Known<TShape>(
      symbol, count, keys, [&](uint32_t i) { return ShapeFromApi(function, extents, offsets, i); });
  const InferredShapes shapes =
      partial ? symbol.InferShapePartial(known) : symbol.InferShape(known);
  in.Put(function, shapes.arguments);
  out.Put(function, shapes.outputs);
  aux.Put(function, shapes.aux_states);
  // Clients take partial shapes as they are.
  *NotNull(complete, "complete") = partial || shapes.complete;
}

void PutTypes(const std::vector<DType>& types, uint32_t* size, const int** data) {
  std::vector<int> numbers;
  for (const DType type : types) numbers.push_back(static_cast<int>(type));
  *NotNull(size, "type_size") = static_cast<uint32_t>(numbers.size());
  *NotNull(data, "type_data") = Results::OfThread().Keep(std::move(numbers));
}

void InferType(SymbolHandle handle, bool partial, uint32_t count, const char** keys,
               const int* types, uint32_t* in_size, const int** in_data, uint32_t* out_size,
               const int** out_data, uint32_t* aux_size, const int** aux_data, int* complete) {
  const Symbol symbol = *SymbolOf(handle);
  ListOf(types, count, "arg_type_data");
  const auto known = Known<DType>(symbol, count, keys, [&](uint32_t i) {
    return types[i] < 0 ? DType::kUnknown : TypeOf(types[i]);
  });
  const InferredTypes inferred = partial ? symbol.InferTypePartial(known) : symbol.InferType(known);
  PutTypes(inferred.arguments, in_size, in_data);
  PutTypes(inferred.outputs, out_size, out_data);
  PutTypes(inferred.aux_states, aux_size, aux_data);
  *NotNull(complete, "complete") = partial || inferred.complete;
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

// Six functions with one meaning: partial inference or not, and three types of extents.
#define TESSERA_INFER_SHAPE(function, partial, Index, Extent, Rank, OutExtent, Count)        \
  TESSERA_MXNET_API int function(                                                            \
      SymbolHandle sym, uint32_t num_args, const char** keys, const Index* arg_ind_ptr,      \
      const Extent* arg_shape_data, Count* in_shape_size, const Rank** in_shape_ndim,        \
      const OutExtent*** in_shape_data, Count* out_shape_size, const Rank** out_shape_ndim,  \
      const OutExtent*** out_shape_data, Count* aux_shape_size, const Rank** aux_shape_ndim, \
      const OutExtent*** aux_shape_data, int* complete) {                                    \
    return ApiCall([&] {                                                                     \
      using List = ShapeList<OutExtent, Rank, Count>;                                        \
      InferShape(#function, sym, partial, num_args, keys, arg_ind_ptr, arg_shape_data,       \
                 List{in_shape_size, in_shape_ndim, in_shape_data},                          \
                 List{out_shape_size, out_shape_ndim, out_shape_data},                       \
                 List{aux_shape_size, aux_shape_ndim, aux_shape_data}, complete);            \
    });                                                                                      \
  }

TESSERA_INFER_SHAPE(MXSymbolInferShape, false, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t)
TESSERA_INFER_SHAPE(MXSymbolInferShapePartial, true, uint32_t, uint32_t, uint32_t, uint32_t,
                    uint32_t)
TESSERA_INFER_SHAPE(MXSymbolInferShapeEx, false, uint32_t, int, int, int, uint32_t)
TESSERA_INFER_SHAPE(MXSymbolInferShapePartialEx, true, uint32_t, int, int, int, uint32_t)
TESSERA_INFER_SHAPE(MXSymbolInferShapeEx64, false, int64_t, int64_t, int, int64_t, size_t)
TESSERA_INFER_SHAPE(MXSymbolInferShapePartialEx64, true, int64_t, int64_t, int, int64_t, size_t)
#undef TESSERA_INFER_SHAPE

TESSERA_MXNET_API int MXSymbolInferType(SymbolHandle sym, uint32_t num_args, const char** keys,
                                        const int* arg_type_data, uint32_t* in_type_size,
                                        const int** in_type_data, uint32_t* out_type_size,
                                        const int** out_type_data, uint32_t* aux_type_size,
                                        const int** aux_type_data, int* complete) {
  return ApiCall([&] {
    InferType(sym, false, num_args, keys, arg_type_data, in_type_size, in_type_data, out_type_size,
              out_type_data, aux_type_size, aux_type_data, complete);
  });
}

TESSERA_MXNET_API int MXSymbolInferTypePartial(SymbolHandle sym, uint32_t num_args,
                                               const char** keys, const int* arg_type_data,
                                               uint32_t* in_type_size, const int** in_type_data,
                                               uint32_t* out_type_size, const int** out_type_data,
                                               uint32_t* aux_type_size, const int** aux_type_data,
                                               int* complete) {
  return ApiCall([&] {
    InferType(sym, true, num_args, keys, arg_type_data, in_type_size, in_type_data, out_type_size,
              out_type_data, aux_type_size, aux_type_data, complete);
  });
}
