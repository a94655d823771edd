#ifndef TESSERA_OPS_LOOPS_MAP_PAIRS_H_
#define TESSERA_OPS_LOOPS_MAP_PAIRS_H_

#include "tessera/ops/loops/map.h"

namespace tessera::ops_internal {

/// Returns the function outer(…, inner(a, b), …) of floating-point elements, in which inner(a, b)
/// is operand `position` of `outer`; null if there is none. Its operands are a and b, then the
/// other operand of `outer` if that has two. It rounds twice, and so gives the bits of two maps,
/// but stores each element once: a b + c, max(a + b, 0).
const MapFunction* FindMapPair(MapKind inner, MapKind outer, int position);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_MAP_PAIRS_H_
