// sort, argsort and topk: the elements along an axis in ascending or descending order.
//
//   sort     the elements in order
//   argsort  their positions on the axis
//   topk     the first k of the order: elements, positions, both, or a mask that is 1 at each
//
// Without an axis, the array counts as one row of all elements, and so do the outputs, except the
// mask, which is always like data. k < 1 stands for all elements. The gradient of an element goes
// to the place it came from, for which a hidden output has the positions. Positions and masks have
// gradient 0.
//
// NaN counts as greater than every number. Equal elements come in the order in which std::sort
// leaves them, or std::partial_sort if 8 k is at most the length of the axis, as in MXNet on the
// CPU (see row_order.h); up to 16 elements, that is the order on the axis.
//
// Types: data and its elements in the outputs of any type; positions of type `dtype`, which rounds
// or wraps what it cannot hold. Runs on the CPU.
#include <algorithm>
#include <optional>

#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/order/axis_rows.h"
#include "tessera/ops/order/row_order.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

enum class Returns { kIndices, kValues, kMask, kBoth };

/// The parameters of all three operators.
struct Order {
  std::optional<int64_t> axis;
  int64_t k;  ///< all elements if below 1
  bool is_ascend;
  Returns returns;
  DType index_type;

  bool HasValues() const { return returns == Returns::kValues || returns == Returns::kBoth; }
};

struct SortParameters {
  std::optional<int64_t> axis = -1;
  bool is_ascend = true;

  static void Declare(ParameterSchema<SortParameters>& schema) {
    using P = SortParameters;
    schema.Optional("axis", &P::axis, "the axis; None orders all elements as one row");
    schema.Optional("is_ascend", &P::is_ascend, "whether the smallest element comes first");
  }
  operator Order() const {  // NOLINT: the implementation takes either
    return {axis, 0, is_ascend, Returns::kValues, DType::kInt64};
  }
};

std::vector<std::pair<std::string, DType>> IndexTypes() {
  return {{"float16", DType::kFloat16}, {"float32", DType::kFloat32}, {"float64", DType::kFloat64},
          {"int32", DType::kInt32},     {"int64", DType::kInt64},     {"uint8", DType::kUint8}};
}

struct ArgsortParameters {
  std::optional<int64_t> axis = -1;
  bool is_ascend = true;
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<ArgsortParameters>& schema) {
    using P = ArgsortParameters;
    schema.Optional("axis", &P::axis, "the axis; None orders all elements as one row");
    schema.Optional("is_ascend", &P::is_ascend, "whether the smallest element comes first");
    schema.Choice("dtype", &P::dtype, IndexTypes(), "element type of the output");
  }
  operator Order() const {  // NOLINT: the implementation takes either
    return {axis, 0, is_ascend, Returns::kIndices, dtype};
  }
};

struct TopkParameters {
  std::optional<int64_t> axis = -1;
  int64_t k = 1;
  Returns ret_typ = Returns::kIndices;
  bool is_ascend = false;
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<TopkParameters>& schema) {
    using P = TopkParameters;
    schema.Optional("axis", &P::axis, "the axis; None orders all elements as one row");
    schema.Optional("k", &P::k, "the number of elements; all if below 1");
    schema.Choice("ret_typ", &P::ret_typ,
                  {{"both", Returns::kBoth},
                   {"indices", Returns::kIndices},
                   {"mask", Returns::kMask},
                   {"value", Returns::kValues}},
                  "the outputs: elements, positions on the axis, both, or 1 at the elements");
    schema.Optional("is_ascend", &P::is_ascend, "whether the smallest elements are chosen");
    schema.Choice("dtype", &P::dtype, IndexTypes(), "element type of the positions");
  }
  operator Order() const {  // NOLINT: the implementation takes either
    return {axis, k, is_ascend, ret_typ, dtype};
  }
};

template <typename Parameters>
class OrderProperty final : public ParameterizedProperty<Parameters> {
 public:
  std::vector<std::string> ListOutputs() const override {
    switch (order().returns) {
      case Returns::kValues:
        return {"output0", "output1"};
      case Returns::kBoth:
        return {"output0", "output1", "positions"};
      default:
        return {"output"};
    }
  }
  int NumVisibleOutputs() const override { return order().returns == Returns::kBoth ? 2 : 1; }
  bool ArgumentHasGradient(int) const override { return order().HasValues(); }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    for (const TShape& other : *out_shape) MergeShape(*this, "output", &out, other);
    const bool is_flat = !order().axis && order().returns != Returns::kMask;
    if (!is_flat && !data.rank_known() && out.rank_known()) data = TShape::OfRank(out.ndim());
    TShape ordered = is_flat ? TShape::OfRank(1) : data;
    if (data.rank_known()) ordered = OrderedShape(data);
    if (is_flat && order().k > 0) ordered[0] = order().k;
    MergeShape(*this, "output", &out, ordered);
    for (TShape& other : *out_shape) MergeShape(*this, "output", &other, out);
    if (!is_flat && data.rank_known()) {
      const int axis = order().axis ? AxisPosition(*this, "axis", *order().axis, data) : -1;
      for (int d = 0; d < data.ndim(); ++d) {
        if (d != axis || ordered[d] == data[d]) data[d] = out[d];
      }
      CheckCount(data);
    }
    return data.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    const Order order = this->order();
    DType& data = (*in_type)[0];
    const auto merge = [&](DType* dtype, DType known) {
      if (known == DType::kUnknown) return;
      if (*dtype != DType::kUnknown && *dtype != known) {
        throw InvalidArgument(this->TypeString(), ": an output has element type ", *dtype,
                              ", expected ", known);
      }
      *dtype = known;
    };
    if (order.returns == Returns::kIndices) {
      merge(&(*out_type)[0], order.index_type);
    } else {
      merge(&(*out_type)[0], data);
      data = (*out_type)[0];
    }
    if (order.returns == Returns::kBoth) merge(&(*out_type)[1], order.index_type);
    if (order.HasValues()) merge(&out_type->back(), DType::kInt64);
    return data != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int> out_data) const override {
    return {out_grad[0], out_data.back()};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    if (!order().HasValues()) return {};
    return {{in_data[0], out_data[0]}};
  }

 private:
  Order order() const { return this->param(); }

  /// Returns the outputs' shape for data of known rank.
  TShape OrderedShape(const TShape& data) const {
    CheckCount(data);
    if (order().returns == Returns::kMask) return data;
    const int64_t k = order().k;
    if (!order().axis) return {k > 0 ? k : ProductOfExtents(*this, "data", data, 0, data.ndim())};
    TShape ordered = data;
    if (k > 0) ordered[AxisPosition(*this, "axis", *order().axis, data)] = k;
    return ordered;
  }

  /// Throws Error(kInvalidArgument) if the axis does not exist or has fewer than k elements.
  void CheckCount(const TShape& data) const {
    index_t length = TShape::kUnknown;
    if (order().axis) {
      length = data[AxisPosition(*this, "axis", *order().axis, data)];
    } else if (data.known()) {
      length = ProductOfExtents(*this, "data", data, 0, data.ndim());
    }
    if (length != TShape::kUnknown && order().k > length) {
      throw InvalidArgument(this->TypeString(), ": k is ", order().k, ", but data has shape ", data,
                            ", in which there are ", length, " elements to choose from");
    }
  }
};

/// StoreRow for elements that come to lie `stride` apart.
template <typename T>
void StoreStrided(const T* in, index_t n, index_t stride, bool add, const TBlob& array,
                  index_t first) {
  const index_t size = DTypeSizeBytes(array.type_flag_);
  char* const out = static_cast<char*>(array.dptr_) + first * size;
  if (stride == 1) {
    StoreRow(in, n, add, array.type_flag_, out);
    return;
  }
  for (index_t i = 0; i < n; ++i) {
    StoreRow(in + i, 1, add, array.type_flag_, out + i * stride * size);
  }
}

class OrderOperator final : public Operator {
 public:
  OrderOperator(const Order& order, std::span<const TShape> in_shape)
      : order_(order), axis_(AxisPosition(order.axis, in_shape[0].ndim())) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[0];
    if (data.shape_.Size() == 0) return;
    const AxisRows rows = AxisRows::Of(data.shape_, axis_);
    DType dtype = data.type_flag_;
    if (rows.n >= int64_t{1} << 32 && dtype != DType::kInt64) dtype = DType::kFloat64;
    VisitComparedIn(dtype, [&](auto zero) {
      using T = decltype(zero);
      // Ordering n elements costs as much as some 16 loops over them, finding a few of them as 2.
      const int64_t cost = 8 * Count(rows) <= rows.n ? 2 : 16;
      ParallelFor(rows.NumRows(), StepsPerTask(rows.n, cost), [&](index_t begin, index_t end) {
        ForwardRows<T>(data, rows, begin, end, req, out_data);
      });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].shape_.Size() == 0) return;
    const AxisRows rows = AxisRows::Of(in_grad[0].shape_, axis_);
    VisitComparedIn(in_grad[0].type_flag_, [&](auto zero) {
      using T = decltype(zero);
      ParallelFor(rows.NumRows(), StepsPerTask(rows.n, 4), [&](index_t begin, index_t end) {
        BackwardRows<T>(out_grad[0], out_data.back(), rows, begin, end, req[0], in_grad[0]);
      });
    });
  }

 private:
  index_t Count(const AxisRows& rows) const { return order_.k > 0 ? order_.k : rows.n; }

  template <typename T>
  void ForwardRows(const TBlob& data, const AxisRows& rows, index_t begin, index_t end,
                   std::span<const OpReqType> req, std::span<const TBlob> out_data) const {
    const index_t n = rows.n, k = Count(rows);
    const AxisRows ordered = rows.OfLength(k);
    const bool is_mask = order_.returns == Returns::kMask;
    const RowReader<T> reader(data);
    RowOrder<T> order(n, k, order_.is_ascend);
    const bool is_in_place = reader.is_direct() && rows.inner == 1;
    std::vector<T> buffer(static_cast<size_t>(is_in_place ? 0 : n));
    std::vector<T> values(static_cast<size_t>(is_mask ? n : k));
    std::vector<int64_t> positions(static_cast<size_t>(k));
    for (index_t r = begin; r < end; ++r) {
      const T* const row = reader.Read(rows.First(r), n, buffer.data(), rows.inner);
      order.Find(row, positions.data());
      const auto store = [&](const auto& elements, const AxisRows& layout, size_t output) {
        if (req[output] == kNullOp) return;
        StoreStrided(elements.data(), layout.n, layout.inner, req[output] == kAddTo,
                     out_data[output], layout.First(r));
      };
      switch (order_.returns) {
        case Returns::kMask:
          std::fill(values.begin(), values.end(), T(0));
          for (const int64_t position : positions) values[static_cast<size_t>(position)] = T(1);
          store(values, rows, 0);
          break;
        case Returns::kIndices:
          store(positions, ordered, 0);
          break;
        case Returns::kBoth:
          store(positions, ordered, 2);
          [[fallthrough]];
        case Returns::kValues:
          store(positions, ordered, 1);
          // Elements of a long row come from everywhere in memory.
          ParallelFor(k, ElementsPerTask(4), [&](index_t first, index_t last) {
            for (index_t j = first; j < last; ++j) {
              const size_t to = static_cast<size_t>(j);
              values[to] = row[positions[to]];
            }
          });
          store(values, ordered, 0);
          break;
      }
    }
  }

  template <typename T>
  void BackwardRows(const TBlob& g, const TBlob& places, const AxisRows& rows, index_t begin,
                    index_t end, OpReqType req, const TBlob& grad) const {
    const AxisRows ordered = rows.OfLength(Count(rows));
    std::vector<T> row(static_cast<size_t>(rows.n)), head(static_cast<size_t>(ordered.n));
    std::vector<int64_t> positions(static_cast<size_t>(ordered.n));
    for (index_t r = begin; r < end; ++r) {
      RowReader<T>(g).Copy(ordered.First(r), ordered.n, head.data(), ordered.inner);
      RowReader<int64_t>(places).Copy(ordered.First(r), ordered.n, positions.data(), ordered.inner);
      std::fill(row.begin(), row.end(), T(0));
      for (size_t j = 0; j < positions.size(); ++j)
        row[static_cast<size_t>(positions[j])] = head[j];
      StoreStrided(row.data(), rows.n, rows.inner, req == kAddTo, grad, rows.First(r));
    }
  }

  const Order order_;
  const std::optional<int> axis_;
};

[[maybe_unused]] const bool kSort =
    RegisterTypedOperator<OrderProperty<SortParameters>, OrderOperator>(
        TESSERA_TABLE_PLACE, "sort", "The elements along an axis in order.", TakenTypes::kAny);
[[maybe_unused]] const bool kArgsort =
    RegisterTypedOperator<OrderProperty<ArgsortParameters>, OrderOperator>(
        TESSERA_TABLE_PLACE, "argsort", "The positions of the elements along an axis in order.",
        TakenTypes::kAny);
[[maybe_unused]] const bool kTopk =
    RegisterTypedOperator<OrderProperty<TopkParameters>, OrderOperator>(
        TESSERA_TABLE_PLACE, "topk", "The largest or smallest elements along an axis.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera
