#ifndef MXNET_OPERATOR_H_
#define MXNET_OPERATOR_H_

// MXNet's interface of operators, from 0.8 to 1.x: a class that describes an operator and one that
// computes it, which a statement registers:
//
//     MXNET_REGISTER_OP_PROPERTY(my_scale, ScaleProp)
//         .add_argument("data", "NDArray-or-Symbol", "the elements")
//         .add_arguments(ScaleParam::__FIELDS__())
//         .describe("data times a factor.");
//
// The name is then one of Tessera's operators, in arrays, graphs and saved files.

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dmlc/base.h"
#include "dmlc/logging.h"
#include "dmlc/registry.h"
#include "mxnet/base.h"
#include "mxnet/op_attr_types.h"
#include "mxnet/resource.h"

namespace tessera {
struct OperatorEntry;
}  // namespace tessera

namespace mxnet {

/// The computation of an operator on a device, for inputs of some shapes and types.
///
/// One object computes one call at a time. A call that overlaps another one has an object of its
/// own, so that values that an object keeps from Forward to Backward are safe only in a graph that
/// runs once at a time. Hidden outputs of the property are safe everywhere.
class Operator {
 public:
  using ExecType = mxnet::ExecType;
  using enum mxnet::ExecType;

  virtual ~Operator() = default;

  /// Computes the outputs. May change the auxiliary states. An output that is not wanted has memory
  /// that nobody reads.
  virtual void Forward(const OpContext& ctx, const std::vector<TBlob>& in_data,
                       const std::vector<OpReqType>& req, const std::vector<TBlob>& out_data,
                       const std::vector<TBlob>& aux_states) = 0;
  /// Computes the gradients of the inputs from those of the visible outputs. Blobs that the
  /// property has not declared have a shape and no memory. By default, throws
  /// Error(kInvalidArgument).
  virtual void Backward(const OpContext& ctx, const std::vector<TBlob>& out_grad,
                        const std::vector<TBlob>& in_data, const std::vector<TBlob>& out_data,
                        const std::vector<OpReqType>& req, const std::vector<TBlob>& in_grad,
                        const std::vector<TBlob>& aux_states);
  /// Returns how calls run.
  virtual ExecType exec_type() const { return kSync; }
};

/// The description of an operator. tessera::OperatorProperty, which is made of it, explains what
/// the functions are for.
class OperatorProperty {
 public:
  virtual ~OperatorProperty() = default;

  /// Reads the parameters, and returns them all as text.
  virtual void Init(const std::vector<std::pair<std::string, std::string>>& kwargs) = 0;
  virtual std::map<std::string, std::string> GetParams() const = 0;

  /// Return the names of inputs, outputs and auxiliary states.
  virtual std::vector<std::string> ListArguments() const { return {"data"}; }
  virtual std::vector<std::string> ListOutputs() const { return {"output"}; }
  virtual std::vector<std::string> ListAuxiliaryStates() const { return {}; }
  /// Return the numbers of outputs, and of those that a graph shows. Later outputs are only for
  /// Backward.
  virtual int NumOutputs() const { return static_cast<int>(ListOutputs().size()); }
  virtual int NumVisibleOutputs() const { return NumOutputs(); }

  /// Completes shapes. One that is not known has no dimensions. Returns false if too little is
  /// known; throws if shapes contradict each other.
  virtual bool InferShape(ShapeVector* in_shape, ShapeVector* out_shape,
                          ShapeVector* aux_shape) const = 0;
  /// Completes element types, which are mshadow's flags or -1. Returns and throws as InferShape
  /// does. By default, all are float32, and others are an error.
  virtual bool InferType(std::vector<int>* in_type, std::vector<int>* out_type,
                         std::vector<int>* aux_type) const;

  /// Returns an equal property, which the caller deletes.
  virtual OperatorProperty* Copy() const = 0;
  /// Return the operator for a device, the second one for the inputs' shapes and types, too. The
  /// caller deletes it. By default, the second one completes shapes and types, then calls the
  /// first.
  virtual Operator* CreateOperator(Context ctx) const = 0;
  virtual Operator* CreateOperatorEx(Context ctx, ShapeVector* in_shape,
                                     std::vector<int>* in_type) const;
  /// Returns the name that the operator is registered under.
  virtual std::string TypeString() const = 0;

  /// Return the resources that Forward and Backward need, which OpContext::requested has.
  virtual std::vector<ResourceRequest> ForwardResource(
      [[maybe_unused]] const ShapeVector& in_shape) const {
    return {};
  }
  virtual std::vector<ResourceRequest> BackwardResource(
      [[maybe_unused]] const ShapeVector& in_shape) const {
    return {};
  }

  /// Returns the ids among the arguments that Backward reads, by default all. A property that names
  /// no id of out_grad is a loss, which needs no head gradient.
  virtual std::vector<int> DeclareBackwardDependency(const std::vector<int>& out_grad,
                                                     const std::vector<int>& in_data,
                                                     const std::vector<int>& out_data) const;
  /// Return pairs of a value and one that may use its memory.
  virtual std::vector<std::pair<int, void*>> ForwardInplaceOption(
      [[maybe_unused]] const std::vector<int>& in_data,
      [[maybe_unused]] const std::vector<void*>& out_data) const {
    return {};
  }
  virtual std::vector<std::pair<int, void*>> BackwardInplaceOption(
      [[maybe_unused]] const std::vector<int>& out_grad,
      [[maybe_unused]] const std::vector<int>& in_data,
      [[maybe_unused]] const std::vector<int>& out_data,
      [[maybe_unused]] const std::vector<void*>& in_grad) const {
    return {};
  }
  /// Returns how calls run. Operator has the function, too.
  virtual ExecType exec_type() const { return ExecType::kSync; }

  /// Returns those values that DeclareBackwardDependency names, in its order.
  template <typename T>
  std::vector<T> BackwardInputs(const std::vector<T>& out_grad, const std::vector<T>& in_data,
                                const std::vector<T>& out_data) const {
    std::vector<T> all;
    std::vector<int> ids[3];
    const std::vector<T>* const lists[] = {&out_grad, &in_data, &out_data};
    for (int i = 0; i < 3; ++i) {
      for (const T& value : *lists[i]) {
        ids[i].push_back(static_cast<int>(all.size()));
        all.push_back(value);
      }
    }
    std::vector<T> read;
    for (const int id : DeclareBackwardDependency(ids[0], ids[1], ids[2])) {
      read.push_back(all[static_cast<size_t>(id)]);
    }
    return read;
  }

  /// Returns the property of an operator in MXNet's style, which the caller deletes. Throws
  /// Error(kInvalidArgument) if there is none of that name.
  static OperatorProperty* Create(const char* type_name);
};

/// Makes a property, which the caller deletes.
using OperatorPropertyFactory = std::function<OperatorProperty*()>;

/// The registration of an operator, with its documentation.
struct OperatorPropertyReg
    : public dmlc::FunctionRegEntryBase<OperatorPropertyReg, OperatorPropertyFactory> {
  /// Documents the operator.
  OperatorPropertyReg& describe(const std::string& text);
  /// Names the parameter that counts the inputs. Symbols set it to the number of inputs.
  OperatorPropertyReg& set_key_var_num_args(const std::string& key);
  /// Makes `alias` a further name of the operator.
  OperatorPropertyReg& add_alias(const std::string& alias);

  std::string key_var_num_args;  ///< the parameter that counts the inputs, or empty
  tessera::OperatorEntry* operator_entry = nullptr;  ///< Tessera's entry; null if it has another's
};

/// Registers an operator for the statement at `file` and `line`, literals of its library. A name of
/// two statements stands for neither: each use of it throws.
OperatorPropertyReg& RegisterOperatorProperty(const std::string& name,
                                              OperatorPropertyFactory factory, const char* file,
                                              int line);

}  // namespace mxnet

/// Registers an operator at namespace scope. Calls of OperatorPropertyReg's may follow.
#define MXNET_REGISTER_OP_PROPERTY(name, OperatorPropertyType)                              \
  [[maybe_unused]] static ::mxnet::OperatorPropertyReg& mxnet_operator_property_##name =    \
      ::mxnet::RegisterOperatorProperty(                                                    \
          #name, []() -> ::mxnet::OperatorProperty* { return new OperatorPropertyType(); }, \
          __FILE__, __LINE__)

#endif  // MXNET_OPERATOR_H_
