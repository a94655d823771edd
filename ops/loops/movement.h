#ifndef TESSERA_OPS_LOOPS_MOVEMENT_H_
#define TESSERA_OPS_LOOPS_MOVEMENT_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/number.h"
#include "tessera/ops/loops/move.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/ops/table.h"

// Operators that move elements, for every element type: a property, and functions that make the
// copies.
namespace tessera::ops_internal {

/// One call of an operator.
template <typename Parameters>
struct MoveCall {
  const Parameters& param;
  std::span<const TShape> in_shape;  ///< the shapes of the operator's inputs
  const OpContext& context;
};

/// Computes all of `to` from `from`: outputs from inputs, or input gradients from head gradients.
template <typename Parameters>
using MoveFunction = void (*)(const MoveCall<Parameters>& call, std::span<const TBlob> from,
                              std::span<const OpReqType> req, std::span<const TBlob> to);

/// An operator of two such functions; `backward` is null if it has no gradient.
template <typename Parameters>
class MoveOperator final : public Operator {
 public:
  MoveOperator(const Parameters& param, std::span<const TShape> in_shape,
               MoveFunction<Parameters> forward, MoveFunction<Parameters> backward,
               bool accepts_add_to)
      : param_(param),
        in_shape_(in_shape.begin(), in_shape.end()),
        forward_(forward),
        backward_(backward),
        accepts_add_to_(accepts_add_to) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    forward_({param_, in_shape_, context}, in_data, req, out_data);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    if (backward_ == nullptr) {
      Operator::Backward(context, out_grad, in_data, out_data, req, in_grad);
    } else {
      backward_({param_, in_shape_, context}, out_grad, req, in_grad);
    }
  }

  bool AcceptsAddTo() const override { return accepts_add_to_; }

 private:
  const Parameters param_;
  const std::vector<TShape> in_shape_;
  const MoveFunction<Parameters> forward_, backward_;
  const bool accepts_add_to_;
};

/// A property whose gradient reads the head gradients alone.
template <typename Parameters>
class MoveProperty : public ParameterizedProperty<Parameters> {
 public:
  using ParametersType = Parameters;
  /// Tells whether the functions take kAddTo.
  static constexpr bool kAcceptsAddTo = true;

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad.begin(), out_grad.end()};
  }
};

/// Registers an operator of the table at `place`. Property derives from MoveProperty. Returns true.
template <typename Property>
bool RegisterMove(const TablePlace& place, std::string_view name, std::string_view description,
                  MoveFunction<typename Property::ParametersType> forward,
                  MoveFunction<typename Property::ParametersType> backward) {
  RegisterRow<Property>(
      place, name, std::string(description), [] { return std::make_unique<Property>(); },
      [forward, backward](const OperatorProperty& property, std::span<const TShape> in_shape,
                          std::span<const DType>) -> std::unique_ptr<Operator> {
        return std::make_unique<MoveOperator<typename Property::ParametersType>>(
            static_cast<const Property&>(property).param(), in_shape, forward, backward,
            Property::kAcceptsAddTo);
      });
  return true;
}

/// Returns the choices of a parameter that names an element type.
std::vector<std::pair<std::string, DType>> DTypeChoices();

/// Returns a list of arguments "arg0", "arg1", ….
std::vector<std::string> NumberedNames(std::string_view prefix, int64_t count);

/// Sets the type of a value, if it is known. Throws Error(kInvalidArgument) that names operator,
/// value and both types if another one is known.
void MergeType(const OperatorProperty& property, std::string_view value, DType* dtype, DType known);

/// Infers equal shapes of an input and an output; returns whether they are known.
bool InferSameShape(const OperatorProperty& property, std::string_view input, TShape* in,
                    TShape* out);

/// Converts numbers and writes or adds them. Integers keep the last bits of what remains of a
/// number without its fraction.
void StoreConverted(const double* values, index_t n, bool add, DType dtype, void* out);

/// Writes a number as one element, converted as StoreConverted converts; integers stay exact.
void StoreNumber(const Number& number, DType dtype, void* out);

/// Returns a number as an element of `dtype` holds it, converted as StoreNumber converts.
double RoundedTo(DType dtype, const Number& number);

/// Writes a number, converted as StoreNumber converts, to all elements of a view on the CPU.
void FillOnCpu(const StridedView& to, const Number& number, OpReqType req,
               const OpContext& context);

/// Copies the only input in its order: the forward function of reshaping operators, and the
/// backward function of those with one input that has a gradient, the first.
template <typename Parameters>
void MoveFirst(const MoveCall<Parameters>& call, std::span<const TBlob> from,
               std::span<const OpReqType> req, std::span<const TBlob> to) {
  MoveFlat(from[0], to[0], req[0], call.context);
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_MOVEMENT_H_
