// test_two: an operator with two implementations, which tests tell apart by their results.
//
//   native: out = x + 1, d x = 10 g        fast: out = x + 2, d x = 20 g
//
// "fast" is chosen where it supports the call: an even number of float32, unless exact=True. A
// negative element of x is an error. Types: float32, float64.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

struct TwoParameters {
  bool exact = false;

  static void Declare(ParameterSchema<TwoParameters>& schema) {
    schema.Optional("exact", &TwoParameters::exact, "refuse the fast implementation");
  }
};

class TwoProperty final : public ParameterizedProperty<TwoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output", &(*out_shape)[0], (*in_shape)[0]);
    MergeShape(*this, "data", &(*in_shape)[0], (*out_shape)[0]);
    return (*in_shape)[0].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
};

class TwoOperator final : public Operator {
 public:
  TwoOperator(double shift, double slope) : shift_(shift), slope_(slope) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    Compute(in_data[0], 1, shift_, req[0], out_data[0]);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    Compute(out_grad[0], slope_, 0, req[0], in_grad[0]);
  }

 private:
  static void Compute(const TBlob& from, double factor, double shift, OpReqType req,
                      const TBlob& to) {
    if (req == kNullOp) return;
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      const T* const in = static_cast<const T*>(from.dptr_);
      T* const out = static_cast<T*>(to.dptr_);
      for (index_t i = 0; i < from.Size(); ++i) {
        if (in[i] < zero) throw OutOfRange("element ", i, " is negative");
        const T value = in[i] * static_cast<T>(factor) + static_cast<T>(shift);
        out[i] = req == kAddTo ? out[i] + value : value;
      }
    };
    if (from.type_flag_ == DType::kFloat64) return run(0.0);
    run(0.0f);
  }

  const double shift_, slope_;
};

std::string RefusalOfFast(const OperatorProperty& property, std::span<const TShape> in_shape,
                          std::span<const DType> in_type) {
  if (static_cast<const TwoProperty&>(property).param().exact) return "exact is True";
  if (in_type[0] != DType::kFloat32) return "data is not float32";
  if (in_shape[0].Size() % 2 != 0) return "the number of elements is odd";
  return "";
}

template <int kShift>
std::unique_ptr<Operator> Create(const OperatorProperty&, std::span<const TShape>,
                                 std::span<const DType>) {
  return std::make_unique<TwoOperator>(kShift, 10 * kShift);
}

// Before the operator itself is registered.
[[maybe_unused]] const bool kFast = OperatorRegistry::Get().AddImplementation(
    "test_two", {.name = "fast", .rank = 1, .refusal = RefusalOfFast, .create = Create<2>},
    __FILE__, __LINE__);

[[maybe_unused]] const OperatorEntry* const kRegistered = OperatorRegistry::Get().Register(
    {.name = "test_two",
     .file = __FILE__,
     .line = __LINE__,
     .create_property = [] { return std::make_unique<TwoProperty>(); },
     .describe_parameters = [] { return TwoProperty::DescribeParameters(); },
     .implementation = {.name = "native", .create = Create<1>}});

}  // namespace
}  // namespace tessera
