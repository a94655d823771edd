#include "tessera/graph/passes/fuse_maps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/base/number.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/backward_property.h"
#include "tessera/ops/elemwise/fused/fused_map.h"
#include "tessera/ops/map_form.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"

namespace tessera::graph {
namespace {

using base_internal::At;

// A group reaches over steps whose results have together at most this part of the elements of one
// of its arrays.
constexpr int64_t kSmallPart = 8;

/// A map that a step computes.
struct StepMap {
  /// A value, or a number if that is kNoValue.
  struct Operand {
    int value = kNoValue;
    Number number = {};
  };
  const ops_internal::MapFunction* function = nullptr;
  std::vector<Operand> operands = {};
  int result = kNoValue;  // a value
  OpReqType req = kNullOp;
};

/// Returns whether an array of shape `from` is broadcast to `to`.
bool Broadcasts(const TShape& from, const TShape& to) {
  if (from.ndim() > to.ndim()) return false;
  for (int i = 1; i <= from.ndim(); ++i) {
    const index_t extent = from[from.ndim() - i];
    if (extent != 1 && extent != to[to.ndim() - i]) return false;
  }
  return true;
}

/// Tells the maps that steps compute.
class MapFinder {
 public:
  explicit MapFinder(const Program& program) : program_(program) {}

  /// Returns the maps of a step, one for each output that is requested, all of one shape; none if
  /// the step does anything else.
  std::vector<StepMap> Find(const Step& step) const {
    const Node& node = *step.node;
    const Device device = program_.devices[At(step.device)];
    if (device.type != DeviceType::kCpu || !node.subgraphs.empty() || !step.mutated.empty()) {
      return {};
    }
    const auto* const backward = dynamic_cast<const BackwardProperty*>(node.property.get());
    const OperatorProperty& property = backward == nullptr ? *node.property : *backward->forward();
    if (property.purity() != Purity::kPure) return {};
    std::vector<StepMap> maps;
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.req[k] == kNullOp) continue;
      const std::optional<MapForm> form = FormOf(property, backward, static_cast<int>(k));
      if (!form) return {};
      std::optional<StepMap> map = Resolve(step, backward, *form);
      if (!map) return {};
      map->result = step.outputs[k];
      map->req = step.req[k];
      if (!HasOneShape(*map, maps)) return {};
      maps.push_back(*std::move(map));
    }
    if (maps.empty() || !IsNative(node, property, device, step)) return {};
    return maps;
  }

  /// Returns whether a step of the graph itself computes a result of its own that maps may follow:
  /// its operator runs an epilogue.
  bool IsProducer(const Step& step) const {
    const Node& node = *step.node;
    const Device device = program_.devices[At(step.device)];
    if (device.type != DeviceType::kCpu || !node.subgraphs.empty() || node.forward != nullptr) {
      return false;
    }
    const OperatorProperty& property = *node.property;
    const Purity purity = property.purity();
    if (purity != Purity::kPure && purity != Purity::kMutating) return false;
    if (step.outputs.empty() || step.req[0] != kWriteTo ||
        step.req.size() > At(MapProducer::kMaxResults)) {
      return false;
    }
    const Value& result = program_.values[At(step.outputs[0])];
    if (result.kind != ValueKind::kIntermediate || result.shape.Size() == 0) return false;
    const std::string name = NamedImplementation(node);
    try {
      const std::unique_ptr<Operator> op =
          name.empty() ? property.CreateOperator(device, step.in_shapes, step.in_types)
                       : property.CreateImplementation(name, device, step.in_shapes, step.in_types);
      return op->RunsEpilogue();
    } catch (const Error&) {
      return false;  // preparing the step by itself throws the error
    }
  }

  /// Returns whether a step of one input and one output computes rows that a map may be followed
  /// by.
  bool RunsRows(const Step& step) const {
    const Node& node = *step.node;
    const bool is_plain = node.subgraphs.empty() && node.forward == nullptr && step.mutated.empty();
    if (!is_plain || program_.devices[At(step.device)].type != DeviceType::kCpu ||
        node.property->purity() != Purity::kPure || !NamedImplementation(node).empty()) {
      return false;
    }
    try {
      return tessera::RunsRows(*node.property, step.in_shapes[0], step.in_types[0]);
    } catch (const Error&) {
      return false;  // preparing the step by itself throws the error
    }
  }

 private:
  static std::optional<MapForm> FormOf(const OperatorProperty& property,
                                       const BackwardProperty* backward, int output) {
    if (backward != nullptr) return property.GradientForm(output);
    return output == 0 ? property.ForwardForm() : std::nullopt;
  }

  /// Returns the form for a step's values; nothing if the step has no value for an operand, such
  /// as the gradient of a hidden output.
  static std::optional<StepMap> Resolve(const Step& step, const BackwardProperty* backward,
                                        const MapForm& form) {
    StepMap map{.function = form.function};
    for (const MapForm::Operand& operand : form.operands) {
      if (operand.role == MapForm::Role::kNumber) {
        map.operands.push_back({.number = operand.number});
        continue;
      }
      const int input = backward == nullptr ? operand.index : PositionOf(operand, *backward);
      if (input == kNoValue) return std::nullopt;
      map.operands.push_back({.value = step.inputs[At(input)]});
    }
    return map;
  }

  /// Returns the position of an operand among the inputs of a gradient, or kNoValue.
  static int PositionOf(const MapForm::Operand& operand, const BackwardProperty& backward) {
    using Role = BackwardProperty::Role;
    const Role role = operand.role == MapForm::Role::kOutGrad  ? Role::kOutGrad
                      : operand.role == MapForm::Role::kInData ? Role::kInData
                                                               : Role::kOutData;
    const auto& sources = backward.sources();
    const auto found = std::find_if(sources.begin(), sources.end(), [&](const auto& source) {
      return source.role == role && source.index == operand.index;
    });
    return found == sources.end() ? kNoValue : static_cast<int>(found - sources.begin());
  }

  /// Returns whether a map's operands are broadcast to the shape of its result, which is that of
  /// the others.
  bool HasOneShape(const StepMap& map, const std::vector<StepMap>& others) const {
    const TShape& shape = ShapeOf(map.result);
    if (shape.Size() == 0) return false;  // there is nothing to gain
    if (!others.empty() && ShapeOf(others[0].result) != shape) return false;
    return std::all_of(
        map.operands.begin(), map.operands.end(), [&](const StepMap::Operand& operand) {
          return operand.value == kNoValue || Broadcasts(ShapeOf(operand.value), shape);
        });
  }

  /// Returns whether the operator takes the types, by the implementation whose form the property
  /// tells.
  static bool IsNative(const Node& node, const OperatorProperty& property, Device device,
                       const Step& step) {
    if (!NamedImplementation(node).empty()) return false;
    try {
      return property.CreateOperator(device, step.in_shapes, step.in_types)
          ->implementation()
          .empty();
    } catch (const Error&) {
      return false;  // preparing the step by itself throws the error
    }
  }

  const TShape& ShapeOf(int value) const { return program_.values[At(value)].shape; }

  const Program& program_;
};

/// Steps that become one, and steps that move in front of them. The first member may be a producer,
/// whose result the maps of the others read, and the last one an operator on rows.
class Group {
 public:
  explicit Group(const Program& program) : program_(program) {}

  /// Begins the group with a producer.
  void Begin(Step producer) {
    const int result = producer.outputs[0];
    map_.shape = program_.values[At(result)].shape;
    inputs_.push_back(result);
    for (const int value : producer.Reads()) reads_.insert(value);
    for (const int value : producer.Writes()) writes_.insert(value);
    members_.push_back(std::move(producer));
    has_producer_ = true;
  }

  bool empty() const { return members_.empty(); }

  /// Adds a step with these maps, and what Passes has accepted before it. Returns false, and
  /// changes nothing, if the step does not fit.
  bool Add(const Step& step, const std::vector<StepMap>& maps) {
    if (empty()) {
      map_.shape = program_.values[At(maps[0].result)].shape;
    } else if (step.device != members_[0].device || HasOtherShape(maps) || MustWait(maps)) {
      return false;
    } else if (has_producer_ && members_.size() == 1 && !ReadsResult(maps)) {
      return false;
    }
    const size_t num_inputs = inputs_.size(), num_stages = map_.stages.size(),
                 num_numbers = numbers_.size();
    for (const StepMap& map : maps) AddStage(map);
    if (inputs_.size() + numbers_.size() > At(FusedMap::kMaxInputs) ||
        map_.stages.size() > At(FusedMap::kMaxStages) || NumBlocks(map_) > FusedMap::kMaxBlocks) {
      for (const StepMap& map : maps) stage_of_.erase(map.result);
      inputs_.resize(num_inputs);
      map_.stages.resize(num_stages);
      results_.resize(num_stages);
      requests_.resize(num_stages);
      numbers_.resize(num_numbers);
      return false;
    }
    for (const StepMap& map : maps) {
      writes_.insert(map.result);
      for (const StepMap::Operand& operand : map.operands) {
        if (operand.value != kNoValue) reads_.insert(operand.value);
      }
    }
    AddMember(step);
    return true;
  }

  /// Returns whether a step can be the last member if it computes rows: it reads a member's result,
  /// and its own has the same shape and type.
  bool MayEnd(const Step& step) const {
    if (step.device != members_[0].device || step.inputs.size() != 1 || step.outputs.size() != 1 ||
        step.req[0] != kWriteTo) {
      return false;
    }
    const Value& result = program_.values[At(step.outputs[0])];
    return result.shape == map_.shape &&
           result.dtype == program_.values[At(step.inputs[0])].dtype &&
           !reads_.contains(step.outputs[0]) && !writes_.contains(step.outputs[0]) &&
           RowOperand(step.inputs[0]).has_value();
  }

  /// Adds the last member: a step for which MayEnd returned true, and which computes rows.
  void End(const Step& step) {
    map_.rows = {.property = step.node->property, .operand = *RowOperand(step.inputs[0])};
    row_result_ = step.outputs[0];
    AddMember(step);
  }

  /// Returns whether the group has the shape of these maps.
  bool HasShapeOf(const std::vector<StepMap>& maps) const { return !HasOtherShape(maps); }

  /// Takes a step that is no member and may move in front of all of them; returns false for any
  /// other step. It moves only if another member follows.
  bool Pass(const Step& step) {
    int64_t elements = 0;
    for (const int value : step.Writes()) {
      if (reads_.contains(value) || writes_.contains(value)) return false;
      elements += program_.values[At(value)].shape.Size();
    }
    for (const int value : step.Reads()) {
      if (writes_.contains(value)) return false;
    }
    passed_elements_ += elements;
    if (passed_elements_ > map_.shape.Size() / kSmallPart) return false;
    waiting_.push_back(step);
    return true;
  }

  const std::vector<Step>& members() const { return members_; }
  std::vector<Step>& before() { return before_; }
  std::vector<Step>& waiting() { return waiting_; }

  /// Returns the step in place of the members. is_needed(value) tells whether a result is needed
  /// outside of the group.
  template <typename IsNeeded>
  Step MakeStep(const IsNeeded& is_needed) {
    Step step{.device = members_[0].device};
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!is_needed(results_[i])) continue;
      map_.stages[i].output = static_cast<int>(step.outputs.size());
      step.outputs.push_back(results_[i]);
      step.req.push_back(requests_[i]);
    }
    if (map_.rows.property != nullptr) {
      map_.rows.output = static_cast<int>(step.outputs.size());
      step.outputs.push_back(row_result_);
      step.req.push_back(kWriteTo);
    }
    for (const int input : inputs_) {
      map_.input_shapes.push_back(program_.values[At(input)].shape);
      map_.input_types.push_back(program_.values[At(input)].dtype);
    }
    step.inputs = inputs_;
    step.in_shapes = map_.input_shapes;
    step.in_types = map_.input_types;
    // Nobody looks at the node's own inputs: the step has the values.
    const auto node = std::make_shared<Node>();
    if (!has_producer_) {
      node->property = MakeFusedMap(map_);
    } else {
      const Step& producer = members_[0];
      AddProducer(is_needed(producer.outputs[0]), &step);
      // Except for those that have a prepared form.
      node->inputs = producer.node->inputs;
      node->property = MakeFusedMap(map_, {.property = producer.node->property,
                                           .implementation = NamedImplementation(*producer.node)});
    }
    for (const Step& member : members_) {
      node->name += (node->name.empty() ? "" : "+") + member.node->name;
    }
    step.node = node;
    return step;
  }

 private:
  bool HasOtherShape(const std::vector<StepMap>& maps) const {
    return program_.values[At(maps[0].result)].shape != map_.shape;
  }

  void AddMember(const Step& step) {
    members_.push_back(step);
    before_.insert(before_.end(), std::make_move_iterator(waiting_.begin()),
                   std::make_move_iterator(waiting_.end()));
    waiting_.clear();
  }

  /// Returns a member's result, complete in the step that computes it, as operand of an operator on
  /// rows; nothing for another value.
  std::optional<FusedMap::Operand> RowOperand(int value) const {
    if (has_producer_ && value == inputs_[0]) {
      return FusedMap::Operand{FusedMap::Operand::Kind::kInput, 0};
    }
    const auto stage = stage_of_.find(value);
    if (stage == stage_of_.end() || requests_[At(stage->second)] != kWriteTo) return std::nullopt;
    return FusedMap::Operand{FusedMap::Operand::Kind::kStage, stage->second};
  }

  /// Gives the step of the maps the producer's arguments in front of its own.
  void AddProducer(bool is_needed, Step* step) const {
    const Step& producer = members_[0];
    const int output = OutputForFirstInput(map_);
    const bool is_kept = is_needed || output == kNoValue || step->req[At(output)] != kWriteTo;
    // The producer's result is the first input of the map.
    step->inputs.erase(step->inputs.begin());
    step->in_shapes.erase(step->in_shapes.begin());
    step->in_types.erase(step->in_types.begin());
    const auto prepend = [](const auto& list, auto end, auto* to) {
      to->insert(to->begin(), list.begin(), end);
    };
    prepend(producer.inputs, producer.inputs.end(), &step->inputs);
    prepend(producer.in_shapes, producer.in_shapes.end(), &step->in_shapes);
    prepend(producer.in_types, producer.in_types.end(), &step->in_types);
    prepend(producer.outputs, producer.outputs.end(), &step->outputs);
    const auto end = producer.req.begin() + static_cast<std::ptrdiff_t>(producer.outputs.size());
    prepend(producer.req, end, &step->req);
    if (!is_kept) {
      step->outputs[0] = kNoValue;
      step->req[0] = kNullOp;
    }
    step->held_output = is_kept ? 0 : static_cast<int>(producer.outputs.size()) + output;
    step->mutated = producer.mutated;
    step->req.insert(step->req.end(), end, producer.req.end());
  }

  /// Returns whether a map reads the producer's result.
  bool ReadsResult(const std::vector<StepMap>& maps) const {
    return std::any_of(maps.begin(), maps.end(), [this](const StepMap& map) {
      return std::any_of(
          map.operands.begin(), map.operands.end(),
          [this](const StepMap::Operand& operand) { return operand.value == inputs_[0]; });
    });
  }

  /// Returns whether a step with these maps must run after the group: it writes what a member reads
  /// or writes, or reads a sum that a member has added to, or a further result of the producer.
  bool MustWait(const std::vector<StepMap>& maps) const {
    for (const StepMap& map : maps) {
      if (reads_.contains(map.result) || writes_.contains(map.result)) return true;
      for (const StepMap::Operand& operand : map.operands) {
        if (!writes_.contains(operand.value)) continue;
        const auto stage = stage_of_.find(operand.value);
        const bool is_sum = stage != stage_of_.end() && requests_[At(stage->second)] == kAddTo;
        const bool is_result = has_producer_ && operand.value == inputs_[0];
        if (is_sum || (stage == stage_of_.end() && !is_result)) return true;
      }
    }
    return false;
  }

  void AddStage(const StepMap& map) {
    FusedMap::Stage stage{.function = map.function, .dtype = program_.values[At(map.result)].dtype};
    for (const StepMap::Operand& operand : map.operands) {
      if (operand.value == kNoValue) {
        stage.operands.push_back({.number = operand.number});
        const bool is_new =
            std::find(numbers_.begin(), numbers_.end(), operand.number) == numbers_.end();
        if (is_new) numbers_.push_back(operand.number);
        continue;
      }
      const auto computed = stage_of_.find(operand.value);
      if (computed != stage_of_.end()) {
        stage.operands.push_back({FusedMap::Operand::Kind::kStage, computed->second});
      } else {
        stage.operands.push_back({FusedMap::Operand::Kind::kInput, InputOf(operand.value)});
      }
    }
    stage_of_.emplace(map.result, static_cast<int>(map_.stages.size()));
    map_.stages.push_back(std::move(stage));
    results_.push_back(map.result);
    requests_.push_back(map.req);
  }

  /// Returns the position of a value among the inputs, to which it adds the value.
  int InputOf(int value) {
    const auto found = std::find(inputs_.begin(), inputs_.end(), value);
    if (found != inputs_.end()) return static_cast<int>(found - inputs_.begin());
    inputs_.push_back(value);
    return static_cast<int>(inputs_.size()) - 1;
  }

  const Program& program_;
  bool has_producer_ = false;
  std::vector<Step> members_;
  std::vector<Step> before_;               // steps that come first
  std::vector<Step> waiting_;              // those since the last member
  int64_t passed_elements_ = 0;            // the results of both
  FusedMap map_;                           // without inputs and outputs
  std::vector<int> inputs_;                // values
  std::vector<Number> numbers_;            // different ones
  std::vector<int> results_;               // the values of the stages
  std::vector<OpReqType> requests_;        // of the stages
  int row_result_ = kNoValue;              // the value of the operator on rows
  std::unordered_map<int, int> stage_of_;  // by value
  std::unordered_set<int> reads_;          // values that members read
  std::unordered_set<int> writes_;         // values that members write
};

class Fuser {
 public:
  explicit Fuser(Program* program)
      : program_(*program),
        finder_(*program),
        num_reads_(program->values.size(), 0),
        num_writes_(program->values.size(), 0) {
    for (const Step& step : program->steps) {
      for (const int value : step.Reads()) ++num_reads_[At(value)];
      for (const int value : step.Writes()) ++num_writes_[At(value)];
    }
  }

  std::vector<FusedSteps> Run() {
    std::vector<Step> steps = std::move(program_.steps);
    const auto border = steps.begin() + program_.num_forward_steps;
    std::vector<Step> fused;
    is_forward_ = true;
    Join({std::make_move_iterator(steps.begin()), std::make_move_iterator(border)}, &fused);
    is_forward_ = false;
    program_.num_forward_steps = static_cast<int>(fused.size());
    Join({std::make_move_iterator(border), std::make_move_iterator(steps.end())}, &fused);
    program_.steps = std::move(fused);
    program_.num_fused_steps = static_cast<int>(groups_.size());
    return std::move(groups_);
  }

 private:
  /// Appends the steps, joined, to `to`.
  void Join(std::vector<Step> steps, std::vector<Step>* to) {
    std::unique_ptr<Group> group;
    for (Step& step : steps) {
      const std::vector<StepMap> maps = finder_.Find(step);
      if (group != nullptr) {
        if (!maps.empty() && group->Add(step, maps)) continue;
        if (maps.empty() && is_forward_ && group->MayEnd(step) && finder_.RunsRows(step)) {
          group->End(step);
          Finish(group.get(), to);
          group.reset();
          continue;
        }
        const bool is_full = !maps.empty() && group->HasShapeOf(maps);
        if (!is_full && group->Pass(step)) continue;
        Finish(group.get(), to);
        group.reset();
      }
      const bool produces = maps.empty() && MayProduce(step);
      if (produces || !maps.empty()) group = std::make_unique<Group>(program_);
      if (produces) {
        group->Begin(std::move(step));
      } else if (group == nullptr || !group->Add(step, maps)) {
        group.reset();
        to->push_back(std::move(step));
      }
    }
    if (group != nullptr) Finish(group.get(), to);
  }

  /// Returns whether a group may begin with a step that is no map.
  bool MayProduce(const Step& step) const {
    return is_forward_ && finder_.IsProducer(step) && num_writes_[At(step.outputs[0])] == 1;
  }

  /// Appends the steps of a group. What the group has passed is small, and may have groups of its
  /// own: the depth of this recursion is the logarithm of a size.
  void Finish(Group* group, std::vector<Step>* to) {
    Join(std::move(group->before()), to);
    if (group->members().size() > 1) {
      to->push_back(Fused(group));
    } else {
      to->push_back(group->members()[0]);
    }
    Join(std::move(group->waiting()), to);
  }

  Step Fused(Group* group) {
    std::unordered_map<int, int> own_reads;  // how often members read a value
    FusedSteps fused;
    for (const Step& member : group->members()) {
      for (const int value : member.Reads()) ++own_reads[value];
      fused.members.push_back(member.node);
    }
    Step step = group->MakeStep([&](int value) {
      const auto own = own_reads.find(value);
      const int num_own = own == own_reads.end() ? 0 : own->second;
      return program_.values[At(value)].kind != ValueKind::kIntermediate ||
             num_writes_[At(value)] > 1 || num_reads_[At(value)] > num_own;
    });
    fused.node = step.node;
    groups_.push_back(std::move(fused));
    return step;
  }

  Program& program_;
  const MapFinder finder_;
  std::vector<int> num_reads_, num_writes_;  // of each value, by steps
  // Groups of forward steps may begin with a producer and end with an operator on rows.
  bool is_forward_ = false;
  std::vector<FusedSteps> groups_;
};

}  // namespace

bool FusionIsOn() { return EnvironmentBool("TESSERA_FUSE", true); }

std::vector<FusedSteps> FuseMaps(Program* program) { return Fuser(program).Run(); }

}  // namespace tessera::graph
