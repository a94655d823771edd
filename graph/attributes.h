#ifndef TESSERA_GRAPH_ATTRIBUTES_H_
#define TESSERA_GRAPH_ATTRIBUTES_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tessera/graph/node.h"

namespace tessera::graph {

/// Returns whether `key`, among an operator's parameters and attributes, is an attribute: it is
/// spelled `__name__`, or is one of AnnotationNames, possibly for an argument (`weight_lr_mult`).
bool IsAnnotation(std::string_view key);

/// Returns whether the registry's operator of that name has parameters. MXNet takes any text as a
/// parameter of an operator without parameters, ignores it, and keeps it in the node. An operator
/// that the registry does not have may have parameters.
bool TakesParameters(std::string_view op);

/// Sets attributes of a node. An operator's `<argument>_<annotation>`, such as `weight_lr_mult`,
/// becomes the attribute of that argument's variable if there is one.
class Annotator {
 public:
  /// Sets attributes of `node`, which must outlive the annotator.
  explicit Annotator(Node* node) : node_(node) {}

  /// Sets the attribute `key`, in either spelling.
  void Set(std::string_view key, std::string value);

 private:
  Node* VariableOf(std::string_view argument);

  Node* node_;
  std::unordered_map<std::string, int> positions_;  // of the operator's arguments, when needed
};

/// Gives the variable of an operator's input the operator's attributes that the variable does not
/// have.
void CopyAttributes(const Node& node, Node* variable);

/// States how variables that an operator reads are initialized, in their attribute `__init__`, as
/// MXNet does when it composes: running means with 0, running variances with 1, and others with the
/// operator's InitialValue. A variable that has the attribute keeps it.
void StateInitializers(const Node& node);

/// Returns the text of a parameter as it was written, or of an attribute; nothing if there is none.
std::optional<std::string> FindAttribute(const Node& node, std::string_view key);

/// Returns the implementation that a node's attribute `__implementation__` names, for the node of a
/// gradient that of the operator's node. Empty for none.
std::string NamedImplementation(const Node& node);

/// Returns the spelling of an attribute in files, which is `__name__` for an operator.
std::string FileSpelling(const Node& node, std::string_view name);

/// Returns parameters as they were written and attributes as files spell them. Those of
/// AnnotationNames are there under both spellings.
std::map<std::string, std::string> ListAttributes(const Node& node);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_ATTRIBUTES_H_
