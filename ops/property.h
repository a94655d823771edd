#ifndef TESSERA_OPS_PROPERTY_H_
#define TESSERA_OPS_PROPERTY_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/map_form.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/resource/resource.h"

namespace tessera {

/// States that the value `target` may be written into the memory of the value `source`.
struct InplacePair {
  int source;  ///< the id of the value that provides its memory
  int target;  ///< the id of the value that may use it
};

struct OperatorEntry;
class GradientBuilder;

/// The attribute of a graph's node, or the parameter of an imperative call, that names the
/// implementation to use: see OperatorProperty::CreateImplementation.
inline constexpr char kImplementationAttribute[] = "__implementation__";

/// The freedom that a graph has with an operator's calls.
enum class Purity {
  kPure,         ///< equal inputs give equal outputs: calls may be shared, repeated and left out
  kRandom,       ///< outputs also depend on a generator, whose calls keep their order
  kMutating,     ///< inputs change (MutatedInputs), so each call takes place once
  kSynchronous,  ///< the call has effects that no value shows
};

/// The description of an operator: names, parameters, inference, and the values that the gradient
/// needs. Init sets up a property, which is then only read. CreateOperator makes the objects that
/// compute.
class OperatorProperty {
 public:
  virtual ~OperatorProperty() = default;

  /// Reads the parameters. Throws Error(kInvalidArgument), see ParameterSchema::Parse.
  virtual void Init(const ParameterMap& parameters) = 0;
  /// Returns all parameters as text, including defaults. Init with the result gives an equal
  /// operator.
  virtual ParameterMap GetParams() const = 0;

  /// Return the names of inputs and outputs, in the order of the blobs.
  virtual std::vector<std::string> ListArguments() const { return {"data"}; }
  virtual std::vector<std::string> ListOutputs() const { return {"output"}; }
  /// Returns the positions of the inputs that Forward changes, in ascending order: running means,
  /// momenta. A variable that is such an input of some node is an auxiliary state of the graph.
  virtual std::vector<int> MutatedInputs() const { return {}; }
  /// Returns the number of outputs that a graph shows. Later outputs are only for the gradient.
  virtual int NumVisibleOutputs() const { return static_cast<int>(ListOutputs().size()); }
  /// Returns the value that all elements of an argument begin training with, if the operator asks
  /// for one: graphs state it in the attribute `__init__` of the argument's variable.
  virtual std::optional<double> InitialValue(int argument) const {
    static_cast<void>(argument);
    return std::nullopt;
  }
  /// Returns true for an argument that is a sequence's state before the first step, or its length:
  /// no parameter that training changes, although it may have a gradient.
  virtual bool IsSequenceState(int argument) const {
    static_cast<void>(argument);
    return false;
  }
  /// Returns what a graph may do with calls of the operator.
  virtual Purity purity() const {
    return MutatedInputs().empty() ? Purity::kPure : Purity::kMutating;
  }
  /// Returns whether a later call with the same inputs and modes gives the same outputs, bit for
  /// bit, and changes nothing if the requests of the inputs in MutatedInputs are kNullOp. In
  /// training it must not matter that other calls have changed these meanwhile. A gradient then may
  /// compute an output again that it needs.
  virtual bool IsRepeatable() const { return purity() == Purity::kPure; }

  /// Completes shapes as far as the known ones determine them, in both directions. The vectors have
  /// one entry for each input and output. Returns whether all are known. Throws
  /// Error(kInvalidArgument) that names the operator, the argument and both shapes if they
  /// contradict each other.
  virtual bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const = 0;
  /// Completes element types as far as the known ones determine them. Returns whether all are
  /// known. By default, all are one type. Throws Error(kInvalidArgument) if they contradict each
  /// other.
  virtual bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const;

  /// Return the resources that Forward and Backward need for these inputs. OpContext::requested has
  /// them in this order. By default there are none.
  virtual std::vector<ResourceRequest> ForwardResource(std::span<const TShape> in_shape) const;
  virtual std::vector<ResourceRequest> BackwardResource(std::span<const TShape> in_shape) const;

  /// Returns the ids among the arguments that Backward reads. Other values may be freed or
  /// overwritten after Forward. By default, Backward reads all.
  virtual std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                                     std::span<const int> in_data,
                                                     std::span<const int> out_data) const;
  /// Returns pairs (in_data id, out_data id) whose output may use the input's memory, provided that
  /// both have one size in bytes.
  virtual std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                        std::span<const int> out_data) const;
  /// Returns pairs (id of a value that Backward reads, in_grad id) whose gradient may use the
  /// value's memory, provided that both have one size in bytes.
  virtual std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                         std::span<const int> in_data,
                                                         std::span<const int> out_data,
                                                         std::span<const int> in_grad) const;

  /// Returns true if Backward needs no head gradient because the operator starts the gradient, as
  /// losses do.
  virtual bool IsLoss() const { return false; }
  /// Returns true if the operator has a gradient.
  virtual bool HasGradient() const { return true; }
  /// Returns false for an argument that has no gradient, such as a label. Its gradient counts as 0.
  virtual bool ArgumentHasGradient(int argument) const {
    static_cast<void>(argument);
    return HasGradient();
  }
  /// Builds the gradient of other operators and returns true, or returns false if there is no such
  /// graph. A graph uses it where the gradient of the gradient is asked for, and in place of
  /// Backward where HasBackward is false.
  virtual bool BuildGradient(GradientBuilder* builder) const {
    static_cast<void>(builder);
    return false;
  }
  /// Returns whether the operator's Backward computes the gradient.
  virtual bool HasBackward() const { return HasGradient(); }

  /// Returns how Forward computes the output, if that is the only one and has a MapForm whatever
  /// the inputs are; nothing by default. A graph joins such calls. The operator's implementation on
  /// the CPU must give the same bits, unless it is one of several and has a name.
  virtual std::optional<MapForm> ForwardForm() const { return std::nullopt; }
  /// Returns how Backward computes the gradient of an argument that has the head gradient's shape,
  /// as ForwardForm does for the output.
  virtual std::optional<MapForm> GradientForm(int argument) const {
    static_cast<void>(argument);
    return std::nullopt;
  }

  /// Creates the operator for a device and the inputs' shapes and types: CreateImplementation
  /// without a name.
  virtual std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                                   std::span<const DType> in_type) const;

  /// Creates the operator from one of the implementations that are registered for the kind of
  /// device: the one called `name`; without a name, the one that the setting
  /// TESSERA_IMPLEMENTATIONS names for the operator; without that too, the first in the order of
  /// OperatorEntry::implementations that supports property, shapes and types.
  ///
  /// Throws Error(kUnimplemented) that names operator, device and type if none supports them.
  /// Throws Error(kInvalidArgument) with the reason if the named one does not, and with the names
  /// that there are if it is not registered. Throws Error(kFailedPrecondition) with both places if
  /// two statements have registered one of that name.
  std::unique_ptr<Operator> CreateImplementation(std::string_view name, Device device,
                                                 std::span<const TShape> in_shape,
                                                 std::span<const DType> in_type) const;

  /// Returns the name of the implementation that CreateImplementation chooses, if the operator has
  /// several on the kind of device; throws what CreateImplementation throws. Empty without a
  /// choice, whatever `name` is.
  std::string ChosenImplementation(std::string_view name, Device device,
                                   std::span<const TShape> in_shape,
                                   std::span<const DType> in_type) const;

  /// Returns the name that the operator is registered under.
  virtual const std::string& TypeString() const;

  /// Returns the name of the operator's entry in the registry, which lives as long as the process.
  /// Empty for a property that the registry has not created.
  std::string_view RegisteredName() const;

 private:
  friend class OperatorRegistry;
  const OperatorEntry* entry_ = nullptr;
};

/// A property whose parameters are a struct with a ParameterSchema.
template <typename Parameters>
class ParameterizedProperty : public OperatorProperty {
 public:
  void Init(const ParameterMap& parameters) override {
    param_ = ParameterSchema<Parameters>::Get().Parse(TypeString(), parameters);
    CheckParameters();
  }
  ParameterMap GetParams() const override {
    return ParameterSchema<Parameters>::Get().Print(param_);
  }
  /// Returns the parameters that Init has read.
  const Parameters& param() const { return param_; }
  /// Returns the parameters' names, types, defaults and descriptions.
  static std::vector<ParameterInfo> DescribeParameters() {
    return ParameterSchema<Parameters>::Get().Describe();
  }

 protected:
  /// Checks conditions on several parameters together. Throws Error(kInvalidArgument).
  virtual void CheckParameters() {}

  Parameters param_;  ///< the parameters that Init has read
};

/// Merges the known extents of a shape into `shape`. Throws Error(kInvalidArgument) that names
/// operator, value and both shapes if they contradict each other.
void MergeShape(const OperatorProperty& property, std::string_view what, TShape* shape,
                const TShape& known);

/// Returns the product of the extents [begin, end) of `shape`, or TShape::kUnknown if one of them
/// is unknown. Throws Error(kInvalidArgument) that names operator, value and shape if it does not
/// fit in 63 bits.
index_t ProductOfExtents(const OperatorProperty& property, std::string_view what,
                         const TShape& shape, int begin, int end);

}  // namespace tessera

#endif  // TESSERA_OPS_PROPERTY_H_
