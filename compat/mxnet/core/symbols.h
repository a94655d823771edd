#ifndef TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_
#define TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/ops/parameter.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {

/// An operator with its parameters that has no inputs yet.
struct AtomicSymbol {
  std::string op;
  ParameterMap parameters;  ///< and attributes, as Symbol::Apply takes them
};

/// The object behind a symbol's handle. Composing changes it.
struct ApiSymbol {
  Symbol symbol;
  std::optional<AtomicSymbol> atomic;  ///< until it is composed
};

/// The handles of symbols.
Handles<ApiSymbol>& Symbols();

/// Returns the symbol of a handle; an operator without inputs gets variables for them.
Symbol SymbolOf(SymbolHandle handle);
/// Returns a new handle.
SymbolHandle AddSymbol(Symbol symbol);

/// Returns a shape as clients write it: unless the thread uses NumPy's shapes, 0 is an unknown
/// extent and rank 0 an unknown rank.
template <typename Extent>
TShape ShapeFromApi(const Extent* extents, size_t rank);

/// Returns shape i of a client's list, whose extents are those from offsets[i] to offsets[i + 1].
/// Throws Error(kInvalidArgument) if that is no range of at most TShape::kMaxRank extents.
template <typename Extent, typename Offset>
TShape ShapeFromApi(const Extent* extents, const Offset* offsets, size_t i) {
  const auto begin = static_cast<int64_t>(offsets[i]), end = static_cast<int64_t>(offsets[i + 1]);
  if (begin < 0 || end < begin || end - begin > TShape::kMaxRank) {
    throw InvalidArgument("shape ", i, " of the list has the extents from ", begin, " to ", end,
                          ", expected 0 to ", int64_t{TShape::kMaxRank}, " extents");
  }
  if (begin != end) NotNull(extents, "the extents of shapes");
  return ShapeFromApi(extents + begin, static_cast<size_t>(end - begin));
}

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_
