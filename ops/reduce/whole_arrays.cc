// all_finite, multi_all_finite and multi_sum_sq: numbers that describe whole arrays, which scale
// gradients.
//
//   all_finite        1 if no element is infinite or NaN, else 0; multi_all_finite of all arrays
//   multi_sum_sq      the sum of squares of each array
//
// With init_output=False, an output that is 1 stays unchanged, so that calls on one array add up.
// There are no gradients. Shapes: arrays of any shapes; out (1), or (num_arrays) for multi_sum_sq.
// Types: arrays of one type, float32, float64, float16 or bfloat16; out float32, whose sums are
// made in float32, or float64 for arrays of float64. Runs on the CPU.
#include <string>
#include <vector>

#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the reduction driver

struct AllFiniteParameters {
  static constexpr int64_t num_arrays = 1;
  bool init_output = true;

  static void Declare(ParameterSchema<AllFiniteParameters>& schema) {
    schema.Optional("init_output", &AllFiniteParameters::init_output,
                    "whether the output's old value does not count");
  }
  static std::string ArrayName(int64_t) { return "data"; }
  int64_t NumOutputs() const { return 1; }
};

std::string NumberedArray(int64_t i) { return "array_" + std::to_string(i); }

struct MultiAllFiniteParameters {
  int64_t num_arrays = 1;
  bool init_output = true;

  static void Declare(ParameterSchema<MultiAllFiniteParameters>& schema) {
    using P = MultiAllFiniteParameters;
    schema.Optional("num_arrays", &P::num_arrays, "the number of arrays");
    schema.Range(1, 1 << 20);
    schema.Optional("init_output", &P::init_output,
                    "whether the output's old value does not count");
  }
  static std::string ArrayName(int64_t i) { return NumberedArray(i); }
  int64_t NumOutputs() const { return 1; }
};

struct MultiSumSqParameters {
  int64_t num_arrays = 1;

  static void Declare(ParameterSchema<MultiSumSqParameters>& schema) {
    schema.Required("num_arrays", &MultiSumSqParameters::num_arrays, "the number of arrays");
    schema.Range(1, 1 << 20);
  }
  static std::string ArrayName(int64_t i) { return NumberedArray(i); }
  int64_t NumOutputs() const { return num_arrays; }
};

template <typename Parameters>
class WholeArraysProperty final : public ParameterizedProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names;
    for (int64_t i = 0; i < this->param().num_arrays; ++i) {
      names.push_back(Parameters::ArrayName(i));
    }
    return names;
  }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], {this->param().NumOutputs()});
    for (const TShape& shape : *in_shape) {
      if (!shape.known()) return false;
    }
    return true;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    std::vector<DType> no_outputs;
    OperatorProperty::InferType(in_type, &no_outputs);
    DType& out = (*out_type)[0];
    if (out != DType::kUnknown && out != DType::kFloat32) {
      throw InvalidArgument(this->TypeString(), ": output has element type ", out,
                            ", expected float32");
    }
    out = DType::kFloat32;
    return (*in_type)[0] != DType::kUnknown;
  }
};

/// Reduces all elements of an array.
void ReduceArray(const ReduceFunction& function, const TBlob& array, const TBlob& out,
                 OpReqType req, const OpContext& context) {
  ReducedAxes all;
  all.fill(true);
  Reduce(function, array, all, out, req, context);
}

/// 1 if all elements are finite, else 0.
struct FiniteReducer {
  template <typename T>
  TESSERA_HD static T Identity() {
    return T(1);
  }
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return x - x == T(0) ? T(1) : T(0);
  }
  template <typename T>
  TESSERA_HD static T Combine(T a, T b) {
    return op::mul::Map(a, b);
  }
};

template <typename Parameters>
class AllFiniteOperator final : public Operator {
 public:
  explicit AllFiniteOperator(const Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    static const ReduceFunction finite = MakeReduceFunction<FiniteReducer>();
    if (req[0] == kNullOp) return;
    float result = 1;
    const TBlob of_array(&result, {1}, DType::kFloat32, out_data[0].device_);
    for (size_t i = 0; i < in_data.size() && result == 1; ++i) {
      ReduceArray(finite, in_data[i], of_array, kWriteTo, context);
    }
    float& out = *static_cast<float*>(out_data[0].dptr_);
    if (req[0] == kAddTo) {
      out += result;
    } else if (param_.init_output || result == 0) {
      out = result;
    }
  }

 private:
  const Parameters param_;
};

class MultiSumSqOperator final : public Operator {
 public:
  explicit MultiSumSqOperator(const MultiSumSqParameters&) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    static const ReduceFunction square_sum = MakeReduceFunction<SquareSumReducer>();
    if (req[0] == kNullOp) return;
    for (size_t i = 0; i < in_data.size(); ++i) {
      const TBlob of_array(static_cast<float*>(out_data[0].dptr_) + i, {1}, DType::kFloat32,
                           out_data[0].device_);
      ReduceArray(square_sum, in_data[i], of_array, req[0], context);
    }
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<WholeArraysProperty<AllFiniteParameters>,
                          AllFiniteOperator<AllFiniteParameters>>(
        TESSERA_TABLE_PLACE, "all_finite", "Whether no element is infinite or NaN."),
    RegisterTypedOperator<WholeArraysProperty<MultiAllFiniteParameters>,
                          AllFiniteOperator<MultiAllFiniteParameters>>(
        TESSERA_TABLE_PLACE, "multi_all_finite",
        "Whether no element of several arrays is infinite or NaN."),
    RegisterTypedOperator<WholeArraysProperty<MultiSumSqParameters>, MultiSumSqOperator>(
        TESSERA_TABLE_PLACE, "multi_sum_sq", "The sum of squares of each of several arrays."),
};

}  // namespace
}  // namespace tessera
