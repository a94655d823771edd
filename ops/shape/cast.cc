// Cast, _copyto, amp_cast and amp_multicast: data in another element type. Floating-point numbers
// become integers by cutting off towards 0, and bool is whether a number is not 0. Sums of kAddTo
// are made in the output's type. The gradient is the head gradient in the input's type.
//
// Mixed precision inserts amp_cast and amp_multicast into graphs. Arrays that are not
// floating-point pass as they are. amp_cast converts all others but float64, as MXNet does, to
// `dtype`; to the nearest integer of the type, halves to the even one, and NaN to 0. MXNet rounds
// float32 in its oneDNN code, and cuts other types off. amp_multicast converts several arrays, of
// any shapes, to the widest of their types, or with cast_narrow to the narrowest. The first of two
// types of one width counts.
#include <cmath>
#include <limits>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/tensor/functors.h"

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

void ConvertArray(const TBlob& from, OpReqType req, const TBlob& to, const OpContext& context) {
  if (req == kNullOp) return;
  if (from.type_flag_ == to.type_flag_) {
    ops_internal::MoveFlat(from, to, req, context);
    return;
  }
  static const auto identity =
      ops_internal::MakeMapFunction<op::identity, 1, ops_internal::MapTypes::kArithmetic>();
  MapCall(to, req).Add(from).Run(identity, ConvertedIn(from.type_flag_, to.type_flag_), context);
}

template <typename Parameters>
void Convert(const MoveCall<Parameters>& call, std::span<const TBlob> from,
             std::span<const OpReqType> req, std::span<const TBlob> to) {
  for (size_t i = 0; i < to.size(); ++i) ConvertArray(from[i], req[i], to[i], call.context);
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

class AmpCastProperty final : public ConvertProperty<CastParameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    const DType in = (*in_type)[0];
    if (in == DType::kUnknown) return false;
    const bool converts = IsReal(in) && in != DType::kFloat64;
    MergeType(*this, "output", &(*out_type)[0], converts ? param_.dtype : in);
    return true;
  }
};

/// Returns the integer nearest to x, halves to the even one, within [low, high]; 0 for NaN.
struct NearestWithin {
  template <typename T>
  TESSERA_HD static T Map(T x, T low, T high) {
    const T nearest = std::rint(x);
    return nearest > high ? high : nearest < low ? low : nearest == nearest ? nearest : T(0);
  }
};

void ConvertToNearest(const MoveCall<CastParameters>& call, std::span<const TBlob> from,
                      std::span<const OpReqType> req, std::span<const TBlob> to) {
  const DType type = to[0].type_flag_;
  if (!IsReal(from[0].type_flag_) || IsReal(type) || type == DType::kBool) {
    Convert(call, from, req, to);
    return;
  }
  static const auto nearest = ops_internal::MakeMapFunction<NearestWithin, 3>();
  // A conversion of float32 itself limits numbers to the range of int32 and int64.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double low = type == DType::kInt8 ? -128 : type == DType::kUint8 ? 0 : -kInfinity;
  const double high = type == DType::kInt8 ? 127 : type == DType::kUint8 ? 255 : kInfinity;
  MapCall(to[0], req[0])
      .Add(from[0])
      .Add(low)
      .Add(high)
      .Run(nearest, DType::kFloat32, call.context);
}

const bool kAmpCast = RegisterMove<AmpCastProperty>(
    TESSERA_TABLE_PLACE, "amp_cast",
    "data of a floating-point type but float64 in another element type.", ConvertToNearest,
    Convert);

struct AmpMulticastParameters {
  int num_outputs = 1;
  bool cast_narrow = false;

  static void Declare(ParameterSchema<AmpMulticastParameters>& schema) {
    schema.Required("num_outputs", &AmpMulticastParameters::num_outputs, "number of arrays");
    schema.Range(1, 1 << 20);
    schema.Optional("cast_narrow", &AmpMulticastParameters::cast_narrow,
                    "whether the narrowest type is chosen instead of the widest");
  }
};

class AmpMulticastProperty final : public MoveProperty<AmpMulticastParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return ops_internal::NumberedNames("data_", param_.num_outputs);
  }
  std::vector<std::string> ListOutputs() const override {
    if (param_.num_outputs == 1) return {"output"};
    return ops_internal::NumberedNames("output", param_.num_outputs);
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    bool known = true;
    for (size_t i = 0; i < in_shape->size(); ++i) {
      known &= ops_internal::InferSameShape(*this, "data_" + std::to_string(i), &(*in_shape)[i],
                                            &(*out_shape)[i]);
    }
    return known;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType common = DType::kUnknown;
    for (const DType dtype : *in_type) {
      if (dtype == DType::kUnknown) return false;
      if (!IsReal(dtype)) continue;
      if (common == DType::kUnknown || Precedes(dtype, common)) common = dtype;
    }
    for (size_t i = 0; i < in_type->size(); ++i) {
      const DType dtype = (*in_type)[i];
      MergeType(*this, "output" + std::to_string(i), &(*out_type)[i],
                IsReal(dtype) ? common : dtype);
    }
    return true;
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return ops_internal::BuildLinearGradient(*this, builder);
  }

 private:
  bool Precedes(DType dtype, DType other) const {
    return param_.cast_narrow ? DTypeSizeBytes(dtype) < DTypeSizeBytes(other)
                              : DTypeSizeBytes(dtype) > DTypeSizeBytes(other);
  }
};

const bool kAmpMulticast = RegisterMove<AmpMulticastProperty>(
    TESSERA_TABLE_PLACE, "amp_multicast",
    "Arrays of floating-point types in the widest or the narrowest of these.", Convert, Convert);

}  // namespace
}  // namespace tessera
