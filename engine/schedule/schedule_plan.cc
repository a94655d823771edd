#include "tessera/engine/schedule/schedule_plan.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::engine_internal {
namespace {

// A description is for people: of long lists it shows the beginning.
constexpr size_t kMaxListed = 20;

std::string Listed(const std::vector<std::string>& names, const char* separator) {
  if (names.size() <= kMaxListed) return absl::StrJoin(names, separator);
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + kMaxListed, separator),
                      separator, "and ", names.size() - kMaxListed, " more");
}

std::string Plural(size_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string QuotedForDot(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + "\"";
}

}  // namespace

void OperatorDropper::operator()(OperatorRecord* op) const { DropOperator(op); }

SchedulePlan::SchedulePlan(std::string name, size_t slots, std::vector<RecordedPush> pushes,
                           const std::unordered_set<const DependencyVariable*>& own)
    : name_(std::move(name)), slots_(slots), pushes_(std::move(pushes)) {
  operations_.resize(size());
  for (uint32_t i = 0; i < size(); ++i) {
    const RecordedPush& push = pushes_[i];
    operations_[i].device = push.device;
    operations_[i].sync = std::get_if<SyncFn>(&push.op->fn);
    operations_[i].blocks = push.op->property == FnProperty::kAsync;
    if (operations_[i].sync == nullptr) ++asynchronous_;
    uses_devices_ = uses_devices_ || push.device.type == DeviceType::kGpu;
    is_graph_ = is_graph_ && push.op->capturable && operations_[i].sync != nullptr &&
                push.device.type == DeviceType::kGpu && push.device == pushes_[0].device;
    has_ranks_ = has_ranks_ || push.rank() != pushes_[0].rank();
    highest_rank_ = i == 0 ? push.rank() : std::max(highest_rank_, push.rank());
  }
  std::vector<std::vector<uint32_t>> predecessors(size());
  AddUses(predecessors);
  AddSuccessors(predecessors);
  AddEdges(own);
}

void SchedulePlan::AddEdges(const std::unordered_set<const DependencyVariable*>& own) {
  bool has_own = false;
  for (uint32_t v = 0; v < variables_.size(); ++v) {
    const VariableUse& use = variables_[v];
    // Operations for streams may be pushed one by one, where nothing else would order them.
    const bool needs_none =
        !uses_devices_ && use.access == Access::kWrite && own.contains(use.variable);
    if (needs_none && std::exchange(has_own, true)) continue;
    edges_.push_back({Edge(use.variable, use.access), v});
  }
  SortByVariable(edges_);
}

void SortByVariable(std::vector<SchedulePlan::VariableEdge>& edges) {
  std::sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) {
    return std::less<>()(a.edge.variable(), b.edge.variable());
  });
}

struct SchedulePlan::History {
  uint32_t writer = kNone;
  std::vector<uint32_t> readers;  // since the last write
};

/// Follows each variable through the operations: a read comes after the last write, a write after
/// the reads since then, which come after that write themselves, or after the write.
void SchedulePlan::AddUses(std::vector<std::vector<uint32_t>>& predecessors) {
  std::unordered_map<const DependencyVariable*, uint32_t> places;
  std::vector<History> histories;
  first_use_.push_back(0);
  for (uint32_t i = 0; i < size(); ++i) {
    for (const Edge& edge : pushes_[i].op->edges) {
      DependencyVariable* const variable = edge.variable();
      const auto [it, fresh] = places.try_emplace(variable, static_cast<uint32_t>(places.size()));
      const uint32_t place = it->second;
      if (fresh) {
        variables_.push_back({variable, variable->id, edge.access(), variable->ToString()});
        histories.emplace_back();
      }
      uses_.push_back({place, edge.access()});
      // A variable that is written before it is read keeps nothing of its old value; one that is
      // read first and written later is updated.
      Access& whole = variables_[place].access;
      if (whole == Access::kRead && edge.write()) whole = Access::kUpdate;
      History& history = histories[place];
      std::vector<uint32_t>& before = predecessors[i];
      if (!edge.write()) {
        if (history.writer != kNone) before.push_back(history.writer);
        history.readers.push_back(i);
        continue;
      }
      if (!history.readers.empty()) {
        before.insert(before.end(), history.readers.begin(), history.readers.end());
      } else if (history.writer != kNone) {
        before.push_back(history.writer);
      }
      history.writer = i;
      history.readers.clear();
    }
    first_use_.push_back(static_cast<uint32_t>(uses_.size()));
    std::sort(predecessors[i].begin(), predecessors[i].end());
    predecessors[i].erase(std::unique(predecessors[i].begin(), predecessors[i].end()),
                          predecessors[i].end());
  }
}

std::vector<std::vector<uint32_t>> SchedulePlan::Predecessors() const {
  std::vector<std::vector<uint32_t>> predecessors(size());
  for (uint32_t i = 0; i < size(); ++i) {
    for (const uint32_t after : successors(i)) predecessors[after].push_back(i);
  }
  return predecessors;
}

void SchedulePlan::AddSuccessors(const std::vector<std::vector<uint32_t>>& predecessors) {
  std::vector<uint32_t> counts(size());
  for (uint32_t i = 0; i < size(); ++i) {
    predecessors_.push_back(static_cast<uint32_t>(predecessors[i].size()));
    if (predecessors[i].empty()) roots_.push_back(i);
    for (const uint32_t before : predecessors[i]) ++counts[before];
  }
  uint32_t end = 0;
  for (uint32_t i = 0; i < size(); ++i) {
    operations_[i].first_successor = operations_[i].end_successor = end;
    end += counts[i];
  }
  successors_.resize(end);
  for (uint32_t i = 0; i < size(); ++i) {
    for (const uint32_t before : predecessors[i]) {
      successors_[operations_[before].end_successor++] = i;
    }
  }
  FindHeights();
  const auto before = [this](uint32_t a, uint32_t b) { return Before(a, b); };
  for (const Operation& operation : operations_) {
    std::sort(successors_.begin() + operation.first_successor,
              successors_.begin() + operation.end_successor, before);
  }
  std::sort(roots_.begin(), roots_.end(), before);
  FindOrder();
}

/// Does what a replay with one visitor does.
void SchedulePlan::FindOrder() {
  const auto later = [this](uint32_t a, uint32_t b) { return Before(b, a); };
  std::vector<uint32_t> waiting_for = predecessors_;
  std::vector<uint32_t> ready(roots_.rbegin(), roots_.rend());
  if (has_ranks_) std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    if (has_ranks_) std::pop_heap(ready.begin(), ready.end(), later);
    const uint32_t i = ready.back();
    ready.pop_back();
    operations_[i].place = static_cast<uint32_t>(order_.size());
    order_.push_back(i);
    const std::span<const uint32_t> after = successors(i);
    for (auto it = after.rbegin(); it != after.rend(); ++it) {
      if (--waiting_for[*it] > 0) continue;
      ready.push_back(*it);
      if (has_ranks_) std::push_heap(ready.begin(), ready.end(), later);
    }
  }
  if (size() > 0) order_.resize(size() + kAhead, order_.back());
}

void SchedulePlan::FindHeights() {
  heights_.assign(size(), 1);
  // Successors have higher numbers.
  for (uint32_t i = static_cast<uint32_t>(size()); i-- > 0;) {
    for (const uint32_t after : successors(i)) {
      heights_[i] = std::max(heights_[i], heights_[after] + 1);
    }
  }
}

bool SchedulePlan::Before(uint32_t a, uint32_t b) const {
  if (pushes_[a].rank() != pushes_[b].rank()) return pushes_[a].rank() > pushes_[b].rank();
  if (heights_[a] != heights_[b]) return heights_[a] > heights_[b];
  return a < b;
}

std::vector<uint32_t> SchedulePlan::LongestPath() const {
  std::vector<uint32_t> path;
  if (size() == 0) return path;
  const auto highest = [this](uint32_t a, uint32_t b) { return heights_[a] < heights_[b]; };
  path.push_back(*std::max_element(roots_.begin(), roots_.end(), highest));
  while (!successors(path.back()).empty()) {
    const std::span<const uint32_t> after = successors(path.back());
    path.push_back(*std::max_element(after.begin(), after.end(), highest));
  }
  return path;
}

/// For each n, the number of operations with n others before them on the longest way there.
std::vector<uint32_t> SchedulePlan::Widths() const {
  std::vector<uint32_t> depth(size());
  std::vector<uint32_t> widths;
  for (uint32_t i = 0; i < size(); ++i) {
    if (depth[i] >= widths.size()) widths.resize(depth[i] + 1);
    ++widths[depth[i]];
    for (const uint32_t after : successors(i)) depth[after] = std::max(depth[after], depth[i] + 1);
  }
  return widths;
}

std::string SchedulePlan::NameOf(uint32_t i) const {
  const std::string& name = pushes_[i].op->name;
  return name.empty() ? absl::StrCat("#", i) : name;
}

std::string SchedulePlan::Describe() const {
  std::vector<std::string> path, read, written, updated;
  for (const uint32_t i : LongestPath()) path.push_back(NameOf(i));
  for (const VariableUse& use : variables_) {
    auto& list = use.access == Access::kRead    ? read
                 : use.access == Access::kWrite ? written
                                                : updated;
    list.push_back(use.name);
  }
  const std::vector<uint32_t> widths = Widths();
  const auto widest = std::max_element(widths.begin(), widths.end());
  const size_t width = widest == widths.end() ? 0 : *widest;
  std::string text =
      absl::StrCat("schedule \"", name_, "\": ", Plural(size(), "operation"), ", ",
                   successors_.size(), successors_.size() == 1 ? " dependency" : " dependencies",
                   ", ", Plural(slots_, "slot"), "\n");
  absl::StrAppend(&text, "critical path: ", Plural(path.size(), "operation"),
                  path.empty() ? "" : ": ", Listed(path, " > "), "\n");
  absl::StrAppend(&text, "width: ", width);
  if (width > 0) absl::StrAppend(&text, ", at step ", widest - widths.begin() + 1);
  absl::StrAppend(&text, "; on average ",
                  widths.empty() ? 0.0 : static_cast<double>(size()) / widths.size(), "\n");
  const auto append = [&text](const char* title, const std::vector<std::string>& list) {
    absl::StrAppend(&text, title, Plural(list.size(), "variable"), list.empty() ? "" : ": ",
                    Listed(list, ", "), "\n");
  };
  append("reads ", read);
  append("writes ", written);
  append("updates ", updated);
  return text;
}

std::string SchedulePlan::Graphviz() const {
  std::vector<uint32_t> next_on_path(size(), kNone);
  std::vector<bool> on_path(size());
  const std::vector<uint32_t> path = LongestPath();
  for (size_t p = 0; p < path.size(); ++p) {
    on_path[path[p]] = true;
    if (p + 1 < path.size()) next_on_path[path[p]] = path[p + 1];
  }
  std::string text = absl::StrCat("digraph ", QuotedForDot(name_), " {\n");
  for (uint32_t i = 0; i < size(); ++i) {
    absl::StrAppend(&text, "  n", i, " [label=", QuotedForDot(NameOf(i)),
                    on_path[i] ? ", style=bold" : "", "];\n");
  }
  for (uint32_t i = 0; i < size(); ++i) {
    for (const uint32_t after : successors(i)) {
      absl::StrAppend(&text, "  n", i, " -> n", after,
                      next_on_path[i] == after ? " [style=bold]" : "", ";\n");
    }
  }
  return text + "}\n";
}

}  // namespace tessera::engine_internal
