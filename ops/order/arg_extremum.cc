// argmax, argmin and argmax_channel: the position of the largest or smallest element on an axis.
//
// The first of several that are equal counts; NaN counts as larger and as smaller than every
// number. Without an axis, the array counts as one row. argmax_channel is argmax on axis 1. The
// gradient is 0.
//
// Shapes: data any, with at least one element on the axis; out without the axis, or with extent 1
// there if keepdims; (1) if no axis is left. Types: data of any type; out of data's type, which
// rounds or wraps positions that it cannot hold, as in MXNet. Runs on the CPU.
#include <algorithm>
#include <limits>
#include <optional>

#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/order/axis_rows.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct ArgExtremumParameters {
  std::optional<int> axis;
  bool keepdims = false;

  static void Declare(ParameterSchema<ArgExtremumParameters>& schema) {
    using P = ArgExtremumParameters;
    schema.Optional("axis", &P::axis, "the axis; None searches the whole array");
    schema.Optional("keepdims", &P::keepdims, "whether the axis stays with extent 1");
  }
};

struct ArgmaxChannelParameters {
  static constexpr std::optional<int> axis = 1;
  static constexpr bool keepdims = false;

  static void Declare(ParameterSchema<ArgmaxChannelParameters>&) {}
};

template <typename Parameters>
class ArgExtremumProperty final : public ParameterizedProperty<Parameters> {
 public:
  bool ArgumentHasGradient(int) const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const TShape& data = (*in_shape)[0];
    if (!data.rank_known()) return false;
    const std::optional<int> axis = this->param().axis;
    const std::span<const int> axes = axis ? std::span(&*axis, 1) : std::span<const int>();
    const ReducedAxes reduced = FindAxes(this->TypeString(), axes, false, data.ndim());
    for (int d = 0; d < data.ndim(); ++d) {
      if (reduced[static_cast<size_t>(d)] && data[d] == 0) {
        throw InvalidArgument(this->TypeString(), ": data has shape ", data,
                              ", expected at least one element to choose from");
      }
    }
    MergeShape(*this, "output", &(*out_shape)[0],
               ReducedShape(data, reduced, this->param().keepdims));
    return data.known() && (*out_shape)[0].known();
  }
};

/// Returns whether an element comes before the best one so far, which is not NaN.
template <bool kLargest, typename T>
bool IsBetter(T element, T best) {
  // NaN is better than every number.
  return kLargest ? !(element <= best) : !(element >= best);
}

template <typename T>
struct Best {
  T element;
  int64_t position = 0;
};

template <bool kLargest, typename T>
Best<T> Worst() {
  using Limits = std::numeric_limits<T>;
  if (Limits::has_infinity) return {kLargest ? -Limits::infinity() : Limits::infinity()};
  return {kLargest ? Limits::lowest() : Limits::max()};
}

/// The elements that are compared at once, and converted where their type is another one.
constexpr index_t kPiece = 512;
/// A row is cut into parts of so many elements, which threads share.
constexpr index_t kPart = 128 * kPiece;

template <typename T>
class Search {
 public:
  Search(const TBlob& data, const AxisRows& rows)
      : data_(static_cast<const char*>(data.dptr_)), dtype_(data.type_flag_), rows_(rows) {}

  template <bool kLargest>
  std::vector<int64_t> Run() const {
    std::vector<int64_t> positions(static_cast<size_t>(rows_.NumRows()));
    if (rows_.inner == 1) {
      SearchRows<kLargest>(positions.data());
    } else {
      SearchColumns<kLargest>(positions.data());
    }
    return positions;
  }

 private:
  /// Returns n elements from `offset` on as T.
  const T* Load(index_t offset, index_t n, T* buffer) const {
    const char* const from = data_ + offset * DTypeSizeBytes(dtype_);
    if (dtype_ == kDTypeOf<T>) return reinterpret_cast<const T*>(from);
    LoadRow(from, dtype_, 1, n, buffer);
    return buffer;
  }

  template <bool kLargest>
  void SearchRows(int64_t* positions) const {
    const index_t parts = (rows_.n + kPart - 1) / kPart, count = rows_.outer * parts;
    std::vector<Best<T>> found(static_cast<size_t>(count));
    ParallelFor(count, StepsPerTask(std::min(rows_.n, kPart)), [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        const index_t first = i % parts * kPart;
        found[static_cast<size_t>(i)] =
            SearchPart<kLargest>(i / parts, first, std::min(rows_.n, first + kPart));
      }
    });
    for (index_t row = 0; row < rows_.outer; ++row) {
      Best<T> best = Worst<kLargest, T>();
      for (index_t part = 0; part < parts && best.element == best.element; ++part) {
        const Best<T>& other = found[static_cast<size_t>(row * parts + part)];
        if (IsBetter<kLargest>(other.element, best.element)) best = other;
      }
      positions[row] = best.position;
    }
  }

  template <bool kLargest>
  Best<T> SearchPart(index_t row, index_t begin, index_t end) const {
    T buffer[kPiece];
    Best<T> best = Worst<kLargest, T>();
    for (; begin < end; begin += kPiece) {
      const index_t n = std::min(kPiece, end - begin);
      const T* const elements = Load(row * rows_.n + begin, n, buffer);
      // A piece seldom has a better element, and the compiler makes vectors of this loop.
      int any = 0;
      for (index_t i = 0; i < n; ++i) any |= IsBetter<kLargest>(elements[i], best.element);
      if (any == 0) continue;
      for (index_t i = 0; i < n; ++i) {
        if (!IsBetter<kLargest>(elements[i], best.element)) continue;
        best = {elements[i], begin + i};
        if (elements[i] != elements[i]) return best;
      }
    }
    return best;
  }

  template <bool kLargest>
  void SearchColumns(int64_t* positions) const {
    const index_t blocks = (rows_.inner + kPiece - 1) / kPiece;
    const index_t work = rows_.n * std::min(rows_.inner, kPiece);
    ParallelFor(rows_.outer * blocks, StepsPerTask(work, 1), [&](index_t begin, index_t end) {
      T buffer[kPiece], best[kPiece];
      for (index_t i = begin; i < end; ++i) {
        const index_t outer = i / blocks, column = i % blocks * kPiece;
        const index_t n = std::min(kPiece, rows_.inner - column);
        int64_t* const found = positions + outer * rows_.inner + column;
        std::fill_n(best, n, Worst<kLargest, T>().element);
        std::fill_n(found, n, int64_t{0});
        for (index_t k = 0; k < rows_.n; ++k) {
          const T* const elements = Load((outer * rows_.n + k) * rows_.inner + column, n, buffer);
          for (index_t j = 0; j < n; ++j) {
            const bool better = IsBetter<kLargest>(elements[j], best[j]) & (best[j] == best[j]);
            best[j] = better ? elements[j] : best[j];
            found[j] = better ? k : found[j];
          }
        }
      }
    });
  }

  const char* const data_;
  const DType dtype_;
  const AxisRows rows_;
};

template <typename Parameters, bool kLargest>
class ArgExtremumOperator final : public Operator {
 public:
  ArgExtremumOperator(const Parameters& param, std::span<const TShape> in_shape)
      : axis_(AxisPosition(param.axis, in_shape[0].ndim())) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const AxisRows rows = AxisRows::Of(in_data[0].shape_, axis_);
    VisitComparedIn(in_data[0].type_flag_, [&](auto zero) {
      using T = decltype(zero);
      const std::vector<int64_t> positions = Search<T>(in_data[0], rows).template Run<kLargest>();
      RowWriter<int64_t>(out_data[0], req[0])
          .Write(0, static_cast<index_t>(positions.size()), positions.data());
    });
  }
  void Backward(const OpContext&, std::span<const TBlob>, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType>,
                std::span<const TBlob>) override {}

 private:
  const std::optional<int> axis_;
};

[[maybe_unused]] const bool kArgmax =
    RegisterTypedOperator<ArgExtremumProperty<ArgExtremumParameters>,
                          ArgExtremumOperator<ArgExtremumParameters, true>>(
        TESSERA_TABLE_PLACE, "argmax", "The position of the largest element on an axis.",
        TakenTypes::kAny);
[[maybe_unused]] const bool kArgmin =
    RegisterTypedOperator<ArgExtremumProperty<ArgExtremumParameters>,
                          ArgExtremumOperator<ArgExtremumParameters, false>>(
        TESSERA_TABLE_PLACE, "argmin", "The position of the smallest element on an axis.",
        TakenTypes::kAny);
[[maybe_unused]] const bool kArgmaxChannel =
    RegisterTypedOperator<ArgExtremumProperty<ArgmaxChannelParameters>,
                          ArgExtremumOperator<ArgmaxChannelParameters, true>>(
        TESSERA_TABLE_PLACE, "argmax_channel", "The position of the largest element on axis 1.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera
