#ifndef TESSERA_TENSOR_INSPECT_INSPECT_TREE_H_
#define TESSERA_TENSOR_INSPECT_INSPECT_TREE_H_

#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/tensor/expr/expression.h"

/// InspectTree shows how an expression is built:
///
///     std::cout << InspectTree((a - sum(a)) * 2);
///
/// prints
///
///     BinaryMapExp<mul> (5,9) float32
///       BinaryMapExp<minus> (5,9) float32
///         Tensor<cpu, 2, float> (5,9) float32
///         ReduceAllExp<sum, None, float> number float32
///           Tensor<cpu, 2, float> (5,9) float32
///       ScalarExp<float> number float32: 2
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns the name of a class without namespaces, with those template arguments that are plain
/// names or numbers: "BinaryMapExp<plus>". `signature` is the compiler's text for a function
/// template with a parameter E. Returns "node" if it names no E.
inline std::string ClassInSignature(std::string_view signature) {
  constexpr std::string_view kBefore = "E = ";
  const size_t begin = signature.find(kBefore);
  if (begin == signature.npos) return "node";
  signature.remove_prefix(begin + kBefore.size());
  const auto without_scope = [](std::string_view name) {
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    const size_t scope = name.rfind(':');
    return scope == name.npos ? name : name.substr(scope + 1);
  };
  const size_t name_end = signature.find_first_of("<;]");
  std::string text(without_scope(signature.substr(0, name_end)));
  if (name_end == signature.npos || signature[name_end] != '<') return text;
  std::string arguments;
  size_t first = name_end + 1;
  int depth = 1;
  for (size_t i = first; i < signature.size() && depth > 0; ++i) {
    const char c = signature[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if ((c == ',' && depth == 1) || depth == 0) {
      const std::string_view argument = signature.substr(first, i - first);
      if (argument.find_first_of("<(") == argument.npos) {
        arguments.append(arguments.empty() ? "" : ", ").append(without_scope(argument));
      }
      first = i + 1;
    }
  }
  return arguments.empty() ? text : text + "<" + arguments + ">";
}
template <typename E>
std::string ClassName() {
  return ClassInSignature(__PRETTY_FUNCTION__);
}

/// True for the node of a product or reduction that is computed as a whole.
template <typename E>
inline constexpr bool kIsWhole = false;
template <ComplexExpression C>
inline constexpr bool kIsWhole<WholeExp<C>> = true;

/// Writes a line for node `e`, indented by `depth` levels, and then its operands' lines.
template <typename E>
void WriteTree(std::ostream& os, const E& e, int depth) {
  if constexpr (kIsWhole<E>) {
    WriteTree(os, e.whole, depth);
  } else {
    os << std::string(static_cast<size_t>(2 * depth), ' ') << ClassName<E>() << ' ';
    if constexpr (E::kRank > 0) {
      os << e.shape();
    } else {
      os << "number";
    }
    os << ' ' << DTypeName(kDTypeOf<typename E::value_type>);
    if constexpr (std::is_same_v<E, ScalarExp<typename E::value_type>>) {
      if constexpr (std::is_integral_v<typename E::value_type>) {
        os << ": " << +e.value;
      } else {
        os << ": " << static_cast<double>(e.value);
      }
    }
    os << '\n';
    const auto operands = OperandsOf(e);
    std::apply([&](const auto&... operand) { (WriteTree(os, operand, depth + 1), ...); }, operands);
  }
}

/// Returns the tree of nodes that an expression consists of, one line a node: its class with the
/// functor or reducer, shape, element type, and the value of a number. A node's operands follow it,
/// indented further. Nothing is evaluated.
template <Operand E>
std::string InspectTree(const E& e) {
  std::ostringstream text;
  WriteTree(text, AsNode(e), 0);
  return text.str();
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::InspectTree;

}  // namespace tessera

#endif  // TESSERA_TENSOR_INSPECT_INSPECT_TREE_H_
