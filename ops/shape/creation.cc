// Arrays of constants, ranges and shapes: _zeros, _zeros_without_dtype, _ones, _full, _arange,
// _linspace, _eye, _set_value, which have no inputs, and zeros_like, ones_like,
// _contrib_arange_like, shape_array and size_array, whose input has gradient 0. All element types.
// Integers are exact: a number becomes one by cutting off its fraction, as in MXNet, and wraps
// around if the type does not hold it, as Cast does. Other values are computed in double.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/checked_size.h"
#include "tessera/base/host_device.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/tensor/device/parallel.h"
#if defined(TESSERA_XPU_GPU)
#include "tessera/ops/loops/map_gpu.h"
#endif

namespace tessera {
namespace {

using ops_internal::AxisPosition;
using ops_internal::InferSameShape;
using ops_internal::MergeType;
using ops_internal::MoveCall;
using ops_internal::MoveProperty;
using ops_internal::RegisterMove;

// The functions of an element's position that fill arrays, in double or, for integers, in int64.

template <typename T>
struct Constant {
  T value;
  TESSERA_HD T operator()(index_t) const { return value; }
};
struct Ramp {
  double start, step;
  index_t repeat;
  TESSERA_HD double operator()(index_t i) const {
    return start + static_cast<double>(i / repeat) * step;
  }
};
/// A ramp of integers, which wrap around.
struct IntegerRamp {
  int64_t start, step;
  index_t repeat;
  TESSERA_HD int64_t operator()(index_t i) const {
    return static_cast<int64_t>(static_cast<uint64_t>(start) +
                                static_cast<uint64_t>(i / repeat) * static_cast<uint64_t>(step));
  }
};
/// The integers start + i (steps * quotient + remainder) / steps, cut off towards 0. Requires: 0 <=
/// remainder < steps, and i <= steps, both below 2^31.
struct IntegerFractions {
  int64_t start, quotient, remainder, steps;
  TESSERA_HD int64_t operator()(index_t i) const {
    const int64_t below =
        static_cast<int64_t>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i * quotient) +
                             static_cast<uint64_t>(i * remainder / steps));
    return below < 0 && i * remainder % steps != 0 ? below + 1 : below;
  }
};
struct Eye {
  index_t columns, k;
  TESSERA_HD double operator()(index_t i) const {
    return i % columns - i / columns == k ? 1.0 : 0.0;
  }
};
struct ShapeExtents {
  index_t extents[TShape::kMaxRank];
  TESSERA_HD int64_t operator()(index_t i) const { return extents[i]; }
};

#if defined(TESSERA_XPU_GPU)
template <typename F>
__global__ void FillKernel(const F f, bool add, DType dtype, void* out, index_t size) {
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    ops_internal::StoreElement(f(i), add, dtype, out, i);
  }
}
#endif

/// Sets, or adds to, each element of `out` to f(its position).
template <typename F>
void Fill(const F& f, const TBlob& out, OpReqType req, const OpContext& context) {
  if (req == kNullOp || out.Size() == 0) return;
  const index_t size = out.Size();
#if defined(TESSERA_XPU_GPU)
  const auto [blocks, threads] = tensor_internal::LaunchShapeFor(size);
  FillKernel<<<blocks, threads, 0, Stream<gpu>::GetStream(context.get_stream<gpu>())>>>(
      f, req == kAddTo, out.type_flag_, out.dptr_, size);
  tensor_internal::CheckCuda(cudaGetLastError(), "creation operator");
#else
  static_cast<void>(context);
  using T = decltype(f(0));
  constexpr index_t kBlock = 512;
  ParallelFor(size, StepsPerTask(4), [&](index_t begin, index_t end) {
    T block[kBlock];
    for (index_t i = begin; i < end; i += kBlock) {
      const index_t n = std::min(kBlock, end - i);
      for (index_t k = 0; k < n; ++k) block[k] = f(i + k);
      void* const to = static_cast<char*>(out.dptr_) + i * DTypeSizeBytes(out.type_flag_);
      if constexpr (std::is_same_v<T, double>) {
        ops_internal::StoreConverted(block, n, req == kAddTo, out.type_flag_, to);
      } else {
        ops_internal::StoreRow(block, n, req == kAddTo, out.type_flag_, to);
      }
    }
  });
#endif
}

/// Returns whether elements are computed in int64.
bool IsInteger(DType dtype) { return !IsReal(dtype) && dtype != DType::kBool; }

/// Sets, or adds to, each element of `out` to a number.
void FillWith(const Number& number, const TBlob& out, OpReqType req, const OpContext& context) {
  if (req == kNullOp || out.Size() == 0) return;
#if defined(TESSERA_XPU_GPU)
  if (IsInteger(out.type_flag_)) {
    Fill(Constant<int64_t>{number.BitsIn(out.type_flag_)}, out, req, context);
  } else {
    Fill(Constant<double>{number.value()}, out, req, context);
  }
#else
  ops_internal::FillOnCpu(ops_internal::StridedView(out, {out.Size()}), number, req, context);
#endif
}

/// Sets, or adds to, the elements of `out` to start, start + step, …, each repeated. Both become
/// elements of the output's type first, as in MXNet.
void FillRamp(const Number& start, const Number& step, index_t repeat, const TBlob& out,
              OpReqType req, const OpContext& context) {
  if (req == kNullOp) return;
  const DType dtype = out.type_flag_;
  if (IsInteger(dtype)) {
    Fill(IntegerRamp{start.BitsIn(dtype), step.BitsIn(dtype), repeat}, out, req, context);
    return;
  }
  Fill(Ramp{ops_internal::RoundedTo(dtype, start), ops_internal::RoundedTo(dtype, step), repeat},
       out, req, context);
}

/// A property without inputs, whose parameters have an element type.
template <typename Parameters>
class CreationProperty : public MoveProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {}; }
  bool HasGradient() const override { return false; }
  bool InferType(std::vector<DType>*, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], this->param_.dtype);
    return true;
  }
};

template <typename Parameters>
void DeclareCreation(ParameterSchema<Parameters>& schema) {
  schema.Optional("ctx", &Parameters::ctx, "the device, which the caller chooses");
  schema.Choice("dtype", &Parameters::dtype, ops_internal::DTypeChoices(),
                "the output's element type");
}

// _zeros, _ones, _full, and MXNet's names of the first two for NumPy's shapes. Shapes mean the same
// under both: the C API answers () and extents of 0 itself.

/// Returns the shape of a parameter in which 0 and -1 are unknown extents, and no extents at all an
/// unknown rank.
TShape ShapeOf(const OperatorProperty& property, const std::vector<int64_t>& extents) {
  if (extents.empty()) return TShape();
  std::vector<index_t> known;
  for (const int64_t extent : extents) {
    if (extent < TShape::kUnknown) {
      throw InvalidArgument(property.TypeString(), ": parameter shape: extent ", extent,
                            " is negative");
    }
    known.push_back(extent == 0 ? TShape::kUnknown : extent);
  }
  if (known.size() > TShape::kMaxRank) {
    throw InvalidArgument(property.TypeString(), ": parameter shape has ", known.size(),
                          " extents, expected at most ", TShape::kMaxRank);
  }
  return TShape(std::span<const index_t>(known));
}

struct ConstantParameters {
  std::vector<int64_t> shape;
  std::string ctx;
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<ConstantParameters>& schema) {
    schema.Optional("shape", &ConstantParameters::shape, "the shape, in which 0 is unknown");
    DeclareCreation(schema);
  }
  const std::vector<int64_t>& extents() const { return shape; }
};

struct FullParameters {
  std::optional<std::vector<int64_t>> shape;
  std::string ctx;
  DType dtype = DType::kFloat32;
  Number value;

  static void Declare(ParameterSchema<FullParameters>& schema) {
    schema.Optional("shape", &FullParameters::shape, "the shape, in which 0 is unknown");
    DeclareCreation(schema);
    schema.Required("value", &FullParameters::value, "the value of all elements");
  }
  std::vector<int64_t> extents() const { return shape.value_or(std::vector<int64_t>()); }
};

template <typename Parameters>
class ConstantProperty final : public CreationProperty<Parameters> {
 public:
  bool InferShape(std::vector<TShape>*, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], shape_);
    return (*out_shape)[0].known();
  }

 private:
  void CheckParameters() override { shape_ = ShapeOf(*this, this->param_.extents()); }

  TShape shape_;
};

template <typename Parameters, int kValue>
void FillConstant(const MoveCall<Parameters>& call, std::span<const TBlob>,
                  std::span<const OpReqType> req, std::span<const TBlob> to) {
  FillWith(kValue, to[0], req[0], call.context);
}

const bool kZeros = RegisterMove<ConstantProperty<ConstantParameters>>(
    TESSERA_TABLE_PLACE, "_zeros", "Zeros.", FillConstant<ConstantParameters, 0>, nullptr);
const bool kOnes = RegisterMove<ConstantProperty<ConstantParameters>>(
    TESSERA_TABLE_PLACE, "_ones", "Ones.", FillConstant<ConstantParameters, 1>, nullptr);
const bool kNumpyZeros = RegisterMove<ConstantProperty<ConstantParameters>>(
    TESSERA_TABLE_PLACE, "_npi_zeros", "Zeros.", FillConstant<ConstantParameters, 0>, nullptr);
const bool kNumpyOnes = RegisterMove<ConstantProperty<ConstantParameters>>(
    TESSERA_TABLE_PLACE, "_npi_ones", "Ones.", FillConstant<ConstantParameters, 1>, nullptr);
const bool kFull = RegisterMove<ConstantProperty<FullParameters>>(
    TESSERA_TABLE_PLACE, "_full", "One value everywhere.",
    [](const MoveCall<FullParameters>& call, std::span<const TBlob>, std::span<const OpReqType> req,
       std::span<const TBlob> to) { FillWith(call.param.value, to[0], req[0], call.context); },
    nullptr);

// _zeros_without_dtype.

struct UntypedZerosParameters {
  std::optional<std::vector<int64_t>> shape;
  std::string ctx;
  int dtype = -1;

  static void Declare(ParameterSchema<UntypedZerosParameters>& schema) {
    using P = UntypedZerosParameters;
    schema.Optional("shape", &P::shape, "the shape, in which 0 is unknown");
    schema.Optional("ctx", &P::ctx, "the device, which the caller chooses");
    schema.Optional("dtype", &P::dtype,
                    "the number of the output's element type; -1 if its readers determine it");
    schema.Range(-1, static_cast<int>(DType::kBFloat16));
  }
  std::vector<int64_t> extents() const { return shape.value_or(std::vector<int64_t>()); }
};

class UntypedZerosProperty final : public MoveProperty<UntypedZerosParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {}; }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>*, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], shape_);
    return (*out_shape)[0].known();
  }
  bool InferType(std::vector<DType>*, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], static_cast<DType>(param_.dtype));
    return (*out_type)[0] != DType::kUnknown;
  }

 private:
  void CheckParameters() override { shape_ = ShapeOf(*this, param_.extents()); }

  TShape shape_;
};

const bool kUntypedZeros = RegisterMove<UntypedZerosProperty>(
    TESSERA_TABLE_PLACE, "_zeros_without_dtype", "Zeros of the element type that a reader needs.",
    FillConstant<UntypedZerosParameters, 0>, nullptr);

// _set_value.

struct SetValueParameters {
  Number src;

  static void Declare(ParameterSchema<SetValueParameters>& schema) {
    schema.Optional("src", &SetValueParameters::src, "the value of all elements");
  }
};

class SetValueProperty final : public MoveProperty<SetValueParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {}; }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>*, std::vector<TShape>* out_shape) const override {
    return (*out_shape)[0].known();
  }
  bool InferType(std::vector<DType>*, std::vector<DType>* out_type) const override {
    if ((*out_type)[0] == DType::kUnknown) (*out_type)[0] = DType::kFloat32;
    return true;
  }
};

const bool kSetValue = RegisterMove<SetValueProperty>(
    TESSERA_TABLE_PLACE, "_set_value", "One value everywhere, in an array that exists.",
    [](const MoveCall<SetValueParameters>& call, std::span<const TBlob>,
       std::span<const OpReqType> req,
       std::span<const TBlob> to) { FillWith(call.param.src, to[0], req[0], call.context); },
    nullptr);

// _arange, _linspace, _eye.

/// Refuses numbers of elements that no array has.
index_t SizeOrThrow(const OperatorProperty& property, double count, index_t repeat) {
  const bool fits = count < 0x1p62;
  const CheckedSize size = CheckedSize(fits ? static_cast<int64_t>(count) : -1) * repeat;
  if (!size.valid()) {
    throw InvalidArgument(property.TypeString(), ": ", count, " values, ", repeat,
                          " times each, are more than an array has");
  }
  return *size.value();
}

/// Returns the number of values first, first + step, … before stop; 0 if there are none.
double CountOfValues(const Number& first, const Number& stop, const Number& step) {
  if (!first.IsInt64() || !stop.IsInt64() || !step.IsInt64() || step == Number(0)) {
    return std::ceil((stop.value() - first.value()) / step.value());
  }
  const int64_t a = first.As<int64_t>(), b = stop.As<int64_t>(), by = step.As<int64_t>();
  if (by > 0 ? a >= b : a <= b) return 0;
  const uint64_t difference = static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
  const uint64_t span = by > 0 ? difference : 0 - difference;
  const uint64_t distance = by > 0 ? static_cast<uint64_t>(by) : 0 - static_cast<uint64_t>(by);
  return static_cast<double>(span / distance + (span % distance != 0));
}

struct ArangeParameters {
  Number start;
  std::optional<Number> stop;
  Number step = 1;
  int repeat = 1;
  bool infer_range = false;
  std::string ctx;
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<ArangeParameters>& schema) {
    using P = ArangeParameters;
    schema.Required("start", &P::start, "the first value; the stop, from 0 on, if there is none");
    schema.Optional("stop", &P::stop, "the value before which the range ends");
    schema.Optional("step", &P::step, "the difference of values");
    schema.Optional("repeat", &P::repeat, "number of times that each value is repeated");
    schema.Range(1);
    schema.Optional("infer_range", &P::infer_range, "without stop, infer the size from the output");
    DeclareCreation(schema);
  }
  Number First() const { return stop || infer_range ? start : 0; }
};

class ArangeProperty final : public CreationProperty<ArangeParameters> {
 public:
  bool InferShape(std::vector<TShape>*, std::vector<TShape>* out_shape) const override {
    TShape& out = (*out_shape)[0];
    MergeShape(*this, "output", &out,
               size_ == TShape::kUnknown ? TShape::OfRank(1) : TShape{size_});
    return out.known();
  }

 private:
  void CheckParameters() override {
    size_ = TShape::kUnknown;
    if (param_.infer_range && !param_.stop) return;
    const Number first = param_.First(), stop = param_.stop.value_or(param_.start);
    const double values = CountOfValues(first, stop, param_.step);
    if (!(values >= 1)) {
      using Text = ops_internal::ParameterText<Number>;
      throw InvalidArgument(TypeString(), ": a range from ", Text::Print(first), " to ",
                            Text::Print(stop), " in steps of ", Text::Print(param_.step),
                            " has no values");
    }
    size_ = SizeOrThrow(*this, values, param_.repeat);
  }

  index_t size_ = TShape::kUnknown;
};

const bool kArange = RegisterMove<ArangeProperty>(
    TESSERA_TABLE_PLACE, "_arange", "start, start + step, … before stop, each value repeated.",
    [](const MoveCall<ArangeParameters>& call, std::span<const TBlob>,
       std::span<const OpReqType> req, std::span<const TBlob> to) {
      FillRamp(call.param.First(), call.param.step, call.param.repeat, to[0], req[0], call.context);
    },
    nullptr);

struct LinspaceParameters {
  Number start;
  Number stop;
  int num = 50;
  bool endpoint = true;
  std::string ctx;
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<LinspaceParameters>& schema) {
    using P = LinspaceParameters;
    schema.Required("start", &P::start, "the first value");
    schema.Required("stop", &P::stop, "the last value");
    schema.Required("num", &P::num, "number of values");
    schema.Range(0);
    schema.Optional("endpoint", &P::endpoint, "whether stop is a value itself");
    DeclareCreation(schema);
  }
};

class LinspaceProperty final : public CreationProperty<LinspaceParameters> {
 public:
  bool InferShape(std::vector<TShape>*, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], {param_.num});
    return true;
  }
};

const bool kLinspace = RegisterMove<LinspaceProperty>(
    TESSERA_TABLE_PLACE, "_linspace", "num values from start to stop, evenly spaced.",
    [](const MoveCall<LinspaceParameters>& call, std::span<const TBlob>,
       std::span<const OpReqType> req, std::span<const TBlob> to) {
      if (req[0] == kNullOp) return;
      const LinspaceParameters& p = call.param;
      const int steps = std::max(1, p.endpoint ? p.num - 1 : p.num);
      const bool is_exact = IsInteger(to[0].type_flag_) && p.start.IsInt64() && p.stop.IsInt64() &&
                            std::abs(p.stop.value() - p.start.value()) < 0x1p62;
      if (is_exact) {
        const int64_t start = p.start.As<int64_t>(), distance = p.stop.As<int64_t>() - start;
        const int64_t remainder = (distance % steps + steps) % steps;
        Fill(IntegerFractions{start, (distance - remainder) / steps, remainder, steps}, to[0],
             req[0], call.context);
      } else {
        const double start = p.start.value();
        Fill(Ramp{start, (p.stop.value() - start) / steps, 1}, to[0], req[0], call.context);
      }
    },
    nullptr);

struct EyeParameters {
  int64_t N = 0;
  int64_t M = 0;
  int64_t k = 0;
  std::string ctx;
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<EyeParameters>& schema) {
    schema.Required("N", &EyeParameters::N, "number of rows");
    schema.Range(0);
    schema.Optional("M", &EyeParameters::M, "number of columns; by default that of rows");
    schema.Range(0);
    schema.Optional("k", &EyeParameters::k, "the diagonal: above the main one if positive");
    DeclareCreation(schema);
  }
  index_t columns() const { return M == 0 ? N : M; }
};

class EyeProperty final : public CreationProperty<EyeParameters> {
 public:
  bool InferShape(std::vector<TShape>*, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], {param_.N, param_.columns()});
    return true;
  }

 private:
  void CheckParameters() override {
    ProductOfExtents(*this, "output", {param_.N, param_.columns()}, 0, 2);
  }
};

const bool kEye = RegisterMove<EyeProperty>(
    TESSERA_TABLE_PLACE, "_eye", "Ones on a diagonal of a matrix, zeros elsewhere.",
    [](const MoveCall<EyeParameters>& call, std::span<const TBlob>, std::span<const OpReqType> req,
       std::span<const TBlob> to) {
      Fill(Eye{call.param.columns(), call.param.k}, to[0], req[0], call.context);
    },
    nullptr);

// Operators with an input, of which they read the shape alone.

template <typename Parameters>
class ShapeOnlyProperty : public MoveProperty<Parameters> {
 public:
  bool ArgumentHasGradient(int) const override { return false; }
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }
};

template <typename Parameters>
void ZeroGradient(const MoveCall<Parameters>& call, std::span<const TBlob>,
                  std::span<const OpReqType> req, std::span<const TBlob> to) {
  ops_internal::MoveZeros(to[0], req[0], call.context);
}

class LikeProperty final : public ShapeOnlyProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferSameShape(*this, "data", &(*in_shape)[0], &(*out_shape)[0]);
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

const bool kZerosLike = RegisterMove<LikeProperty>(TESSERA_TABLE_PLACE, "zeros_like",
                                                   "Zeros of the argument's shape and type.",
                                                   FillConstant<NoParameters, 0>, ZeroGradient);
const bool kOnesLike = RegisterMove<LikeProperty>(TESSERA_TABLE_PLACE, "ones_like",
                                                  "Ones of the argument's shape and type.",
                                                  FillConstant<NoParameters, 1>, ZeroGradient);

struct ArangeLikeParameters {
  Number start;
  Number step = 1;
  int repeat = 1;
  std::string ctx;
  std::optional<int64_t> axis;

  static void Declare(ParameterSchema<ArangeLikeParameters>& schema) {
    using P = ArangeLikeParameters;
    schema.Optional("start", &P::start, "the first value");
    schema.Optional("step", &P::step, "the difference of values");
    schema.Optional("repeat", &P::repeat, "number of times that each value is repeated");
    schema.Range(1);
    schema.Optional("ctx", &P::ctx, "the device, which the caller chooses");
    schema.Optional("axis", &P::axis,
                    "the dimension whose extent the output has; by default it has data's shape");
  }
};

class ArangeLikeProperty final : public ShapeOnlyProperty<ArangeLikeParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (!param_.axis) return InferSameShape(*this, "data", &data, &out);
    MergeShape(*this, "output", &out, TShape::OfRank(1));
    if (!data.rank_known()) return false;
    const int axis = AxisPosition(*this, "axis", *param_.axis, data.ndim());
    MergeShape(*this, "output", &out, {data[axis]});
    data[axis] = out[0];
    return data.known();
  }
};

const bool kArangeLike = RegisterMove<ArangeLikeProperty>(
    TESSERA_TABLE_PLACE, "_contrib_arange_like",
    "start, start + step, … in the shape of data, or of one dimension.",
    [](const MoveCall<ArangeLikeParameters>& call, std::span<const TBlob>,
       std::span<const OpReqType> req, std::span<const TBlob> to) {
      FillRamp(call.param.start, call.param.step, call.param.repeat, to[0], req[0], call.context);
    },
    ZeroGradient);

/// A property whose output holds facts of the input's shape in int64.
template <bool kSize>
class ShapeArrayProperty final : public ShapeOnlyProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    MergeShape(*this, "output", &out, kSize ? TShape{1} : TShape::OfRank(1));
    if (!kSize && data.rank_known()) MergeShape(*this, "output", &out, {data.ndim()});
    return data.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], DType::kInt64);
    return (*in_type)[0] != DType::kUnknown;
  }
};

const bool kShapeArray = RegisterMove<ShapeArrayProperty<false>>(
    TESSERA_TABLE_PLACE, "shape_array", "The extents of data.",
    [](const MoveCall<NoParameters>& call, std::span<const TBlob>, std::span<const OpReqType> req,
       std::span<const TBlob> to) {
      ShapeExtents extents{};
      std::copy(call.in_shape[0].begin(), call.in_shape[0].end(), extents.extents);
      Fill(extents, to[0], req[0], call.context);
    },
    ZeroGradient);
const bool kSizeArray = RegisterMove<ShapeArrayProperty<true>>(
    TESSERA_TABLE_PLACE, "size_array", "The number of elements of data.",
    [](const MoveCall<NoParameters>& call, std::span<const TBlob>, std::span<const OpReqType> req,
       std::span<const TBlob> to) {
      FillWith(call.in_shape[0].Size(), to[0], req[0], call.context);
    },
    ZeroGradient);

}  // namespace
}  // namespace tessera
