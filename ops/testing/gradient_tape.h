#ifndef TESSERA_OPS_TESTING_GRADIENT_TAPE_H_
#define TESSERA_OPS_TESTING_GRADIENT_TAPE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/property.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/test_device.h"

namespace tessera::ops_testing {

/// Calls of operators on the CPU, recorded with all values, so that a result can be differentiated
/// as often as its operators have gradients. It is what a graph does, for tests of operators, which
/// know no graphs.
class GradientTape {
 public:
  /// The number of a value on the tape.
  using Entry = int;
  /// The gradient of a value that nothing depends on.
  static constexpr Entry kZero = -1;

  /// The form of a gradient, if an operator has both.
  enum class Form {
    kBackward,  ///< the operator's Backward
    kGraph,     ///< calls of other operators, which have gradients themselves
  };

  explicit GradientTape(bool is_train = true) : is_train_(is_train) {}

  /// Adds a value whose bytes are `contents`.
  Entry AddVariable(const Bytes& contents, const TShape& shape, DType dtype);

  /// Calls an operator and returns its visible outputs. Inputs that the operator mutates stay
  /// unchanged. `out_shape` has shapes of outputs that the inputs do not determine. Throws what
  /// inference, CreateOperator and Forward throw, and Error(kResourceExhausted) for an output or a
  /// tape that is too large.
  std::vector<Entry> Call(std::shared_ptr<const OperatorProperty> property,
                          std::span<const Entry> inputs, std::vector<TShape> out_shape = {});

  /// Adds the calls that compute the gradients of `heads`, each weighted with its head gradient.
  /// Returns the gradient of each wanted value, or nothing if an operator has no gradient of the
  /// form kGraph. Throws what Call throws, and Error(kInternal) that names the operator if a
  /// gradient has another shape or type than its value.
  std::optional<std::vector<Entry>> Differentiate(std::span<const Entry> heads,
                                                  std::span<const Entry> head_gradients,
                                                  std::span<const Entry> wanted, Form form);

  const TShape& shape(Entry entry) const { return value(entry).shape; }
  DType dtype(Entry entry) const { return value(entry).dtype; }
  /// Returns the elements of a value.
  Values Read(Entry entry) const;

 private:
  struct Value {
    std::unique_ptr<std::byte[]> data;
    TShape shape;
    DType dtype;
  };
  /// A call. `outputs` includes the hidden ones.
  struct Record {
    std::shared_ptr<const OperatorProperty> property;
    std::vector<Entry> inputs;
    std::vector<Entry> outputs;
  };
  class Builder;

  const Value& value(Entry entry) const { return values_[static_cast<size_t>(entry)]; }
  TBlob Blob(Entry entry) const;
  Entry Add(const TShape& shape, DType dtype);
  Entry Call1(const std::string& op, std::span<const Entry> inputs,
              const ParameterMap& parameters = {});
  std::unique_ptr<Operator> MakeOperator(const Record& call) const;
  /// Returns the gradients of a call's inputs by its Backward.
  std::vector<Entry> Backward(const Record& call, std::vector<Entry> out_grads);

  const bool is_train_;
  std::vector<Value> values_;
  std::vector<Record> calls_;
};

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_GRADIENT_TAPE_H_
