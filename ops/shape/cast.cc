// Cast and _copyto: data in another element type. Floating-point numbers become integers by cutting
// off towards 0, and bool is whether a number is not 0. Sums of kAddTo are made in the output's
// type. The gradient is the head gradient in the input's type.
#include "tessera/ops/elemwise/map_function.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/shape/movement.h"

namespace tessera {
namespace {

using ops_internal::MapCall;
using ops_internal::MergeType;
using ops_internal::MoveCall;
using ops_internal::MoveProperty;
using ops_internal::RegisterMove;

DType ConvertedIn(DType from, DType to) {
  // Small integers keep the last bits, as a conversion by way of a large integer does.
  const bool is_small = to == DType::kInt8 || to == DType::kUint8;
  switch (from) {
    case DType::kFloat64:
      return is_small ? DType::kInt64 : DType::kFloat64;
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return is_small ? DType::kInt64 : DType::kFloat32;
    default:
      return DType::kInt64;
  }
}

template <typename Parameters>
void Convert(const MoveCall<Parameters>& call, std::span<const TBlob> from,
             std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  if (from[0].type_flag_ == to[0].type_flag_) {
    ops_internal::MoveFlat(from[0], to[0], req[0], call.context);
    return;
  }
  static const auto identity =
      ops_internal::MakeMapFunction<op::identity, 1, ops_internal::MapTypes::kArithmetic>();
  MapCall(to[0], req[0])
      .Add(from[0])
      .Run(identity, ConvertedIn(from[0].type_flag_, to[0].type_flag_), call.context);
}

template <typename Parameters>
class ConvertProperty : public MoveProperty<Parameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return ops_internal::InferSameShape(*this, "data", &(*in_shape)[0], &(*out_shape)[0]);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }
};

struct CastParameters {
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<CastParameters>& schema) {
    schema.Choice("dtype", &CastParameters::dtype, ops_internal::DTypeChoices(),
                  "the output's element type", /*required=*/true);
  }
};

class CastProperty final : public ConvertProperty<CastParameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], param_.dtype);
    return (*in_type)[0] != DType::kUnknown;
  }
};

const bool kCast = RegisterMove<CastProperty>(TESSERA_TABLE_PLACE, "Cast",
                                              "data in another element type.", Convert, Convert);

class CopyToProperty final : public ConvertProperty<NoParameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if ((*out_type)[0] == DType::kUnknown) (*out_type)[0] = (*in_type)[0];
    if ((*in_type)[0] == DType::kUnknown) (*in_type)[0] = (*out_type)[0];
    return (*in_type)[0] != DType::kUnknown;
  }
};

const bool kCopyTo =
    RegisterMove<CopyToProperty>(TESSERA_TABLE_PLACE, "_copyto",
                                 "data in another array, in its element type.", Convert, Convert);

}  // namespace
}  // namespace tessera
