// Random numbers of a distribution:
//
//   _random_NAME       an array of independent numbers; shape and element type are parameters
//   _random_NAME_like  an array like data, of which only shape and type are read
//   _sample_NAME       numbers for each element of arrays of the distribution's parameters: the
//                      output has their shape, then `shape`
//
//   uniform (low, high)                on [low, high)
//   normal (loc, scale)                mean and standard deviation; _sample_: mu, sigma
//   gamma (alpha, beta)                shape and scale: mean alpha * beta
//   exponential (lam)                  rate: mean 1 / lam
//   poisson (lam)                      mean
//   negative_binomial (k, p)           failures before k successes of probability p
//   generalized_negative_binomial (mu, alpha)  mean mu, variance mu + alpha * mu^2
//   _random_randint (low, high)        integers in [low, high)
//
// The numbers come from the device's sequence: one seed gives one result, whatever the number of
// threads. Types: float32, float64, float16, bfloat16; randint int32 and int64; parameters'
// arrays any. Parameters are float numbers. The gradient of inputs is 0. On a GPU there are
// _random_uniform, _random_normal and their like forms.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/xpu.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/philox.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: RegisterTypedOperator

/// A distribution's parameters; the second is 0 if there is one.
using Numbers = std::array<double, 2>;

// Distributions. Each has the names of its parameters, those of the inputs of _sample_NAME, and
// what its numbers are.

struct Uniform {
  static constexpr std::array<const char*, 2> kNames = {"low", "high"};
  static constexpr std::array<const char*, 2> kInputs = kNames;
  static constexpr std::string_view kDescription = "Numbers that are uniform in an interval";
  static constexpr const char* kExpected = "low <= high, both finite";
  float low = 0;
  float high = 1;

  template <typename P>
  static void Declare(ParameterSchema<P>& schema) {
    schema.template Optional<float>("low", &P::low, "the least number");
    schema.template Optional<float>("high", &P::high, "the bound below which numbers lie");
  }
  Numbers numbers() const { return {double{low}, double{high}}; }
  static bool IsValid(const Numbers& n) {
    return n[0] <= n[1] && std::isfinite(static_cast<float>(n[1] - n[0])) && std::isfinite(n[0]);
  }
  template <typename Dev, typename Out>
  static void Fill(Random<Dev>& random, Out* out, const Numbers& n) {
    random.SampleUniform(out, n[0], n[1]);
  }
  static constexpr Numbers kStandard = {0, 1};
  template <typename T>
  static T Transform(T u, const Numbers& n) {
    const T low = static_cast<T>(n[0]), high = static_cast<T>(n[1]);
    const T x = low + (high - low) * u;
    return x < high ? x : low;  // a sum that is rounded up to high
  }
};

struct Normal {
  static constexpr std::array<const char*, 2> kNames = {"loc", "scale"};
  static constexpr std::array<const char*, 2> kInputs = {"mu", "sigma"};
  static constexpr std::string_view kDescription = "Numbers of a normal distribution";
  static constexpr const char* kExpected = "both finite, the standard deviation not negative";
  float loc = 0;
  float scale = 1;

  template <typename P>
  static void Declare(ParameterSchema<P>& schema) {
    schema.template Optional<float>("loc", &P::loc, "mean");
    schema.template Optional<float>("scale", &P::scale, "standard deviation");
  }
  Numbers numbers() const { return {double{loc}, double{scale}}; }
  static bool IsValid(const Numbers& n) {
    return std::isfinite(n[0]) && n[1] >= 0 && std::isfinite(n[1]);
  }
  template <typename Dev, typename Out>
  static void Fill(Random<Dev>& random, Out* out, const Numbers& n) {
    random.SampleGaussian(out, n[0], n[1]);
  }
  static constexpr Numbers kStandard = {0, 1};
  template <typename T>
  static T Transform(T z, const Numbers& n) {
    return static_cast<T>(n[0]) + static_cast<T>(n[1]) * z;
  }
};

/// Returns whether a number is above 0 and finite.
bool IsPositive(double x) { return x > 0 && std::isfinite(x); }

struct Gamma {
  static constexpr std::array<const char*, 2> kNames = {"alpha", "beta"};
  static constexpr std::array<const char*, 2> kInputs = kNames;
  static constexpr std::string_view kDescription = "Numbers of a gamma distribution";
  static constexpr const char* kExpected = "both above 0 and finite";
  float alpha = 1;
  float beta = 1;

  template <typename P>
  static void Declare(ParameterSchema<P>& schema) {
    schema.template Optional<float>("alpha", &P::alpha, "shape");
    schema.template Optional<float>("beta", &P::beta, "scale");
  }
  Numbers numbers() const { return {double{alpha}, double{beta}}; }
  static bool IsValid(const Numbers& n) { return IsPositive(n[0]) && IsPositive(n[1]); }
  template <typename Dev, typename Out>
  static void Fill(Random<Dev>& random, Out* out, const Numbers& n) {
    random.SampleGamma(out, n[0], n[1]);
  }
};

struct Exponential {
  static constexpr std::array<const char*, 1> kNames = {"lam"};
  static constexpr std::array<const char*, 1> kInputs = kNames;
  static constexpr std::string_view kDescription = "Numbers of an exponential distribution";
  static constexpr const char* kExpected = "above 0 and finite";
  float lam = 1;

  template <typename P>
  static void Declare(ParameterSchema<P>& schema) {
    schema.template Optional<float>("lam", &P::lam, "rate");
  }
  Numbers numbers() const { return {double{lam}}; }
  static bool IsValid(const Numbers& n) { return IsPositive(n[0]); }
  template <typename Dev, typename Out>
  static void Fill(Random<Dev>& random, Out* out, const Numbers& n) {
    random.SampleExponential(out, n[0]);
  }
  static constexpr Numbers kStandard = {1};
  template <typename T>
  static T Transform(T x, const Numbers& n) {
    return x / static_cast<T>(n[0]);
  }
};

struct Poisson {
  static constexpr std::array<const char*, 1> kNames = {"lam"};
  static constexpr std::array<const char*, 1> kInputs = kNames;
  static constexpr std::string_view kDescription = "Numbers of a Poisson distribution";
  static constexpr const char* kExpected = "in [0, 1e15]";
  float lam = 1;

  template <typename P>
  static void Declare(ParameterSchema<P>& schema) {
    schema.template Optional<float>("lam", &P::lam, "mean");
  }
  Numbers numbers() const { return {double{lam}}; }
  static bool IsValid(const Numbers& n) { return n[0] >= 0 && n[0] <= 1e15; }
  template <typename Dev, typename Out>
  static void Fill(Random<Dev>& random, Out* out, const Numbers& n) {
    random.SamplePoisson(out, n[0]);
  }
};

struct NegativeBinomial {
  static constexpr std::array<const char*, 2> kNames = {"k", "p"};
  static constexpr std::array<const char*, 2> kInputs = kNames;
  static constexpr std::string_view kDescription = "Numbers of a negative binomial distribution";
  static constexpr const char* kExpected = "k at least 0 and finite, p in (0, 1]";
  int k = 1;
  float p = 1;

  template <typename P>
  static void Declare(ParameterSchema<P>& schema) {
    schema.template Optional<int>("k", &P::k, "number of successes");
    schema.template Optional<float>("p", &P::p, "probability of a success");
  }
  Numbers numbers() const { return {static_cast<double>(k), double{p}}; }
  static bool IsValid(const Numbers& n) {
    return n[0] >= 0 && std::isfinite(n[0]) && n[1] > 0 && n[1] <= 1;
  }
  template <typename Dev, typename Out>
  static void Fill(Random<Dev>& random, Out* out, const Numbers& n) {
    if (n[0] == 0) {
      random.SamplePoisson(out, 0);
    } else {
      random.SampleNegativeBinomial(out, n[0], n[1]);
    }
  }
};

struct GeneralizedNegativeBinomial {
  static constexpr std::array<const char*, 2> kNames = {"mu", "alpha"};
  static constexpr std::array<const char*, 2> kInputs = kNames;
  static constexpr std::string_view kDescription =
      "Numbers of a negative binomial distribution, by mean and dispersion";
  static constexpr const char* kExpected = "both at least 0 and finite";
  float mu = 1;
  float alpha = 1;

  template <typename P>
  static void Declare(ParameterSchema<P>& schema) {
    schema.template Optional<float>("mu", &P::mu, "mean");
    schema.template Optional<float>("alpha", &P::alpha, "dispersion");
  }
  Numbers numbers() const { return {double{mu}, double{alpha}}; }
  static bool IsValid(const Numbers& n) {
    return n[0] >= 0 && std::isfinite(n[0]) && n[1] >= 0 && std::isfinite(n[1]);
  }
  template <typename Dev, typename Out>
  static void Fill(Random<Dev>& random, Out* out, const Numbers& n) {
    random.SampleGeneralizedNegativeBinomial(out, n[0], n[1]);
  }
};

/// Throws Error(kInvalidArgument) that begins with `owner` and names the parameters, unless they
/// are valid.
template <typename D, size_t n>
void CheckNumbers(const std::string& owner, const std::array<const char*, n>& names,
                  const Numbers& numbers) {
  if (D::IsValid(numbers)) return;
  if constexpr (n == 1) {
    throw InvalidArgument(owner, names[0], " = ", numbers[0], "; expected ", D::kExpected);
  } else {
    throw InvalidArgument(owner, names[0], " = ", numbers[0], ", ", names[1], " = ", numbers[1],
                          "; expected ", D::kExpected);
  }
}

/// The property of an operator that draws numbers.
template <typename Parameters>
class RandomProperty : public ParameterizedProperty<Parameters> {
 public:
  Purity purity() const override { return Purity::kRandom; }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}};
  }
  bool ArgumentHasGradient(int) const override { return false; }
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }
};

/// An operator whose inputs have gradient 0, which its caller does not ask for, and that does not
/// add.
class RandomOperator : public Operator {
 public:
  void Backward(const OpContext&, std::span<const TBlob>, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType>,
                std::span<const TBlob>) override {}
  bool AcceptsAddTo() const override { return false; }
};

/// Infers the type of an output: the parameter's, else `absent`.
void InferOutputType(const OperatorProperty& property, DType parameter, DType absent, DType* out) {
  if (*out == DType::kUnknown) *out = parameter == DType::kUnknown ? absent : parameter;
  if (parameter != DType::kUnknown && *out != parameter) {
    throw InvalidArgument(property.TypeString(), ": output has element type ", *out,
                          ", but parameter dtype is ", parameter);
  }
}

std::vector<std::pair<std::string, DType>> RealDTypeChoices() {
  return {{"None", DType::kUnknown},
          {"float16", DType::kFloat16},
          {"float32", DType::kFloat32},
          {"float64", DType::kFloat64},
          {"bfloat16", DType::kBFloat16}};
}

// _random_NAME and _random_NAME_like.

/// Returns the shape of a parameter in which 0 and -1 are unknown extents, and no extents at all an
/// unknown rank.
TShape ShapeOf(const OperatorProperty& property,
               const std::optional<std::vector<int64_t>>& extents) {
  if (!extents || extents->empty()) return TShape();
  std::vector<index_t> known;
  for (const int64_t extent : *extents) {
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
  const TShape shape{std::span<const index_t>(known)};
  ProductOfExtents(property, "output", shape, 0, shape.ndim());
  return shape;
}

/// The parameters shape, ctx and dtype.
struct OutputParameters {
  std::optional<std::vector<int64_t>> shape;
  std::string ctx;
  DType dtype = DType::kUnknown;

  template <typename P>
  static void DeclareOutput(ParameterSchema<P>& schema,
                            std::vector<std::pair<std::string, DType>> dtypes) {
    schema.template Optional<std::optional<std::vector<int64_t>>>(
        "shape", &P::shape, "the shape, in which 0 is unknown");
    schema.template Optional<std::string>("ctx", &P::ctx, "the device, which the caller chooses");
    schema.template Choice<DType>("dtype", &P::dtype, std::move(dtypes),
                                  "the output's element type");
  }
};

template <typename D>
struct DrawParameters : D, OutputParameters {
  static void Declare(ParameterSchema<DrawParameters>& schema) {
    D::Declare(schema);
    OutputParameters::DeclareOutput(schema, RealDTypeChoices());
  }
};

template <typename Parameters>
class DrawProperty : public RandomProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {}; }
  bool InferShape(std::vector<TShape>*, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], shape_);
    return (*out_shape)[0].known();
  }

 protected:
  void CheckParameters() override { shape_ = ShapeOf(*this, this->param_.shape); }

 private:
  TShape shape_;
};

template <typename D>
class RealDrawProperty final : public DrawProperty<DrawParameters<D>> {
 public:
  bool InferType(std::vector<DType>*, std::vector<DType>* out_type) const override {
    DType& out = (*out_type)[0];
    InferOutputType(*this, this->param_.dtype, DType::kFloat32, &out);
    VisitRealDType(out, this->TypeString(), [](auto) {});
    return true;
  }

 private:
  void CheckParameters() override {
    CheckNumbers<D>(this->TypeString() + ": ", D::kNames, this->param_.numbers());
    DrawProperty<DrawParameters<D>>::CheckParameters();
  }
};

template <typename D>
struct LikeParameters : D {
  static void Declare(ParameterSchema<LikeParameters>& schema) { D::Declare(schema); }
};

template <typename D>
class LikeProperty final : public RandomProperty<LikeParameters<D>> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeEqualShapes(*this, {{"data", &(*in_shape)[0]}, {"output", &(*out_shape)[0]}});
    return (*in_shape)[0].known();
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }

 private:
  void CheckParameters() override {
    CheckNumbers<D>(this->TypeString() + ": ", D::kNames, this->param_.numbers());
  }
};

/// The operator of _random_NAME and _random_NAME_like.
template <typename D>
class DrawOperator final : public RandomOperator {
 public:
  explicit DrawOperator(const D& distribution) : numbers_(distribution.numbers()) {}

  void Forward(const OpContext& context, std::span<const TBlob>, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    auto* const stream = context.get_stream<xpu>();
    auto random = context.requested[0]->template get_random<xpu>(stream);
    VisitRealDType(out_data[0].type_flag_, "random numbers", [&](auto tag) {
      auto out = out_data[0].FlatTo1D<xpu, typename decltype(tag)::type>(stream);
      D::Fill(random, &out, numbers_);
    });
  }

 private:
  const Numbers numbers_;
};

/// Registers _random_NAME and returns true.
template <typename D>
bool RegisterDraw(const TablePlace& place, std::string_view name) {
  return RegisterTypedOperator<RealDrawProperty<D>, DrawOperator<D>>(
      place, name, std::string(D::kDescription) + ".");
}

/// Registers _random_NAME_like and returns true.
template <typename D>
bool RegisterLike(const TablePlace& place, std::string_view name) {
  return RegisterTypedOperator<LikeProperty<D>, DrawOperator<D>>(
      place, name, std::string(D::kDescription) + ", in an array like data.");
}

[[maybe_unused]] const bool kDraws[] = {
    RegisterDraw<Uniform>(TESSERA_TABLE_PLACE, "_random_uniform"),
    RegisterLike<Uniform>(TESSERA_TABLE_PLACE, "_random_uniform_like"),
    RegisterDraw<Normal>(TESSERA_TABLE_PLACE, "_random_normal"),
    RegisterLike<Normal>(TESSERA_TABLE_PLACE, "_random_normal_like"),
};

#if !defined(TESSERA_XPU_GPU)

[[maybe_unused]] const bool kDrawsOnCpu[] = {
    RegisterDraw<Gamma>(TESSERA_TABLE_PLACE, "_random_gamma"),
    RegisterLike<Gamma>(TESSERA_TABLE_PLACE, "_random_gamma_like"),
    RegisterDraw<Exponential>(TESSERA_TABLE_PLACE, "_random_exponential"),
    RegisterLike<Exponential>(TESSERA_TABLE_PLACE, "_random_exponential_like"),
    RegisterDraw<Poisson>(TESSERA_TABLE_PLACE, "_random_poisson"),
    RegisterLike<Poisson>(TESSERA_TABLE_PLACE, "_random_poisson_like"),
    RegisterDraw<NegativeBinomial>(TESSERA_TABLE_PLACE, "_random_negative_binomial"),
    RegisterLike<NegativeBinomial>(TESSERA_TABLE_PLACE, "_random_negative_binomial_like"),
    RegisterDraw<GeneralizedNegativeBinomial>(TESSERA_TABLE_PLACE,
                                              "_random_generalized_negative_binomial"),
    RegisterLike<GeneralizedNegativeBinomial>(TESSERA_TABLE_PLACE,
                                              "_random_generalized_negative_binomial_like"),
};

// _random_randint.

struct RandIntParameters : OutputParameters {
  int64_t low = 0;
  int64_t high = 1;

  static void Declare(ParameterSchema<RandIntParameters>& schema) {
    schema.Required("low", &RandIntParameters::low, "the least integer");
    schema.Required("high", &RandIntParameters::high, "the integer above the largest");
    DeclareOutput(schema,
                  {{"None", DType::kUnknown}, {"int32", DType::kInt32}, {"int64", DType::kInt64}});
  }
};

class RandIntProperty final : public DrawProperty<RandIntParameters> {
 public:
  bool InferType(std::vector<DType>*, std::vector<DType>* out_type) const override {
    DType& out = (*out_type)[0];
    InferOutputType(*this, param_.dtype, DType::kInt32, &out);
    if (out != DType::kInt32 && out != DType::kInt64) {
      throw InvalidArgument(TypeString(), ": output has element type ", out,
                            ", expected int32 or int64");
    }
    using Limits = std::numeric_limits<int32_t>;
    if (out == DType::kInt32 && (param_.low < Limits::min() || param_.high - 1 > Limits::max())) {
      throw InvalidArgument(TypeString(), ": low = ", param_.low, ", high = ", param_.high,
                            " do not fit element type int32");
    }
    return true;
  }

 private:
  void CheckParameters() override {
    if (param_.low >= param_.high) {
      throw InvalidArgument(TypeString(), ": low = ", param_.low, ", high = ", param_.high,
                            "; expected low < high");
    }
    DrawProperty<RandIntParameters>::CheckParameters();
  }
};

class RandIntOperator final : public RandomOperator {
 public:
  explicit RandIntOperator(const RandIntParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob>, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    auto random = context.requested[0]->get_random<cpu>(nullptr);
    const auto fill = [&]<typename T>(T) {
      auto out = out_data[0].FlatTo1D<cpu, T>(nullptr);
      random.SampleRandInt(&out, param_.low, param_.high);
    };
    if (out_data[0].type_flag_ == DType::kInt64) {
      fill(int64_t());
    } else {
      fill(int32_t());
    }
  }

 private:
  const RandIntParameters param_;
};

[[maybe_unused]] const bool kRandInt = RegisterTypedOperator<RandIntProperty, RandIntOperator>(
    TESSERA_TABLE_PLACE, "_random_randint", "Integers that are uniform in a range.");

// _sample_NAME.

struct SampleParameters {
  std::vector<int64_t> shape;
  DType dtype = DType::kUnknown;

  static void Declare(ParameterSchema<SampleParameters>& schema) {
    schema.Optional("shape", &SampleParameters::shape, "the shape of each element's numbers");
    schema.Choice("dtype", &SampleParameters::dtype, RealDTypeChoices(),
                  "the output's element type");
  }
};

template <typename D>
class SampleProperty final : public RandomProperty<SampleParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {D::kInputs.begin(), D::kInputs.end()};
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape common;
    TShape& out = (*out_shape)[0];
    const int tail = static_cast<int>(param_.shape.size());
    if (out.rank_known()) {
      if (out.ndim() < tail) ThrowShorter(out);
      common = TShape(std::span<const index_t>(out.begin(), out.end() - tail));
    }
    for (size_t i = 0; i < in_shape->size(); ++i) {
      MergeShape(*this, D::kInputs[i], &(*in_shape)[i], common);
      common = (*in_shape)[i];
    }
    std::fill(in_shape->begin(), in_shape->end(), common);
    if (!common.rank_known()) return false;
    std::vector<index_t> extents(common.begin(), common.end());
    extents.insert(extents.end(), param_.shape.begin(), param_.shape.end());
    if (extents.size() > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": ", D::kInputs[0], " has shape ", common,
                            " and parameter shape ", tail, " extents, together more than ",
                            TShape::kMaxRank);
    }
    MergeShape(*this, "output", &out, TShape(std::span<const index_t>(extents)));
    ProductOfExtents(*this, "output", out, 0, out.ndim());
    return out.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    std::vector<DType> none;
    const bool known = OperatorProperty::InferType(in_type, &none);
    DType& out = (*out_type)[0];
    InferOutputType(*this, param_.dtype, DType::kFloat32, &out);
    VisitRealDType(out, TypeString(), [](auto) {});
    return known;
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}, {ResourceRequest::Type::kTempSpace}};
  }

 private:
  void CheckParameters() override {
    for (const int64_t extent : param_.shape) {
      if (extent >= 0) continue;
      throw InvalidArgument(TypeString(), ": parameter shape: extent ", extent, " is negative");
    }
  }
  [[noreturn]] void ThrowShorter(const TShape& out) const {
    throw InvalidArgument(TypeString(), ": output has shape ", out, ", expected at least the ",
                          param_.shape.size(), " dimensions of parameter shape");
  }
};

/// Satisfied by distributions whose numbers are functions of standard numbers.
template <typename D>
concept HasStandard = requires {
  D::kStandard;
};

template <typename D>
class SampleOperator final : public RandomOperator {
 public:
  explicit SampleOperator(const SampleParameters&) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob& out = out_data[0];
    if (req[0] == kNullOp) return;
    const index_t count = in_data[0].Size();
    if (out.Size() == 0) return;
    ForEachNumbers(in_data, 0, count, [](index_t i, const Numbers& numbers) {
      CheckNumbers<D>("element " + std::to_string(i) + " of the inputs has ", D::kInputs, numbers);
    });
    if constexpr (HasStandard<D>) {
      if (StandardType(out) == DType::kFloat64) {
        TransformStandard<double>(context, in_data, out);
      } else {
        TransformStandard<float>(context, in_data, out);
      }
    } else {
      VisitRealDType(out.type_flag_, "random numbers", [&](auto tag) {
        FillRows<typename decltype(tag)::type>(context, in_data, out);
      });
    }
  }
  std::optional<int64_t> ForwardWorkspaceBytes(int, std::span<const TBlob>,
                                               std::span<const OpReqType>,
                                               std::span<const TBlob> out_data) const override {
    const DType standard = StandardType(out_data[0]);
    if (!HasStandard<D> || out_data[0].type_flag_ == standard) return 0;
    return out_data[0].Size() * DTypeSizeBytes(standard);
  }

 private:
  /// The type in which standard numbers are drawn for the whole output.
  static DType StandardType(const TBlob& out) {
    return out.type_flag_ == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  }

  /// Calls function(i, parameters) for elements [begin, end) of the inputs.
  template <typename Function>
  static void ForEachNumbers(std::span<const TBlob> in, index_t begin, index_t end,
                             const Function& function) {
    constexpr index_t kBlock = 256;
    double block[2][kBlock] = {};
    for (index_t first = begin; first < end; first += kBlock) {
      const index_t n = std::min(kBlock, end - first);
      for (size_t k = 0; k < in.size(); ++k) {
        RowReader<double>(in[k]).Copy(first, n, block[k]);
      }
      for (index_t i = 0; i < n; ++i) function(first + i, Numbers{block[0][i], block[1][i]});
    }
  }

  /// Draws standard numbers for the whole output and transforms them.
  template <typename T>
  static void TransformStandard(const OpContext& context, std::span<const TBlob> in,
                                const TBlob& out) {
    TBlob drawn = out;
    if (out.type_flag_ != kDTypeOf<T>) {
      drawn = WorkspaceArray<cpu>(context, 1, {out.Size()}, kDTypeOf<T>, out.device_);
    }
    auto elements = drawn.FlatTo1D<cpu, T>(nullptr);
    auto random = context.requested[0]->get_random<cpu>(nullptr);
    D::Fill(random, &elements, D::kStandard);
    T* const values = elements.dptr_;
    const index_t count = in[0].Size(), each = out.Size() / count;
    ParallelFor(count, StepsPerTask(each, 2), [&](index_t begin, index_t end) {
      ForEachNumbers(in, begin, end, [&](index_t i, const Numbers& numbers) {
        T* const row = values + i * each;
        for (index_t j = 0; j < each; ++j) row[j] = D::Transform(row[j], numbers);
      });
      if (drawn.dptr_ == out.dptr_) return;
      RowWriter<T>(out, kWriteTo).Write(begin * each, (end - begin) * each, values + begin * each);
    });
  }

  /// Draws the numbers of each element of the inputs by itself, from blocks of its own.
  template <typename T>
  static void FillRows(const OpContext& context, std::span<const TBlob> in, const TBlob& out) {
    constexpr index_t kTile = 16;  // blocks; the random generator draws whole tiles
    constexpr index_t kCost = 30;  // of a number
    const index_t count = in[0].Size(), each = out.Size() / count;
    const index_t blocks = (each + kTile - 1) / kTile * kTile;
    PhiloxState* const state = context.requested[0]->GetRandomState();
    const PhiloxState from = *state;
    const uint64_t first = state->Reserve(static_cast<uint64_t>(count * blocks));
    ParallelFor(count, StepsPerTask(blocks, kCost), [&](index_t begin, index_t end) {
      ForEachNumbers(in, begin, end, [&](index_t i, const Numbers& numbers) {
        PhiloxState own = from;
        own.next_block = first + static_cast<uint64_t>(i * blocks);
        Random<cpu> random(&own);
        Tensor<cpu, 1, T> row(static_cast<T*>(out.dptr_) + i * each, Shape1(each));
        D::Fill(random, &row, numbers);
      });
    });
  }
};

/// Registers _sample_NAME and returns true.
template <typename D>
bool RegisterSample(const TablePlace& place, std::string_view name) {
  return RegisterTypedOperator<SampleProperty<D>, SampleOperator<D>>(
      place, name, std::string(D::kDescription) + ", for each element of the inputs.",
      TakenTypes::kAny);
}

[[maybe_unused]] const bool kSamples[] = {
    RegisterSample<Uniform>(TESSERA_TABLE_PLACE, "_sample_uniform"),
    RegisterSample<Normal>(TESSERA_TABLE_PLACE, "_sample_normal"),
    RegisterSample<Gamma>(TESSERA_TABLE_PLACE, "_sample_gamma"),
    RegisterSample<Exponential>(TESSERA_TABLE_PLACE, "_sample_exponential"),
    RegisterSample<Poisson>(TESSERA_TABLE_PLACE, "_sample_poisson"),
    RegisterSample<NegativeBinomial>(TESSERA_TABLE_PLACE, "_sample_negative_binomial"),
    RegisterSample<GeneralizedNegativeBinomial>(TESSERA_TABLE_PLACE,
                                                "_sample_generalized_negative_binomial"),
};

#endif  // !TESSERA_XPU_GPU

}  // namespace
}  // namespace tessera
