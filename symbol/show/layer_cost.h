#ifndef TESSERA_SYMBOL_SHOW_LAYER_COST_H_
#define TESSERA_SYMBOL_SHOW_LAYER_COST_H_

#include <cstdint>
#include <span>

#include "tessera/base/tshape.h"
#include "tessera/graph/node.h"

namespace tessera::symbol_internal {

/// Returns a * b and a + b for numbers that are not negative, or the largest number if the result
/// does not fit.
int64_t SaturatedProduct(int64_t a, int64_t b);
int64_t SaturatedSum(int64_t a, int64_t b);

/// Returns the floating-point operations of one call of an operator's Forward on inputs and outputs
/// of these known shapes, as Summarize counts them.
int64_t ForwardFlops(const graph::Node& node, std::span<const TShape> in,
                     std::span<const TShape> out);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_SHOW_LAYER_COST_H_
