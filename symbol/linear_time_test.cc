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

#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

std::atomic<int64_t> allocations = 0;
std::atomic<int64_t> allocated_bytes = 0;

constexpr int kSmall = 25000;
constexpr int kLarge = 100000;

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

void ExpectLinear(const std::function<std::string(int)>& make,
                  const std::function<void(const std::string&)>& use) {
  const auto count = [&](int size, int64_t* bytes) {
    const std::string json = make(size);
    const int64_t before = allocations, bytes_before = allocated_bytes;
    use(json);
    *bytes = allocated_bytes - bytes_before;
    return allocations - before;
  };
  int64_t bytes = 0, more_bytes = 0;
  const int64_t small = count(kSmall, &bytes);
  const int64_t large = count(kLarge, &more_bytes);
  EXPECT_LT(large, small * 5);
  EXPECT_LT(more_bytes, bytes * 6);  // a container's size is a power of two
}

TEST(LinearTimeTest, GraphsOfManyNodes) { ExpectLinear(Chain, Use); }
TEST(LinearTimeTest, NodesOfManyInputsAndOutputs) { ExpectLinear(Fan, Use); }
TEST(LinearTimeTest, NodesOfManyAttributes) { ExpectLinear(Annotated, Use); }
TEST(LinearTimeTest, BindingOfManyNodes) { ExpectLinear(Chain, BindGraph); }

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
