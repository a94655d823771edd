#ifndef TESSERA_SYMBOL_SYMBOL_H_
#define TESSERA_SYMBOL_SYMBOL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/number.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/node.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/ops/parameter.h"

namespace tessera {

/// The result of InferShape.
struct InferredShapes {
  std::vector<TShape> arguments;   ///< in the order of ListArguments
  std::vector<TShape> outputs;     ///< in the order of ListOutputs
  std::vector<TShape> aux_states;  ///< in the order of ListAuxiliaryStates
  bool complete = false;           ///< whether every shape is fully known
};
/// The result of InferType.
struct InferredTypes {
  std::vector<DType> arguments;   ///< in the order of ListArguments
  std::vector<DType> outputs;     ///< in the order of ListOutputs
  std::vector<DType> aux_states;  ///< in the order of ListAuxiliaryStates
  bool complete = false;          ///< whether every type is known
};

/// The description of a computation: a directed graph of operators over named variables.
///
///     Symbol x = Symbol::Variable("data");
///     x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "128"}}, "fc1");
///     x = Symbol::Apply("Activation", {x}, {{"act_type", "relu"}});
///     x = Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
///
/// A Symbol is a cheap handle to a graph, possibly with several outputs, whose structure never
/// changes. Threads: handles may be copied and used from any thread. What overlaps with
/// SetAttribute uses the old attribute or the new one.
class Symbol {
 public:
  Symbol() = default;

  /// Returns a graph of one variable: an input, a parameter or a label, to which binding gives an
  /// array. It has the attributes of the thread's AttrScope and the given ones. Throws
  /// Error(kInvalidArgument) for an empty name.
  static Symbol Variable(std::string name,
                         const std::map<std::string, std::string>& attributes = {});

  /// Returns an operator applied to inputs, which are its first arguments in order. Missing
  /// arguments and aux states become variables called `<name>_<argument>` (fc1_weight, fc1_bias).
  /// Without a name, the thread's NameManager makes one from the operator's: activation0,
  /// activation1, … A parameter that counts the inputs, such as Concat's num_args, may be missing.
  ///
  /// The operator and the variables that it makes have the attributes of the thread's AttrScope.
  /// Keys among `parameters` that are spelled `__name__`, or that MXNet also spells without
  /// underscores (see GetAttribute), are attributes; `weight_lr_mult` is one of the variable of the
  /// argument weight.
  ///
  /// An operator that runs graphs (graph::MakeLoop) takes these first, each as a symbol with the
  /// graph's outputs. Their variables stand for the inputs that the parameters say.
  ///
  /// Throws Error(kNotFound) for an unknown operator. Throws Error(kInvalidArgument) for wrong
  /// parameters, too many inputs, or an input with several outputs.
  static Symbol Apply(std::string_view op, const std::vector<Symbol>& inputs,
                      const ParameterMap& parameters = {}, std::string name = "");

  /// Returns an operator applied to inputs that are given by argument name; Apply explains the
  /// rest. Throws Error(kInvalidArgument), with the nearest name, for an argument that the operator
  /// does not have.
  static Symbol Compose(std::string_view op, const std::map<std::string, Symbol>& inputs,
                        const ParameterMap& parameters = {}, std::string name = "");

  /// Returns a copy of the graph with variables replaced by symbols of one output, as MXNet's
  /// `symbol(data=other)` does. Inputs are given by the variables' names, or by position in
  /// ListArguments. A name replaces all variables that have it. `name`, if not empty, renames the
  /// node of the first output. Throws Error(kInvalidArgument) for a name that no variable has, with
  /// the nearest one, for too many inputs, and where an aux state would be no variable.
  Symbol Compose(const std::map<std::string, Symbol>& inputs, std::string name = "") const;
  Symbol ComposeInOrder(const std::vector<Symbol>& inputs, std::string name = "") const;

  /// Returns a copy of the graph that shares no node with it.
  Symbol Copy() const;

  /// Returns one symbol with all outputs of several symbols.
  static Symbol CreateGroup(const std::vector<Symbol>& symbols);

  /// Returns whether the symbol has no outputs, as after Symbol().
  bool is_none() const { return outputs_.empty(); }
  /// Returns the number of outputs.
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  /// Returns output i as a symbol. Throws Error(kOutOfRange).
  Symbol operator[](int i) const;
  /// Returns the output with that name, e.g. "fc1_output". Throws Error(kNotFound) with the nearest
  /// name.
  Symbol operator[](std::string_view output) const;
  /// Returns a symbol whose outputs are those of every node, to inspect or cut a network.
  Symbol GetInternals() const;
  /// Returns a symbol whose outputs are the inputs of the nodes that make the outputs; is_none() if
  /// these are variables.
  Symbol GetChildren() const;
  /// Returns a symbol whose outputs are all variables, in the order of ListInputs.
  Symbol GetInputs() const;

  /// Returns the name of the node that makes the single output. Throws Error(kInvalidArgument) if
  /// there are several outputs or none, as GetAttribute and SetAttribute do.
  const std::string& name() const;

  /// Return the names of variables and outputs, in the order of a depth-first walk from the
  /// outputs. A variable that an operator changes is an aux state, any other one an argument;
  /// inputs are both. Different variables may have one name, which binding refuses.
  std::vector<std::string> ListArguments() const;
  std::vector<std::string> ListOutputs() const;
  std::vector<std::string> ListAuxiliaryStates() const;
  std::vector<std::string> ListInputs() const;

  /// Returns a parameter of the output's node as it was written, or another attribute of it
  /// (lr_mult, ctx_group, …). `key` and `__key__`, MXNet's spelling in files, are the same
  /// attribute of an operator. They are the same attribute of a variable if MXNet spells it both
  /// ways (ctx_group, lr_mult, wd_mult, force_mirroring, mirror_stage, profiler_scope).
  std::optional<std::string> GetAttribute(std::string_view key) const;
  /// Sets an attribute of the output's node. All handles to the node see it. Throws
  /// Error(kInvalidArgument) for a parameter of the operator, which Apply sets.
  void SetAttribute(std::string_view key, std::string value);
  /// Returns the parameters, as they were written, and attributes of the first output's node. An
  /// operator's attributes are spelled `__key__`; those that MXNet spells both ways are there
  /// twice.
  std::map<std::string, std::string> ListAttributes() const;
  /// Returns the parameters and attributes of all nodes, each as `<node>$<key>`.
  std::map<std::string, std::string> ListAttributesRecursive() const;

  /// Infers every shape, in both directions, from the given ones and from the variables' attribute
  /// `__shape__` ("(10,0)", where 0 is unknown). A complete given shape takes precedence over the
  /// variable's attribute. The result does not depend on which of the two states a shape. Throws
  /// Error(kInvalidArgument) for an unknown name, and for a contradiction; it then names the node,
  /// the rule and the inputs' shapes, or the variable and its stated and given shape. Throws
  /// Error(kNotFound) that lists the operators that the registry does not have, at most ten, and
  /// Error(kUnimplemented) for a node with subgraphs that is no loop.
  InferredShapes InferShape(const std::map<std::string, TShape>& known) const;
  /// Infers every element type, in both directions, from the given ones and from the variables'
  /// attribute `__dtype__`, which holds DType's numbers. A type that is not determined is float32.
  /// Throws as InferShape does.
  InferredTypes InferType(const std::map<std::string, DType>& known) const;
  /// Infer what can be inferred, without an error for operators that the registry does not have and
  /// without a default type. What nothing determines stays unknown. Throw Error(kInvalidArgument)
  /// as InferShape does.
  InferredShapes InferShapePartial(const std::map<std::string, TShape>& known) const;
  InferredTypes InferTypePartial(const std::map<std::string, DType>& known) const;

  /// Returns the gradients of the sum of all outputs, each weighted with a head gradient, with
  /// respect to the variables of the wanted names, one output for each. The head gradient of an
  /// output is a variable `<output>_head_grad`; losses need none. See graph::BuildGradients for the
  /// form and for errors. Throws Error(kInvalidArgument) for a name that no variable has or two
  /// have.
  Symbol Grad(const std::vector<std::string>& wanted,
              graph::GradientForm form = graph::GradientForm::kBackward) const;

  /// Returns the graph in MXNet's format (`*-symbol.json`), with parameters as they were given.
  /// With `numpy_shape`, the text tells MXNet that shapes in attributes follow NumPy: -1 is an
  /// unknown extent there, and 0 an empty one. Throws Error(kInvalidArgument) for a name that is
  /// not UTF-8, and Error(kUnimplemented) for gradients in the form kBackward.
  std::string ToJson(bool numpy_shape = false) const;
  /// Returns the graph of a text in MXNet's format. Operators that the registry does not have, and
  /// subgraphs except those of loops, are kept and saved again; inference and binding refuse them
  /// by name. A node that MXNet fused for oneDNN is replaced by the operators of its subgraph. An
  /// operator without parameters keeps any text that is given as one, and ignores it. Throws
  /// Error(kDataLoss) for text that is not such a graph or nests deeper than 64 levels. Throws
  /// Error(kUnimplemented) for control dependencies, and what Apply throws for wrong parameters,
  /// with the node's name.
  static Symbol FromJson(std::string_view json);
  /// Write ToJson to a file, and return FromJson of a file. Errors name the file: kNotFound if it
  /// does not exist, kFailedPrecondition if it cannot be opened. Save replaces the file when the
  /// new one is complete. If `contents` is not null, it receives the file's text.
  void Save(const std::string& path, bool numpy_shape = false) const;
  static Symbol Load(const std::string& path, std::string* contents = nullptr);

  /// The graph's outputs, for the executor and graph passes.
  const std::vector<graph::NodeEntry>& outputs() const { return outputs_; }
  explicit Symbol(std::vector<graph::NodeEntry> outputs);

 private:
  std::vector<graph::NodeEntry> outputs_;
};

/// Compute element by element, with the operators elemwise_add, _plus_scalar and so on: both
/// symbols have one shape, and broadcast_add and so on are operators of their own. Comparisons give
/// 1 and 0. Throw what Apply throws.
Symbol operator+(const Symbol& a, const Symbol& b);
Symbol operator-(const Symbol& a, const Symbol& b);
Symbol operator*(const Symbol& a, const Symbol& b);
Symbol operator/(const Symbol& a, const Symbol& b);
Symbol operator%(const Symbol& a, const Symbol& b);
Symbol operator==(const Symbol& a, const Symbol& b);
Symbol operator!=(const Symbol& a, const Symbol& b);
Symbol operator<(const Symbol& a, const Symbol& b);
Symbol operator<=(const Symbol& a, const Symbol& b);
Symbol operator>(const Symbol& a, const Symbol& b);
Symbol operator>=(const Symbol& a, const Symbol& b);
Symbol Power(const Symbol& a, const Symbol& b);
Symbol Maximum(const Symbol& a, const Symbol& b);
Symbol Minimum(const Symbol& a, const Symbol& b);

/// Returns the elements of a with the other sign.
Symbol operator-(const Symbol& a);
/// Compute element by element with the number b on the right. Throw what Apply throws.
Symbol operator+(const Symbol& a, const Number& b);
Symbol operator-(const Symbol& a, const Number& b);
Symbol operator*(const Symbol& a, const Number& b);
Symbol operator/(const Symbol& a, const Number& b);
Symbol operator%(const Symbol& a, const Number& b);
Symbol operator==(const Symbol& a, const Number& b);
Symbol operator!=(const Symbol& a, const Number& b);
Symbol operator<(const Symbol& a, const Number& b);
Symbol operator<=(const Symbol& a, const Number& b);
Symbol operator>(const Symbol& a, const Number& b);
Symbol operator>=(const Symbol& a, const Number& b);
Symbol Power(const Symbol& a, const Number& b);
Symbol Maximum(const Symbol& a, const Number& b);
Symbol Minimum(const Symbol& a, const Number& b);

/// Compute element by element with the number a on the left. Throw what Apply throws.
Symbol operator+(const Number& a, const Symbol& b);
Symbol operator-(const Number& a, const Symbol& b);
Symbol operator*(const Number& a, const Symbol& b);
Symbol operator/(const Number& a, const Symbol& b);
Symbol operator%(const Number& a, const Symbol& b);
Symbol operator==(const Number& a, const Symbol& b);
Symbol operator!=(const Number& a, const Symbol& b);
Symbol operator<(const Number& a, const Symbol& b);
Symbol operator<=(const Number& a, const Symbol& b);
Symbol operator>(const Number& a, const Symbol& b);
Symbol operator>=(const Number& a, const Symbol& b);
Symbol Power(const Number& a, const Symbol& b);
Symbol Maximum(const Number& a, const Symbol& b);
Symbol Minimum(const Number& a, const Symbol& b);

}  // namespace tessera

#endif  // TESSERA_SYMBOL_SYMBOL_H_
