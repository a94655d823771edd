#ifndef TESSERA_SYMBOL_SYMBOL_H_
#define TESSERA_SYMBOL_SYMBOL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"

namespace tessera {

namespace symbol_internal {
struct Node;
/// One output of a node.
struct NodeEntry {
  std::shared_ptr<Node> node;
  int index = 0;
};
}  // namespace symbol_internal

/// What InferShape finds, in the order of ListArguments, ListOutputs and ListAuxiliaryStates.
struct InferredShapes {
  std::vector<TShape> arguments;   ///< in the order of ListArguments
  std::vector<TShape> outputs;     ///< in the order of ListOutputs
  std::vector<TShape> aux_states;  ///< in the order of ListAuxiliaryStates
  bool complete = false;           ///< every shape is fully known
};
/// What InferType finds, in the same orders.
struct InferredTypes {
  std::vector<DType> arguments;   ///< in the order of ListArguments
  std::vector<DType> outputs;     ///< in the order of ListOutputs
  std::vector<DType> aux_states;  ///< in the order of ListAuxiliaryStates
  bool complete = false;          ///< every type is known
};

/// A computation described, not carried out: a directed graph of operators over named variables.
///
///     Symbol x = Symbol::Variable("data");
///     x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "128"}}, "fc1");
///     x = Symbol::Apply("Activation", {x}, {{"act_type", "relu"}});
///     x = Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
///
/// A Symbol is a cheap handle to a graph, possibly with several outputs, whose structure never
/// changes. Threads: handles may be copied and used from any thread, but SetAttribute not while
/// another thread uses a symbol that the node is part of.
class Symbol {
 public:
  Symbol() = default;

  /// A graph of one variable: an input, a parameter or a label, to which binding gives an array.
  /// Throws Error(kInvalidArgument) for an empty name.
  static Symbol Variable(std::string name);

  /// An operator on inputs, which are its first arguments in order; arguments that are not given
  /// become variables called `<name>_<argument>` (fc1_weight, fc1_bias), and aux states likewise.
  /// Without a name, one is made from the operator's: activation0, activation1, …
  /// Throws Error(kNotFound) for an unknown operator, Error(kInvalidArgument) for wrong parameters,
  /// too many inputs, or an input with several outputs.
  static Symbol Apply(std::string_view op, const std::vector<Symbol>& inputs,
                      const ParameterMap& parameters = {}, std::string name = "");

  /// The same with inputs given by argument name. Throws Error(kInvalidArgument), with the nearest
  /// name, for one that the operator does not have.
  static Symbol Compose(std::string_view op, const std::map<std::string, Symbol>& inputs,
                        const ParameterMap& parameters = {}, std::string name = "");

  /// Several symbols as one with all their outputs.
  static Symbol CreateGroup(const std::vector<Symbol>& symbols);

  /// Whether it describes nothing, as after Symbol().
  bool is_none() const { return outputs_.empty(); }
  /// How many results it describes.
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  /// Output i alone. Throws Error(kOutOfRange).
  Symbol operator[](int i) const;
  /// The output with that name, e.g. "fc1_output". Throws Error(kNotFound) with the nearest name.
  Symbol operator[](std::string_view output) const;
  /// A symbol whose outputs are those of every node, for looking inside or cutting a network.
  Symbol GetInternals() const;

  /// The name of the node that makes the single output. Throws Error(kInvalidArgument) where there
  /// are several or none, as GetAttribute and SetAttribute do.
  const std::string& name() const;

  /// Variables and outputs in the order in which a depth-first walk from the outputs finds them.
  /// ListArguments, ListAuxiliaryStates and all that need them throw Error(kInvalidArgument) where
  /// two variables have one name.
  std::vector<std::string> ListArguments() const;
  std::vector<std::string> ListOutputs() const;
  std::vector<std::string> ListAuxiliaryStates() const;

  /// Attributes of the output's node that are not parameters (lr_mult, ctx_group, …). `key` and
  /// `__key__`, as MXNet's files spell it, are the same attribute at an operator, and at a variable
  /// where MXNet spells it both ways (ctx_group, lr_mult, wd_mult, force_mirroring, mirror_stage,
  /// profiler_scope).
  std::optional<std::string> GetAttribute(std::string_view key) const;
  /// Sets an attribute of the output's node, which all handles to it see.
  void SetAttribute(std::string_view key, std::string value);

  /// Infers every shape from the given ones and from those that variables state in the attribute
  /// `__shape__` ("(10,0)", where 0 is not known), in both directions; what is given goes before
  /// what the same variable states. Unknown names are an error, and so is contradiction:
  /// Error(kInvalidArgument) that names the node and the argument, or the variable, and both
  /// shapes.
  InferredShapes InferShape(const std::map<std::string, TShape>& known) const;
  /// The same for element types, which variables state in `__dtype__` as DType's numbers; whatever
  /// nothing determines is float32.
  InferredTypes InferType(const std::map<std::string, DType>& known) const;

  /// MXNet's graph format (`*-symbol.json`). Throws Error(kInvalidArgument) for a name that is not
  /// UTF-8.
  std::string ToJson() const;
  /// Throws Error(kDataLoss) for text that is not such a graph, and what Apply throws, with the
  /// node's name: Error(kNotFound) tells of every operator that is not known.
  static Symbol FromJson(std::string_view json);
  /// The same with files; errors name the file, kNotFound where there is none and
  /// kFailedPrecondition where it cannot be opened. Under its name there is always either the old
  /// file or all of the new one.
  void Save(const std::string& path) const;
  static Symbol Load(const std::string& path);

  /// For the executor and graph passes.
  const std::vector<symbol_internal::NodeEntry>& outputs() const { return outputs_; }
  explicit Symbol(std::vector<symbol_internal::NodeEntry> outputs);

 private:
  std::vector<symbol_internal::NodeEntry> outputs_;
};

/// Element-wise arithmetic, as the operators elemwise_add, _plus_scalar and so on. Throw what Apply
/// throws.
Symbol operator+(const Symbol& a, const Symbol& b);
Symbol operator-(const Symbol& a, const Symbol& b);
Symbol operator*(const Symbol& a, const Symbol& b);
Symbol operator/(const Symbol& a, const Symbol& b);
Symbol operator+(const Symbol& a, double b);
Symbol operator-(const Symbol& a, double b);
Symbol operator*(const Symbol& a, double b);
Symbol operator/(const Symbol& a, double b);

}  // namespace tessera

#endif  // TESSERA_SYMBOL_SYMBOL_H_
