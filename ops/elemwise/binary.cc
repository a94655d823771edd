#include "tessera/ops/elemwise/binary.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera::ops_internal {
namespace {

bool ReadsInputs(const BinaryRow& row) {
  return row.left_reads == GradientReads::kInput || row.right_reads == GradientReads::kInput;
}
bool HasZeroGradient(const BinaryRow& row) {
  return row.left_reads == GradientReads::kNothing && row.right_reads == GradientReads::kNothing;
}

/// The dependencies and in-place options that the families have in common.
template <typename Parameters>
class BinaryFamilyProperty : public ParameterizedProperty<Parameters> {
 public:
  explicit BinaryFamilyProperty(const BinaryRow* row) : row_(*row) {}

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> needed;
    if (HasZeroGradient(row_)) return needed;
    needed.push_back(out_grad[0]);
    if (ReadsInputs(row_)) needed.insert(needed.end(), in_data.begin(), in_data.end());
    return needed;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    std::vector<InplacePair> pairs;
    for (const int source : in_data) pairs.push_back({source, out_data[0]});
    return pairs;
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    if (HasZeroGradient(row_)) return {};
    // The last gradient is written first, while g is complete.
    return {{out_grad[0], in_grad[0]}};
  }

 protected:
  const BinaryRow& row_;
};

class ElementwiseProperty final : public BinaryFamilyProperty<NoParameters> {
 public:
  using BinaryFamilyProperty::BinaryFamilyProperty;

  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape shape = (*in_shape)[0];
    MergeShape(*this, "rhs", &(*in_shape)[1], shape);
    shape = (*in_shape)[1];
    MergeShape(*this, "output", &(*out_shape)[0], shape);
    shape = (*out_shape)[0];
    MergeShape(*this, "lhs", &(*in_shape)[0], shape);
    MergeShape(*this, "rhs", &(*in_shape)[1], shape);
    return shape.known();
  }
};

class BroadcastProperty final : public BinaryFamilyProperty<NoParameters> {
 public:
  using BinaryFamilyProperty::BinaryFamilyProperty;

  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const TShape& lhs = (*in_shape)[0];
    const TShape& rhs = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    if (!lhs.rank_known() || !rhs.rank_known()) return false;
    TShape shape = TShape::OfRank(std::max(lhs.ndim(), rhs.ndim()));
    for (int i = 1; i <= shape.ndim(); ++i) {
      const index_t l = i <= lhs.ndim() ? lhs[lhs.ndim() - i] : 1;
      const index_t r = i <= rhs.ndim() ? rhs[rhs.ndim() - i] : 1;
      index_t& extent = shape[shape.ndim() - i];
      if (l == 1 || r == 1) {
        // The other extent, which may be unknown.
        extent = l == 1 ? r : l;
      } else if (l == TShape::kUnknown || r == TShape::kUnknown) {
        // It is 1 or the known extent.
        extent = std::max(l, r);
      } else if (l == r) {
        extent = l;
      } else {
        throw InvalidArgument(TypeString(), ": lhs of shape ", lhs, " and rhs of shape ", rhs,
                              " cannot be broadcast to one shape");
      }
    }
    MergeShape(*this, "output", &out, shape);
    return lhs.known() && rhs.known() && out.known();
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape> in_shape) const override {
    if (in_shape[0] == in_shape[1]) return {};
    return {{ResourceRequest::Type::kTempSpace}};
  }
};

struct ScalarParameters {
  double scalar = 1;
  bool is_int = true;

  static void Declare(ParameterSchema<ScalarParameters>& schema) {
    schema.Optional("scalar", &ScalarParameters::scalar, "the number");
    schema.Optional("is_int", &ScalarParameters::is_int, "accepted for MXNet's graphs; not used");
  }
};

class ScalarProperty final : public BinaryFamilyProperty<ScalarParameters> {
 public:
  using BinaryFamilyProperty::BinaryFamilyProperty;

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
};

/// Computes the gradient of one operand into the output of `call`: the operands follow, as add()
/// adds them.
template <typename AddOperands>
void MapGradient(MapCall call, GradientReads reads, const MapFunction& function, const TBlob& g,
                 const AddOperands& add, const OpContext& context) {
  switch (reads) {
    case GradientReads::kNothing:
      call.Add(0);
      break;
    case GradientReads::kHead:
      call.Add(g);
      break;
    default:
      call.Add(g);
      add(&call);
      break;
  }
  call.Run(function, context);
}

/// The operator of two arrays. The gradient of an array that was broadcast is a sum.
class TwoArrays final : public Operator {
 public:
  TwoArrays(const BinaryRow* row, const ReduceFunction* sum) : row_(*row), sum_(*sum) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0]).Add(in_data[0]).Add(in_data[1]).Run(row_.value, context);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const auto add = [&](MapCall* call) { call->Add(in_data[0]).Add(in_data[1]); };
    void* space = nullptr;  // as large as the head gradient, asked for once
    for (const size_t side : {1, 0}) {
      if (req[side] == kNullOp) continue;
      const GradientReads reads = side == 0 ? row_.left_reads : row_.right_reads;
      const MapFunction& function = side == 0 ? row_.left : row_.right;
      const TBlob& target = in_grad[side];
      if (reads == GradientReads::kNothing) {
        MapCall(target, req[side]).Add(0).Run(function, context);
        continue;
      }
      const TBlob& g = out_grad[0];
      if (target.shape_.Size() == g.shape_.Size()) {
        MapGradient(MapCall(target, req[side]), reads, function, g, add, context);
        continue;
      }
      const ReducedAxes axes = BroadcastAxes(g.shape_, target.shape_);
      if (g.shape_.Size() == 0) {  // sums of nothing
        Reduce(sum_, g, axes, target, req[side], context);
        continue;
      }
      if (space == nullptr) {
        space = context.requested[0]->GetSpaceBytes(g.shape_.Size() * DTypeSizeBytes(g.type_flag_));
      }
      if (reads == GradientReads::kHead) {
        // The function is linear, so the sum comes first.
        const TBlob total(space, target.shape_, g.type_flag_, g.device_);
        Reduce(sum_, g, axes, total, kWriteTo, context);
        MapCall(target, req[side]).Add(total).Run(function, context);
      } else {
        const TBlob whole(space, g.shape_, g.type_flag_, g.device_);
        MapGradient(MapCall(whole, kWriteTo), reads, function, g, add, context);
        Reduce(sum_, whole, axes, target, req[side], context);
      }
    }
  }

 private:
  const BinaryRow& row_;
  const ReduceFunction& sum_;
};

class ArrayAndNumber final : public Operator {
 public:
  ArrayAndNumber(const BinaryRow* row, double number, bool is_reverse)
      : row_(*row), number_(number), is_reverse_(is_reverse) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall call(out_data[0], req[0]);
    AddBoth(&call, in_data[0]);
    call.Run(row_.value, context);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const auto add = [&](MapCall* call) { AddBoth(call, in_data[0]); };
    MapGradient(MapCall(in_grad[0], req[0]), is_reverse_ ? row_.right_reads : row_.left_reads,
                is_reverse_ ? row_.right : row_.left, out_grad[0], add, context);
  }

 private:
  void AddBoth(MapCall* call, const TBlob& data) const {
    if (is_reverse_) {
      call->Add(number_).Add(data);
    } else {
      call->Add(data).Add(number_);
    }
  }

  const BinaryRow& row_;
  const double number_;
  const bool is_reverse_;
};

template <typename Property, typename Create>
void Register(const TablePlace& place, std::string_view name, const BinaryRow& row,
              std::string_view operands, const Create& create) {
  if (name.empty()) return;
  RegisterRow<Property>(
      place, name, std::string(row.formula) + std::string(operands),
      [&row] { return std::make_unique<Property>(&row); }, create);
}

}  // namespace

bool RegisterBinary(TablePlace place, const ReduceFunction& sum, std::vector<BinaryRow> rows) {
  // The registry refers to them for as long as the process lives.
  struct Table {
    ReduceFunction sum;
    std::vector<BinaryRow> rows;
  };
  const auto& table = *new Table{sum, std::move(rows)};
  for (const BinaryRow& row : table.rows) {
    const auto two_arrays = [&row, &table](const OperatorProperty&, std::span<const TShape>,
                                           std::span<const DType>) -> std::unique_ptr<Operator> {
      return std::make_unique<TwoArrays>(&row, &table.sum);
    };
    const auto with_number = [&row](bool is_reverse) {
      return [&row, is_reverse](const OperatorProperty& property, std::span<const TShape>,
                                std::span<const DType>) -> std::unique_ptr<Operator> {
        const double number = static_cast<const ScalarProperty&>(property).param().scalar;
        return std::make_unique<ArrayAndNumber>(&row, number, is_reverse);
      };
    };
    Register<ElementwiseProperty>(place, row.elementwise, row, ", of arrays of one shape.",
                                  two_arrays);
    Register<BroadcastProperty>(place, row.broadcast, row,
                                ", of arrays that are broadcast to one shape.", two_arrays);
    Register<ScalarProperty>(place, row.scalar, row, ", where lhs is data and rhs is scalar.",
                             with_number(false));
    Register<ScalarProperty>(place, row.reverse_scalar, row,
                             ", where lhs is scalar and rhs is data.", with_number(true));
  }
  return true;
}

}  // namespace tessera::ops_internal
