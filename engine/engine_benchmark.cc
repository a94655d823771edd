// The cost of empty operations on an engine with two workers, next to TBB in the same run.
//
// push_*: 50,000 operations and the wait for them, against tasks of tbb::task_group. The bounds: a
// push that runs costs at most three tasks, and a chain's at most four.
//
// replay_SHAPE/COUNT: a replay of a recorded schedule and the wait for it, against a run of a
// tbb::flow::graph of continue_nodes with the same edges. The bound: at most 1.3 times as long.
//
// work_*: what the engine adds to operations that take their time. two_workers is one worker's time
// over that of two, on operations of 100 us; overhead is the operations' own time over that of a
// replay of them, on operations of 10 us.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tbb/flow_graph.h"
#include "tbb/task_arena.h"
#include "tbb/task_group.h"
#include "tessera/base/device.h"
#include "tessera/engine/engine.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;

constexpr int kWorkers = 2;
// Enough that starting and waiting do not show, and below the engine's bound on what may pend.
constexpr int kOperations = 50000;
constexpr size_t kPairs = 500;

/// An engine with variables for operations that read one and write one.
class Setup {
 public:
  Setup() {
    for (size_t i = 0; i < 2 * kPairs; ++i) variables_.push_back(engine_->NewVariable());
    for (size_t i = 0; i < 2 * kPairs; i += 2) {
      operators_.push_back(
          engine_->NewOperator([](RunContext) {}, {variables_[i]}, {variables_[i + 1]}));
    }
  }

  void PushIndependent() {
    for (size_t i = 0; i < kOperations; ++i) {
      const size_t pair = 2 * (i % kPairs);
      engine_->PushSync([](RunContext) {}, Device::Cpu(), {variables_[pair]},
                        {variables_[pair + 1]});
    }
    engine_->WaitForAll();
  }
  void PushChain() {
    for (int i = 0; i < kOperations; ++i) {
      engine_->PushSync([](RunContext) {}, Device::Cpu(), {variables_[0]}, {variables_[1]});
    }
    engine_->WaitForAll();
  }
  void PushOperators() {
    for (size_t i = 0; i < kOperations; ++i) engine_->Push(operators_[i % kPairs], Device::Cpu());
    engine_->WaitForAll();
  }

  /// Whether operations that write one variable run in the order of their pushes.
  bool KeepsOrder() {
    unsigned value = 0, expected = 0;  // unsigned: it wraps around
    for (unsigned i = 0; i < 1000; ++i) {
      engine_->PushSync([&value, i](RunContext) { value = 3 * value + i; }, Device::Cpu(),
                        {variables_[0]}, {variables_[1]});
      expected = 3 * expected + i;
    }
    engine_->WaitForAll();
    return value == expected;
  }

 private:
  std::unique_ptr<Engine> engine_ =
      Engine::Create({.kind = EngineKind::kThreaded, .workers = kWorkers});
  std::vector<Variable*> variables_;
  std::vector<EngineOperator*> operators_;
};

void RunTaskGroup(tbb::task_arena* arena) {
  arena->execute([] {
    tbb::task_group group;
    for (int i = 0; i < kOperations; ++i) group.run([] {});
    group.wait();
  });
}

void AddPushes(const std::string& name, void (Setup::*push)(), double bound) {
  AddCase({.name = name,
           .bounds = {{.peer = "task_group", .at_least = bound}},
           .items = kOperations,
           .make = [push] {
             auto setup = std::make_shared<Setup>();
             auto arena = std::make_shared<tbb::task_arena>(kWorkers);
             return Variants{.all = {{"ours", [setup, push] { (setup.get()->*push)(); }},
                                     {"task_group", [arena] { RunTaskGroup(arena.get()); }}},
                             .results_agree = [setup] { return setup->KeepsOrder(); }};
           }});
}

/// Operations by number, each with those that it comes after, which have lower numbers.
using Graph = std::vector<std::vector<int>>;

Graph Chain(int count) {
  Graph graph(count);
  for (int i = 1; i < count; ++i) graph[i] = {i - 1};
  return graph;
}

Graph Wide(int count) { return Graph(count); }

Graph BinaryTree(int count) {
  Graph graph(count);
  for (int i = 1; i < count; ++i) graph[i] = {(i - 1) / 2};
  return graph;
}

Graph Wavefront(int count) {
  const int side = static_cast<int>(std::sqrt(count));
  Graph graph(side * side);
  for (int i = 0; i < side * side; ++i) {
    if (i % side > 0) graph[i].push_back(i - 1);
    if (i >= side) graph[i].push_back(i - side);
  }
  return graph;
}

/// Each comes after up to three of the hundred before it.
Graph Random(int count) {
  std::mt19937 random(7);
  Graph graph(count);
  for (int i = 1; i < count; ++i) {
    for (int k = static_cast<int>(random() % 4); k > 0; --k) {
      const int before = i - 1 - static_cast<int>(random() % std::min(i, 100));
      if (std::find(graph[i].begin(), graph[i].end(), before) == graph[i].end()) {
        graph[i].push_back(before);
      }
    }
  }
  return graph;
}

/// An engine with a schedule of the graph's shape: each operation writes a variable of its own and
/// reads those of the operations that it comes after. As in a training step, nobody else sees the
/// values in between: all variables but the last are the schedule's.
class ReplayedGraph {
 public:
  ReplayedGraph(const Graph& graph, const std::function<void(int)>& work, int workers = kWorkers)
      : engine_(Engine::Create({.kind = EngineKind::kThreaded, .workers = workers})) {
    last_ = engine_->NewVariable();
    schedule_ = engine_->Record([&] {
      std::vector<Variable*> variables;
      for (size_t i = 1; i < graph.size(); ++i) variables.push_back(engine_->NewVariable());
      variables.push_back(last_);
      for (int i = 0; i < static_cast<int>(graph.size()); ++i) {
        std::vector<Variable*> reads;
        for (const int before : graph[i]) reads.push_back(variables[before]);
        if (work == nullptr) {
          engine_->PushSync([](RunContext) {}, Device::Cpu(), reads, {variables[i]});
        } else {
          engine_->PushSync([work, i](RunContext) { work(i); }, Device::Cpu(), reads,
                            {variables[i]});
        }
      }
      variables.pop_back();
      for (Variable* variable : variables) engine_->DeleteVariable(variable);
    });
  }

  void Run() {
    schedule_->Replay();
    engine_->WaitForVar(last_);
  }

 private:
  std::unique_ptr<Engine> engine_;
  Variable* last_ = nullptr;
  std::unique_ptr<Schedule> schedule_;
};

class FlowGraph {
 public:
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

  FlowGraph(const Graph& graph, const std::function<void(int)>& work) {
    arena_.execute([&] {
      graph_ = std::make_unique<tbb::flow::graph>();
      start_ = std::make_unique<tbb::flow::broadcast_node<tbb::flow::continue_msg>>(*graph_);
      for (int i = 0; i < static_cast<int>(graph.size()); ++i) {
        if (work == nullptr) {
          nodes_.emplace_back(*graph_, [](const tbb::flow::continue_msg&) {});
        } else {
          nodes_.emplace_back(*graph_, [work, i](const tbb::flow::continue_msg&) { work(i); });
        }
        for (const int before : graph[i]) tbb::flow::make_edge(nodes_[before], nodes_[i]);
        if (graph[i].empty()) tbb::flow::make_edge(*start_, nodes_[i]);
      }
    });
  }

  void Run() {
    arena_.execute([this] {
      start_->try_put(tbb::flow::continue_msg());
      graph_->wait_for_all();
    });
  }

 private:
  tbb::task_arena arena_{kWorkers};
  std::unique_ptr<tbb::flow::graph> graph_;
  std::unique_ptr<tbb::flow::broadcast_node<tbb::flow::continue_msg>> start_;
  std::deque<Node> nodes_;
};

/// Runs the graph twice with operations whose results depend on what ran before them.
template <typename Runner>
std::vector<uint64_t> ResultsOf(const Graph& graph) {
  std::vector<uint64_t> values(graph.size(), 1);
  Runner runner(graph, [&](int i) {
    uint64_t value = values[i] * 31 + static_cast<uint64_t>(i);
    for (const int before : graph[i]) value = value * 17 + values[before];
    values[i] = value;
  });
  runner.Run();
  runner.Run();
  return values;
}

void AddReplay(const std::string& shape, Graph (*make)(int), int count) {
  AddCase({.name = "replay_" + shape + "/" + std::to_string(count),
           .bounds = {{.peer = "flow_graph", .at_least = 1 / 1.3}},
           .items = static_cast<double>(make(count).size()),
           .make = [make, count] {
             const Graph graph = make(count);
             auto ours = std::make_shared<ReplayedGraph>(graph, nullptr);
             auto flow = std::make_shared<FlowGraph>(graph, nullptr);
             return Variants{.all = {{"ours", [ours] { ours->Run(); }},
                                     {"flow_graph", [flow] { flow->Run(); }}},
                             .results_agree = [graph] {
                               return ResultsOf<ReplayedGraph>(graph) ==
                                      ResultsOf<FlowGraph>(graph);
                             }};
           }});
}

/// Works for so long, whatever the machine's speed.
void SpinFor(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void AddWork() {
  using std::chrono::microseconds;
  AddCase({.name = "work_two_workers",
           .bounds = {{.peer = "one_worker", .at_least = 1.9}},
           .items = 200,
           .make = [] {
             const auto work = [](int) { SpinFor(microseconds(100)); };
             auto two = std::make_shared<ReplayedGraph>(Wide(200), work, 2);
             auto one = std::make_shared<ReplayedGraph>(Wide(200), work, 1);
             return Variants{
                 .all = {{"ours", [two] { two->Run(); }}, {"one_worker", [one] { one->Run(); }}}};
           }});
  AddCase({.name = "work_overhead",
           .bounds = {{.peer = "loop", .at_least = 1 / 1.02}},
           .items = 10000,
           .make = [] {
             const auto work = [](int) { SpinFor(microseconds(10)); };
             auto ours = std::make_shared<ReplayedGraph>(Random(10000), work, 1);
             return Variants{.all = {{"ours", [ours] { ours->Run(); }}, {"loop", [work] {
                                                                           for (int i = 0;
                                                                                i < 10000; ++i)
                                                                             work(i);
                                                                         }}}};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  AddPushes("push_independent", &Setup::PushIndependent, 1 / 3.0);
  AddPushes("push_chain", &Setup::PushChain, 1 / 4.0);
  AddPushes("push_operator", &Setup::PushOperators, 1 / 3.0);
  for (const int count : {1000, 100000}) {
    AddReplay("chain", &Chain, count);
    AddReplay("wide", &Wide, count);
    AddReplay("tree", &BinaryTree, count);
    AddReplay("wavefront", &Wavefront, count);
    AddReplay("random", &Random, count);
  }
  AddWork();
  return benchmarking::RunAll(argc, argv);
}
