// Work on graphs of 25,000 and 100,000 nodes, inputs or attributes grows in proportion. Allocations
// are counted, because times differ from run to run; a search in every step would take minutes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

std::atomic<int64_t> allocations = 0;
std::atomic<int64_t> allocated_bytes = 0;

constexpr int kSize = 25000;  // the smaller one

std::string Number(int number) { return std::to_string(number); }

std::string VariableJson(int number) {
  return R"({"op": "null", "name": "x)" + Number(number) + R"(", "inputs": []})";
}

/// Half of the nodes are variables; each of the others adds one to the sum of those before.
std::string Chain(int size) {
  std::string json = "{\"nodes\": [" + VariableJson(0);
  int sum = 0;
  for (int i = 1; i + 1 < size; i += 2) {
    json += "," + VariableJson(i) + R"(, {"op": "elemwise_add", "name": "n)" + Number(i) +
            "\", \"inputs\": [[" + Number(sum) + ", 0, 0], [" + Number(i) + ", 0, 0]]}";
    sum = i + 1;
  }
  return json + "], \"heads\": [[" + Number(sum) + ", 0, 0]]}";
}

/// Variables that one operator joins and another one splits. Each variable has an attribute that
/// the operator states for it.
std::string Fan(int size) {
  std::string json = "{\"nodes\": [";
  std::string inputs, attributes, heads;
  for (int i = 0; i < size; ++i) {
    const std::string separator = i == 0 ? "" : ", ";
    json += VariableJson(i) + ", ";
    inputs += separator + "[" + Number(i) + ", 0, 0]";
    attributes += ", \"arg" + Number(i) + "_lr_mult\": \"2\"";
    heads += separator + "[" + Number(size + 1) + ", " + Number(i) + ", 0]";
  }
  return json + R"({"op": "Concat", "name": "join", "attrs": {"num_args": ")" + Number(size) +
         "\", \"dim\": \"0\"" + attributes + "}, \"inputs\": [" + inputs +
         R"(]}, {"op": "SliceChannel", "name": "split", "attrs": {"axis": "0", "num_outputs": ")" +
         Number(size) + "\"}, \"inputs\": [[" + Number(size) + ", 0, 0]]}], \"heads\": [" + heads +
         "]}";
}

/// One variable with many attributes.
std::string Annotated(int size) {
  std::string attributes;
  for (int i = 0; i < size; ++i) {
    attributes += (i == 0 ? "\"key" : ", \"key") + Number(i) + "\": \"1\"";
  }
  return R"({"nodes": [{"op": "null", "name": "x0", "inputs": [], "attrs": {)" + attributes +
         "}}], \"heads\": [[0, 0, 0]]}";
}

/// Uses a graph in every way.
void Use(const std::string& json) {
  const Symbol graph = Symbol::FromJson(json);
  EXPECT_EQ(Symbol::FromJson(graph.ToJson()).ListInputs(), graph.ListInputs());
  EXPECT_EQ(graph.Copy().ListArguments(), graph.ListArguments());
  EXPECT_EQ(graph.Compose({{"x0", Symbol::Variable("y")}}).num_outputs(), graph.num_outputs());
  EXPECT_FALSE(graph.GetInternals().ListOutputs().empty());
  EXPECT_FALSE(graph.ListOutputs().empty());
  EXPECT_GE(graph.ListAttributesRecursive().size(), 0u);
  EXPECT_EQ(graph.Grad({"x0"}).num_outputs(), 1);
  std::map<std::string, TShape> shapes;
  for (const std::string& name : graph.ListArguments()) shapes[name] = {1, 2};
  EXPECT_TRUE(graph.InferShape(shapes).complete);
  EXPECT_TRUE(graph.InferType({}).complete);
  EXPECT_FALSE(graph.InferShapePartial({}).complete);
  EXPECT_FALSE(graph.InferTypePartial({}).complete);
}

/// Binds a graph with gradients.
void BindGraph(const std::string& json) {
  const Symbol graph = Symbol::FromJson(json);
  SimpleBindOptions options;
  for (const std::string& name : graph.ListArguments()) options.shapes[name] = {1, 2};
  EXPECT_EQ(SimpleBind(graph, Device::Cpu(), options)->outputs().size(), 1u);
}

/// An array of `size` rows that is cut into its rows, whose sum with themselves is joined again.
Symbol Split(int size) {
  const ParameterMap rows = {{"num_outputs", Number(size)}, {"axis", "0"}};
  return Symbol::Apply("SliceChannel", {Symbol::Variable("x")}, rows, "split");
}
Symbol Join(const Symbol& parts) {
  std::vector<Symbol> inputs;
  for (int i = 0; i < parts.num_outputs(); ++i) inputs.push_back(parts[i]);
  return Symbol::Apply("Concat", inputs, {{"dim", "0"}});
}
Symbol SplitAndJoined(int size) {
  const Symbol parts = Split(size);
  return Join(parts) + Join(parts);
}

/// Creates nodes of many inputs and outputs, and differentiates them.
void Create(int size) {
  const Symbol joined = SplitAndJoined(size);
  for (const auto form : {graph::GradientForm::kBackward, graph::GradientForm::kDifferentiable}) {
    EXPECT_EQ(joined.Grad({"x"}, form).num_outputs(), 1);
  }
  const Symbol first = Split(size), second = Split(size);
  std::vector<Symbol> in_turns;
  for (int i = 0; i < size; ++i) {
    in_turns.push_back(first[i]);
    in_turns.push_back(second[i]);
  }
  EXPECT_EQ(Symbol::CreateGroup(in_turns).ListOutputs()[3], "split_output1");
}

/// Runs nodes of many inputs and outputs, with gradients.
void RunGraph(int size) {
  const auto executor =
      SimpleBind(SplitAndJoined(size), Device::Cpu(), {.shapes = {{"x", {size}}}});
  NDArray x = executor->arg_arrays()[0];
  x = 3.0f;
  NDArray head_gradient(TShape{size});
  head_gradient = 1.0f;
  executor->Forward(true);
  executor->Backward({head_gradient});
  EXPECT_EQ(executor->outputs()[0].Slice(size - 1, size).ToVector()[0], 6);
  EXPECT_EQ(executor->grad_arrays()[0].Slice(size - 1, size).ToVector()[0], 2);
  int named = 0;
  executor->SetMonitorCallback([&named](const std::string&, const NDArray&) { ++named; }, true);
  executor->Forward(true);
  EXPECT_GT(named, 3 * size);
}

/// Calls run(size) for two sizes.
void ExpectLinear(int small_size, const std::function<void(int)>& run) {
  const auto count = [&](int size, int64_t* bytes) {
    const int64_t before = allocations, bytes_before = allocated_bytes;
    run(size);
    *bytes = allocated_bytes - bytes_before;
    return allocations - before;
  };
  int64_t bytes = 0, more_bytes = 0;
  const int64_t small = count(small_size, &bytes);
  const int64_t large = count(4 * small_size, &more_bytes);
  EXPECT_LT(large, small * 5);
  EXPECT_LT(more_bytes, bytes * 6);  // a container's size is a power of two
}

TEST(LinearTimeTest, GraphsOfManyNodes) {
  ExpectLinear(kSize, [](int size) { Use(Chain(size)); });
}
TEST(LinearTimeTest, NodesOfManyInputsAndOutputs) {
  ExpectLinear(kSize, [](int size) { Use(Fan(size)); });
}
TEST(LinearTimeTest, NodesOfManyAttributes) {
  ExpectLinear(kSize, [](int size) { Use(Annotated(size)); });
}
TEST(LinearTimeTest, BindingOfManyNodes) {
  ExpectLinear(kSize, [](int size) { BindGraph(Chain(size)); });
}
TEST(LinearTimeTest, CreatingNodesOfManyInputsAndOutputs) { ExpectLinear(kSize, Create); }
TEST(LinearTimeTest, RunningNodesOfManyInputsAndOutputs) { ExpectLinear(5000, RunGraph); }

}  // namespace
}  // namespace tessera

// The global operators, which count.
void* operator new(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  ++tessera::allocations;
  tessera::allocated_bytes += static_cast<int64_t>(size);
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
