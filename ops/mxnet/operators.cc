#include "tessera/ops/mxnet/operators.h"

#include <algorithm>

namespace tessera {
namespace {

/// Each line of operators.tsv: name, canonical name, key_var_num_args, then "name|type" of each
/// argument, separated by tabs.
constexpr std::string_view kTable =
#include "tessera/ops/mxnet/operators.inc"
    ;

/// Returns the text before the next `separator`, and removes both from `text`.
std::string_view Take(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view field = text->substr(0, end);
  text->remove_prefix(end == text->npos ? text->size() : end + 1);
  return field;
}

std::vector<MxnetOperator> Parse() {
  std::vector<MxnetOperator> operators;
  for (std::string_view rest = kTable; !rest.empty();) {
    std::string_view line = Take(&rest, '\n');
    MxnetOperator& op = operators.emplace_back();
    op.name = Take(&line, '\t');
    op.canonical_name = Take(&line, '\t');
    op.key_var_num_args = Take(&line, '\t');
    while (!line.empty()) {
      std::string_view argument = Take(&line, '\t');
      const std::string_view name = Take(&argument, '|');
      op.arguments.push_back({name, argument});
    }
  }
  return operators;
}

}  // namespace

std::span<const MxnetOperator> MxnetOperators() {
  static const auto* const operators = new std::vector<MxnetOperator>(Parse());
  return *operators;
}

const MxnetOperator* FindMxnetOperator(std::string_view name) {
  const std::span<const MxnetOperator> all = MxnetOperators();
  const auto found = std::lower_bound(
      all.begin(), all.end(), name,
      [](const MxnetOperator& op, std::string_view wanted) { return op.name < wanted; });
  return found != all.end() && found->name == name ? &*found : nullptr;
}

}  // namespace tessera
