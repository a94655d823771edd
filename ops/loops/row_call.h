#ifndef TESSERA_OPS_LOOPS_ROW_CALL_H_
#define TESSERA_OPS_LOOPS_ROW_CALL_H_

#include <array>
#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/loops/row_segments.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Loops over the rows of arrays on the CPU, for softmax and the normalizations. The driver knows
/// axes, element types, requests and threads, so that an operator is written for one contiguous row
/// of float or double.
namespace tessera::ops_internal {

/// The rows of an array: num_outer * num_inner rows, numbered in that order. A row has `segments`
/// pieces of `run` contiguous elements.
struct RowLayout {
  index_t num_outer = 1;
  index_t num_inner = 1;     ///< neighbours, one element apart; 1 unless run is 1
  index_t outer_stride = 0;  ///< all strides are in elements
  index_t segments = 1;
  index_t segment_stride = 0;
  index_t run = 1;

  /// The rows along `axis`: one for each position on the other axes, in their order.
  static RowLayout Along(const TShape& shape, int axis);
  /// The rows of an array with `rows` rows of `length` contiguous elements.
  static RowLayout Contiguous(index_t rows, index_t length);
  /// One row for each position on `axis`, with all elements there.
  static RowLayout Channels(const TShape& shape, int axis);

  index_t NumRows() const { return num_outer * num_inner; }
  index_t Length() const { return segments * run; }
};

/// Returns the type in which an operator of arrays of these types is computed: float64 if one of
/// them is, else float32.
template <typename... Types>
DType ComputedInReal(Types... types) {
  return ((types == DType::kFloat64) || ...) ? DType::kFloat64 : DType::kFloat32;
}

/// Calls function(T()) with the type that ComputedInReal returned.
template <typename Function>
void VisitComputedIn(DType computed_in, const Function& function) {
  if (computed_in == DType::kFloat64) {
    function(double());
  } else {
    function(float());
  }
}

/// A loop over the rows of arrays of one shape.
class RowCall {
 public:
  static constexpr int kMaxOperands = 4;
  static constexpr index_t kMaxTileWidth = 512;

  explicit RowCall(const RowLayout& layout) : layout_(layout) {}

  RowCall& Read(const TBlob& array);
  /// An array that is written. It may be one of those that are read. With kNullOp, the rows are
  /// computed but not kept.
  RowCall& Write(const TBlob& array, OpReqType req);
  /// What follows for elements of the first array that is written, unless its request is kNullOp:
  /// each row's elements are taken when the row is complete. Null for nothing. RunTiles does not
  /// support it.
  RowCall& Then(const Epilogue* epilogue);

  /// Calls body(row, in, out) for each row, in parallel. in[k] are the elements of the k-th array
  /// that is read, converted to T; out[k] those of the k-th that is written, which the body must
  /// set. out[k] may be some in[j], so an element of `out` may be written when that element of all
  /// `in` is no longer needed. `cost` is that of an element, see tensor/expr/cost.h. Each `unit`
  /// successive rows are done in order by one thread.
  template <typename T, typename Body>
  void Run(index_t cost, const Body& body, index_t unit = 1) const {
    RunRows<T>(
        cost, unit, /*takes_segments=*/false,
        [](const void* context, index_t row, const RowSegments&, const T* const* in,
           T* const* out) { (*static_cast<const Body*>(context))(row, in, out); },
        &body);
  }

  /// Calls body(row, segments, in, out) for each row, as Run does. Element i of segment s of the
  /// row is in[k][s * segments.stride + i], and likewise in `out`: rows are used where they lie if
  /// their segments are long, all arrays are of T, and outputs are overwritten.
  template <typename T, typename Body>
  void RunSegments(index_t cost, const Body& body) const {
    RunRows<T>(
        cost, /*unit=*/1, /*takes_segments=*/true,
        [](const void* context, index_t row, const RowSegments& segments, const T* const* in,
           T* const* out) { (*static_cast<const Body*>(context))(row, segments, in, out); },
        &body);
  }

  /// Returns whether the rows are better computed side by side, by RunTiles: they are short, or
  /// neighbours in memory.
  bool PrefersTiles() const {
    constexpr index_t kShort = 64, kManyNeighbours = 16;
    return layout_.num_inner > 1 ? layout_.num_inner >= kManyNeighbours
                                 : layout_.segments == 1 && layout_.run <= kShort;
  }

  /// Calls body(width, distance, in, out) for tiles of `width` rows side by side, at most
  /// kMaxTileWidth: element i of row k is in[.][i * distance + k]. Otherwise as Run. Vectors of
  /// such a tile hold an element of each row, so that a row is summed without regard to its
  /// neighbours. Requires PrefersTiles().
  template <typename T, typename Body>
  void RunTiles(index_t cost, const Body& body) const {
    RunTilesOf<T>(
        cost,
        [](const void* context, index_t width, index_t distance, const T* const* in,
           T* const* out) { (*static_cast<const Body*>(context))(width, distance, in, out); },
        &body);
  }

 private:
  struct Input {
    const void* data;
    DType dtype;
  };
  struct Output {
    void* data;
    DType dtype;
    OpReqType req;
  };
  template <typename T>
  using RowBody = void (*)(const void* context, index_t row, const RowSegments& segments,
                           const T* const* in, T* const* out);
  template <typename T>
  using TileBody = void (*)(const void* context, index_t width, index_t distance,
                            const T* const* in, T* const* out);
  template <typename T>
  class Range;
  template <typename T>
  class Tiles;

  template <typename T>
  void RunRows(index_t cost, index_t unit, bool takes_segments, RowBody<T> body,
               const void* context) const;
  template <typename T>
  void RunTilesOf(index_t cost, TileBody<T> body, const void* context) const;

  RowLayout layout_;
  int num_in_ = 0;
  int num_out_ = 0;
  std::array<Input, kMaxOperands> in_{};
  std::array<Output, kMaxOperands> out_{};
  const Epilogue* epilogue_ = nullptr;
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_ROW_CALL_H_
