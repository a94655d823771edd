#ifndef TESSERA_SYMBOL_TESTING_LOOPS_H_
#define TESSERA_SYMBOL_TESTING_LOOPS_H_

#include <string>
#include <utility>
#include <vector>

#include "tessera/symbol/symbol.h"

namespace tessera::symbol_testing {

/// Variables of a graph by name, each with the value outside of the graph that it stands for.
using NamedSymbols = std::vector<std::pair<std::string, Symbol>>;

/// Returns _foreach of a graph whose outputs are results and then one state for each of `states`.
/// `data` and `states` must be variables of the graph. Its other variables stand for what
/// `captured` has, or for themselves.
Symbol Foreach(const Symbol& step, const NamedSymbols& data, const NamedSymbols& states,
               const std::string& name = "loop", const NamedSymbols& captured = {});

/// Returns _while_loop of a graph like that of Foreach, whose steps run while the condition holds.
/// The condition's variables stand for the same as those of the step. `states` must be variables of
/// the step.
Symbol While(const Symbol& condition, const Symbol& step, const NamedSymbols& states,
             int max_iterations, const NamedSymbols& captured = {});

/// Returns _cond of three graphs, whose variables stand for what `captured` has, or for themselves.
Symbol Cond(const Symbol& condition, const Symbol& yes, const Symbol& no,
            const NamedSymbols& captured = {});

}  // namespace tessera::symbol_testing

#endif  // TESSERA_SYMBOL_TESTING_LOOPS_H_
