#include "tessera/symbol/benchmark/fused_cases.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera::benchmarking {
namespace {

using Vector = Tensor<cpu, 1, float>;

/// A formula on vectors of one length.
struct Formula {
  std::string name;
  index_t size;
  Symbol graph;
  int num_outputs;
  /// The formula as expressions of the inputs, by name, and of the outputs.
  std::function<void(const std::map<std::string, Vector>& in, std::vector<Vector>& out)> expression;
};

/// The vectors of both sides.
struct Run {
  explicit Run(const Formula& formula) {
    std::map<std::string, TShape> shapes;
    for (const std::string& name : formula.graph.ListArguments()) shapes[name] = {formula.size};
    executor = SimpleBind(formula.graph, Device::Cpu(), {.shapes = shapes, .grad_req = kNullOp});
    float first = 0.9f;
    for (const auto& [name, array] : executor->arg_dict()) {
      std::vector<float> values(static_cast<size_t>(formula.size));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = first - static_cast<float>(i % 1009) * 0.001f;
      }
      NDArray(array).SyncCopyFromCPU(values.data(), formula.size);
      inputs[name] = array.data().FlatTo1D<cpu, float>();
      first -= 0.1f;
    }
    for (int i = 0; i < formula.num_outputs; ++i) {
      memory.emplace_back(Shape1(formula.size), 0.0f);
      outputs.push_back(memory.back());
    }
  }

  /// Returns whether both sides have computed the same, but for roundings.
  bool Agrees() const {
    for (size_t k = 0; k < outputs.size(); ++k) {
      const std::vector<float> ours = executor->outputs()[k].ToVector();
      for (size_t i = 0; i < ours.size(); i += 101) {
        const float expected = outputs[k][static_cast<index_t>(i)];
        if (!(std::abs(ours[i] - expected) <= 1e-5f * (1 + std::abs(expected)))) return false;
      }
    }
    return true;
  }

  std::shared_ptr<Executor> executor;
  std::map<std::string, Vector> inputs;
  std::vector<TensorContainer<cpu, 1>> memory;
  std::vector<Vector> outputs;
};

void Add(const Formula& formula, double longest) {
  AddCase({.name = formula.name,
           .bounds = {{.peer = "expression", .at_least = 1 / longest}},
           .items = static_cast<double>(formula.size),
           .make = [formula] {
             const auto run = std::make_shared<Run>(formula);
             const auto graph = [run] {
               run->executor->Forward(/*is_train=*/false);
               for (const NDArray& output : run->executor->outputs()) output.WaitToRead();
             };
             return Variants{
                 .all = {{"ours", graph},
                         {"expression",
                          [run, formula] { formula.expression(run->inputs, run->outputs); }}},
                 .results_agree = [run] { return run->Agrees(); }};
           }});
}

Symbol Unary(const std::string& op, const Symbol& x) { return Symbol::Apply(op, {x}, {}); }

/// Four products and four additions.
Formula Eight() {
  const Symbol a = Symbol::Variable("a"), b = Symbol::Variable("b");
  Symbol x = Symbol::Variable("x");
  for (int i = 0; i < 4; ++i) x = x * a + b;
  return {"fused_eight", index_t{1} << 24, x, 1, [](const auto& in, auto& out) {
            const Vector x = in.at("x"), a = in.at("a"), b = in.at("b");
            out[0] = (((x * a + b) * a + b) * a + b) * a + b;
          }};
}

Formula Swish() {
  const Symbol x = Symbol::Variable("x");
  return {"fused_swish", index_t{1} << 20, x * Unary("sigmoid", x), 1,
          [](const auto& in, auto& out) {
            const Vector x = in.at("x");
            out[0] = x * sigmoid(x);
          }};
}

/// The form with tanh (Hendrycks and Gimpel 2016).
Formula Gelu() {
  const Symbol x = Symbol::Variable("x");
  const Symbol inner = (x + x * x * x * 0.044715) * 0.7978845608;
  return {"fused_gelu", index_t{1} << 20, x * 0.5 * (Unary("tanh", inner) + 1), 1,
          [](const auto& in, auto& out) {
            const Vector x = in.at("x");
            out[0] = x * 0.5f * (tanh((x + x * x * x * 0.044715f) * 0.7978845608f) + 1.0f);
          }};
}

Formula LstmCell() {
  const auto gate = [](const char* name) { return Unary("sigmoid", Symbol::Variable(name)); };
  const Symbol cell = gate("forget") * Symbol::Variable("cell") +
                      gate("input") * Unary("tanh", Symbol::Variable("candidate"));
  const Symbol state = gate("output") * Unary("tanh", cell);
  return {"fused_lstm_cell", index_t{1} << 20, Symbol::CreateGroup({cell, state}), 2,
          [](const auto& in, auto& out) {
            const Vector input = in.at("input"), forget = in.at("forget"), cell = in.at("cell"),
                         candidate = in.at("candidate"), output = in.at("output");
            out[0] = sigmoid(forget) * cell + sigmoid(input) * tanh(candidate);
            out[1] = sigmoid(output) * tanh(out[0]);
          }};
}

/// An executor of attention's weights in a transformer: 8 heads of width 32, batch 8, 128 queries
/// and keys.
std::shared_ptr<Executor> BindAttention() {
  const Symbol product =
      Symbol::Apply("batch_dot", {Symbol::Variable("queries"), Symbol::Variable("keys")},
                    {{"transpose_b", "True"}});
  const Symbol scores =
      Symbol::Apply("broadcast_add", {product * 0.1767766953, Symbol::Variable("mask")}, {});
  const std::shared_ptr<Executor> executor = SimpleBind(
      Symbol::Apply("softmax", {scores}, {}), Device::Cpu(),
      {.shapes = {{"queries", {64, 128, 32}}, {"keys", {64, 128, 32}}, {"mask", {1, 128, 128}}},
       .grad_req = kNullOp});
  for (const NDArray& array : executor->arg_arrays()) {
    const index_t size = array.shape().Size();
    std::vector<float> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1 - static_cast<float>(i * 37 % 1009) * 0.002f;
    }
    NDArray(array).SyncCopyFromCPU(values.data(), size);
  }
  return executor;
}

/// Adds attention's scores, their scale, mask and softmax as one step beside single steps.
void AddAttention() {
  AddCase({.name = "fused_attention_scores",
           .bounds = {{.peer = "single_steps", .at_least = 1}},
           .items = 64 * 128 * 128,
           .make = [] {
             const std::shared_ptr<Executor> fused = BindAttention();
             setenv("TESSERA_FUSE", "0", /*overwrite=*/1);
             const std::shared_ptr<Executor> single = BindAttention();
             unsetenv("TESSERA_FUSE");
             const auto run = [](const std::shared_ptr<Executor>& executor) {
               return [executor] {
                 executor->Forward(/*is_train=*/false);
                 executor->outputs()[0].WaitToRead();
               };
             };
             return Variants{.all = {{"ours", run(fused)}, {"single_steps", run(single)}},
                             .results_agree = [fused, single] {
                               return fused->outputs()[0].ToVector() ==
                                      single->outputs()[0].ToVector();
                             }};
           }});
}

}  // namespace

void AddFusedCases() {
  Add(Eight(), 1.35);
  for (const Formula& formula : {Swish(), Gelu(), LstmCell()}) Add(formula, 1.5);
  AddAttention();
}

}  // namespace tessera::benchmarking
