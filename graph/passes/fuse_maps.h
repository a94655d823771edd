#ifndef TESSERA_GRAPH_PASSES_FUSE_MAPS_H_
#define TESSERA_GRAPH_PASSES_FUSE_MAPS_H_

#include <memory>
#include <vector>

#include "tessera/graph/program.h"

namespace tessera::graph {

/// Returns the setting TESSERA_FUSE, which is read at each call. Throws Error(kInvalidArgument) for
/// a value that is no bool.
bool FusionIsOn();

/// Steps that FuseMaps has joined.
struct FusedSteps {
  std::shared_ptr<const Node> node;                  ///< of the step in their place
  std::vector<std::shared_ptr<const Node>> members;  ///< of the steps, in their order
};

/// Joins steps that compute arrays of one shape element by element (OperatorProperty::ForwardForm,
/// GradientForm) into steps of a FusedMap, which read and write memory once. The results are the
/// same bit for bit. Values that only such steps read are then written by no step. Returns what was
/// joined, and counts it in Program::num_fused_steps.
///
/// A group is made of pure steps of one direction, forward or gradient, on one CPU, whose arrays
/// have elements. A forward group may begin with a producer, a step of another kind whose operator
/// runs an epilogue (Operator::RunsEpilogue), if the next member reads its result. This result then
/// needs no memory of its own unless others read it. A forward group may end with an operator on
/// rows of a member's result (RowOperator), such as softmax. The group begins with some step and
/// takes the later ones, until one of these must stay behind a member and is none itself, until
/// FusedMap's limits are reached, or until a large step comes: a group makes its inputs live up to
/// its end, so it reaches over small steps alone, such as those for a row that it broadcasts. A
/// step between two members moves in front of the group if it neither reads what a member writes
/// nor writes what one reads or writes. A group therefore never waits for itself, and all other
/// steps keep their order: generators are asked, and sums added up, as before.
///
/// Expected time: linear in the program.
std::vector<FusedSteps> FuseMaps(Program* program);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_FUSE_MAPS_H_
