#ifndef TESSERA_OPS_PROPERTY_H_
#define TESSERA_OPS_PROPERTY_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/resource/resource.h"

namespace tessera {

/// Says that the value `target` may be written into the memory of the value `source`.
struct InplacePair {
  int source;  ///< the id of what gives its memory
  int target;  ///< the id of what may take it
};

struct OperatorEntry;

/// Everything that is known of an operator before its shapes are: names, parameters, inference,
/// what the gradient needs. A property is set up by Init and then only read; copies of the work to
/// do are made by CreateOperator.
class OperatorProperty {
 public:
  virtual ~OperatorProperty() = default;

  /// Reads the parameters. Throws Error(kInvalidArgument), see ParameterSchema::Parse.
  virtual void Init(const ParameterMap& parameters) = 0;
  /// All parameters as text, defaults included; Init of it gives the same operator.
  virtual ParameterMap GetParams() const = 0;

  /// The names of inputs, outputs and auxiliary states (what Forward keeps from one call to the
  /// next, such as running means), in the order of the blobs.
  virtual std::vector<std::string> ListArguments() const { return {"data"}; }
  virtual std::vector<std::string> ListOutputs() const { return {"output"}; }
  virtual std::vector<std::string> ListAuxiliaryStates() const { return {}; }
  /// The outputs that a graph shows; those after them serve the gradient alone.
  virtual int NumVisibleOutputs() const { return static_cast<int>(ListOutputs().size()); }

  /// Completes shapes as far as the known ones determine them, in both directions. The vectors have
  /// one entry for each argument, output and aux state. Returns whether all are known. Throws
  /// Error(kInvalidArgument) that names the operator, the argument and both shapes on
  /// contradiction.
  virtual bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape,
                          std::vector<TShape>* aux_shape) const = 0;
  /// The same for element types. By default all are one floating-point type.
  virtual bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type,
                         std::vector<DType>* aux_type) const;

  /// What Forward and Backward need for these inputs, handed over as OpContext::requested in this
  /// order. By default nothing.
  virtual std::vector<ResourceRequest> ForwardResource(std::span<const TShape> in_shape) const;
  virtual std::vector<ResourceRequest> BackwardResource(std::span<const TShape> in_shape) const;

  /// Which of the given ids Backward reads; whatever is not listed may be freed or overwritten
  /// after Forward. By default all of them.
  virtual std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                                     std::span<const int> in_data,
                                                     std::span<const int> out_data) const;
  /// Pairs (in_data id, out_data id) of which the second may take the first one's memory.
  virtual std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                        std::span<const int> out_data) const;
  /// Pairs (id of something that Backward reads, in_grad id), likewise.
  virtual std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                         std::span<const int> in_data,
                                                         std::span<const int> out_data,
                                                         std::span<const int> in_grad) const;

  /// True if Backward starts a gradient of its own, as losses do: no head gradient is needed.
  virtual bool IsLoss() const { return false; }
  /// True if the operator has a gradient at all.
  virtual bool HasGradient() const { return true; }
  /// False for an argument that Backward gives no gradient, such as a label: it is taken to be 0.
  virtual bool ArgumentHasGradient(int argument) const {
    static_cast<void>(argument);
    return HasGradient();
  }

  /// Makes the operator for a device, from the first implementation registered for it that supports
  /// the element type. Throws Error(kUnimplemented) that names operator, device and type if none
  /// does.
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const;

  /// The name that the operator is registered under.
  const std::string& TypeString() const;

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
  /// The parameters that Init has read.
  const Parameters& param() const { return param_; }
  /// The parameters' names, types, defaults and descriptions.
  static std::vector<ParameterInfo> DescribeParameters() {
    return ParameterSchema<Parameters>::Get().Describe();
  }

 protected:
  /// Checks what concerns several parameters at once; throws Error(kInvalidArgument).
  virtual void CheckParameters() {}

  Parameters param_;  ///< what Init has read
};

/// Merges what is known of a shape into `shape`; the error names operator, value and both shapes.
void MergeShape(const OperatorProperty& property, std::string_view what, TShape* shape,
                const TShape& known);

/// The product of the extents [begin, end) of `shape`, or TShape::kUnknown if one of them is
/// unknown. Throws Error(kInvalidArgument) that names operator, value and shape if it does not fit
/// in 63 bits.
index_t ProductOfExtents(const OperatorProperty& property, std::string_view what,
                         const TShape& shape, int begin, int end);

}  // namespace tessera

#endif  // TESSERA_OPS_PROPERTY_H_
