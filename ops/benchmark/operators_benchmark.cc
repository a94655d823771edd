// FullyConnected and Convolution in the sizes of the digits networks (examples/digits, batch 32),
// each beside the bare matrix products that it consists of. `flops` counts two for a multiply-add.
// Operators that move about as much memory as they compute, beside a copy of as many bytes (`bytes`
// counts what is read and what is written). Results are checked against the operators' references.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/operator_row.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;
using ops_testing::OperatorRow;
using ops_testing::Values;

/// Workspace that grows once and is then reused, as the engine's is.
class GrowingWorkspace final : public Resource {
 public:
  ResourceRequest request() const override { return {}; }
  Device device() const override { return Device::Cpu(); }
  void* GetSpaceBytes(int64_t size_bytes) override {
    const Shape<1> floats = Shape1((size_bytes + 3) / 4);
    if (space_.shape_[0] < floats[0]) space_.Resize(floats);
    return space_.dptr_;
  }
  PhiloxState* GetRandomState() override {
    throw FailedPrecondition("GrowingWorkspace: no random numbers here");
  }

 private:
  TensorContainer<cpu, 1, float> space_;
};

/// One operator with float32 arrays for a forward and a backward call.
class Layer {
 public:
  /// The inputs' elements are in [low, low + 2).
  Layer(const std::string& name, const ParameterMap& parameters, std::vector<TShape> in_shape,
        float low = -1)
      : name_(name),
        parameters_(parameters),
        low_(low),
        property_(OperatorRegistry::Get().Create(name, parameters)) {
    std::vector<TShape> out_shape(property_->ListOutputs().size());
    property_->InferShape(&in_shape, &out_shape);
    const std::vector<DType> types(in_shape.size(), DType::kFloat32);
    operator_ = property_->CreateOperator(Device::Cpu(), in_shape, types);
    for (const TShape& shape : in_shape) {
      in_.push_back(Array(shape));
      in_grad_.push_back(Array(shape));
    }
    for (const TShape& shape : out_shape) {
      out_.push_back(Array(shape));
      out_grad_.push_back(Array(shape));
    }
    forward_req_.assign(out_.size(), kWriteTo);
    forward_req_.resize(out_.size() + property_->MutatedInputs().size(), kNullOp);
    backward_req_.assign(in_.size(), kWriteTo);
  }

  void Forward() { operator_->Forward(context_, in_, forward_req_, out_); }
  void Backward() { operator_->Backward(context_, out_grad_, in_, out_, backward_req_, in_grad_); }

  /// Whether the calls give what the row's reference gives, within float32's accuracy.
  bool MatchesReference(bool with_backward = true) {
    Forward();
    if (with_backward) Backward();
    for (const OperatorRow& row : ops_testing::OperatorRows()) {
      if (row.name != name_) continue;
      std::vector<Values> in, mutated;
      for (const TBlob& blob : in_) in.push_back(ToValues(blob));
      for (const int i : property_->MutatedInputs()) mutated.push_back(in[static_cast<size_t>(i)]);
      const std::vector<Values> out = row.forward(parameters_, in, &mutated);
      bool matches = true;
      for (size_t i = 0; i < out_.size(); ++i) matches = matches && Near(out_[i], out[i]);
      if (!with_backward) return matches;
      const auto grad = row.backward(parameters_, {ToValues(out_grad_[0])}, in, out);
      for (size_t i = 0; i < in_.size(); ++i) matches = matches && Near(in_grad_[i], grad[i]);
      return matches;
    }
    return false;
  }

 private:
  TBlob Array(const TShape& shape) {
    auto& memory = memory_.emplace_back(
        std::make_unique<TensorContainer<cpu, 1, float>>(Shape1(shape.Size())));
    std::uniform_real_distribution<float> draw(low_, low_ + 2);
    for (index_t i = 0; i < shape.Size(); ++i) memory->dptr_[i] = draw(random_);
    return TBlob(memory->dptr_, shape, DType::kFloat32, Device::Cpu());
  }
  static Values ToValues(const TBlob& blob) {
    Values values(blob.shape_);
    for (index_t i = 0; i < values.size(); ++i) values[i] = blob.dptr<float>()[i];
    return values;
  }
  static bool Near(const TBlob& actual, const Values& expected) {
    double largest = 0, error = 0;
    for (index_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      error = std::max(error, std::abs(actual.dptr<float>()[i] - expected[i]));
    }
    return error <= 1e-5 * largest;
  }

  const std::string name_;
  const ParameterMap parameters_;
  const float low_;
  std::mt19937_64 random_{20240229};
  std::unique_ptr<OperatorProperty> property_;
  std::unique_ptr<Operator> operator_;
  std::vector<std::unique_ptr<TensorContainer<cpu, 1, float>>> memory_;
  std::vector<TBlob> in_, in_grad_, out_, out_grad_;
  std::vector<OpReqType> forward_req_, backward_req_;
  GrowingWorkspace workspace_;
  Resource* requested_[1] = {&workspace_};
  OpContext context_{.is_train = true, .stream = nullptr, .requested = requested_};
};

/// A layer of the digits networks, seen as `products` products of m x k and k x n.
struct LayerCase {
  std::string label;
  std::string name;
  ParameterMap parameters;
  std::vector<TShape> inputs;
  index_t products, m, n, k;
  double at_least;  // of the bare products' speed

  double Flops() const { return 2.0 * static_cast<double>(products * m * n * k); }
};

std::vector<LayerCase> LayerCases() {
  return {
      // 1024 inputs are the second convolution's 64 channels after both poolings.
      {.label = "fc_1024_to_128",
       .name = "FullyConnected",
       .parameters = {{"num_hidden", "128"}},
       .inputs = {{32, 1024}, {}, {}},
       .products = 1,
       .m = 32,
       .n = 128,
       .k = 1024,
       .at_least = 0.6},
      {.label = "fc_64_to_128",
       .name = "FullyConnected",
       .parameters = {{"num_hidden", "128"}},
       .inputs = {{32, 64}, {}, {}},
       .products = 1,
       .m = 32,
       .n = 128,
       .k = 64,
       .at_least = 0.6},
      // A convolution also unpacks its images, nine times their size for 3x3.
      {.label = "conv_3x3_32_to_64",
       .name = "Convolution",
       .parameters = {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", "64"}},
       .inputs = {{32, 32, 8, 8}, {}, {}},
       .products = 32,
       .m = 64,
       .n = 64,
       .k = 32 * 9,
       .at_least = 0.5},
      {.label = "conv_3x3_1_to_32",
       .name = "Convolution",
       .parameters = {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", "32"}},
       .inputs = {{32, 1, 8, 8}, {}, {}},
       .products = 32,
       .m = 32,
       .n = 64,
       .k = 9,
       .at_least = 0.35},
  };
}

/// The products that a layer consists of, on operands that stay in cache.
struct Products {
  explicit Products(const LayerCase& c)
      : count(c.products),
        a(Shape2(c.m, c.k), 0.5f),
        b(Shape2(c.k, c.n), 0.25f),
        a_grad(Shape2(c.m, c.k), 0.0f),
        b_grad(Shape2(c.k, c.n), 0.0f),
        out(Shape2(c.m, c.n), 0.0f) {}

  void Forward() {
    for (index_t i = 0; i < count; ++i) out = dot(a, b);
  }
  void Backward() {
    for (index_t i = 0; i < count; ++i) {
      a_grad = dot(out, b.T());
      b_grad = dot(a.T(), out);
    }
  }

  const index_t count;
  TensorContainer<cpu, 2, float> a, b, a_grad, b_grad;
  TensorContainer<cpu, 2, float> out;
};

void AddCases(const LayerCase& c) {
  for (const bool forward : {true, false}) {
    AddCase({.name = c.label + (forward ? "/forward" : "/backward"),
             .bounds = {{.peer = "products", .at_least = c.at_least}},
             .flops = forward ? c.Flops() : 2 * c.Flops(),
             .items = static_cast<double>(c.inputs[0][0]),
             .make = [c, forward] {
               const auto layer = std::make_shared<Layer>(c.name, c.parameters, c.inputs);
               const auto products = std::make_shared<Products>(c);
               Variants variants;
               variants.all = {
                   {"ours", [=] { forward ? layer->Forward() : layer->Backward(); }},
                   {"products", [=] { forward ? products->Forward() : products->Backward(); }}};
               variants.results_agree = [=] { return layer->MatchesReference(); };
               return variants;
             }});
  }
}

/// An operator whose first output is like its first input, both larger than the second-level cache.
struct RowsCase {
  std::string label;
  std::string name;
  ParameterMap parameters;
  std::vector<TShape> inputs;
  double at_least = 0.7;  // of a copy's bandwidth
};

std::vector<RowsCase> RowsCases() {
  const ParameterMap none, moving = {{"use_global_stats", "True"}, {"fix_gamma", "False"}};
  return {
      // The classes of digits and of ImageNet, and the words of a language model.
      {"softmax_10", "softmax", none, {{1 << 18, 10}}},
      {"softmax_100", "softmax", none, {{30000, 100}}},
      {"softmax_1000", "softmax", none, {{3000, 1000}}},
      {"softmax_30000", "softmax", none, {{100, 30000}}},
      // The classes of each pixel.
      {"softmax_channels", "softmax", {{"axis", "1"}}, {{8, 21, 128, 128}}},
      {"log_softmax_10", "log_softmax", none, {{1 << 18, 10}}},
      {"log_softmax_1000", "log_softmax", none, {{3000, 1000}}},
      {"log_softmax_channels", "log_softmax", {{"axis", "1"}}, {{8, 21, 128, 128}}},
      // The first and the last stage of ResNet.
      {"batch_norm_56x56", "BatchNorm", moving, {{16, 64, 56, 56}, {}, {}, {}, {}}},
      {"batch_norm_7x7", "BatchNorm", moving, {{32, 2048, 7, 7}, {}, {}, {}, {}}},
      // The rows of BERT, and of a small model.
      {"layer_norm_768", "LayerNorm", none, {{4096, 768}, {}, {}}},
      {"layer_norm_64", "LayerNorm", none, {{50000, 64}, {}, {}}},
  };
}

void AddRowsCase(const RowsCase& c) {
  const index_t size = c.inputs[0].Size();
  AddCase({.name = c.label,
           .bounds = {{.peer = "copy", .at_least = c.at_least}},
           .bytes = 2.0 * sizeof(float) * static_cast<double>(size),
           .make = [c, size] {
             const auto layer = std::make_shared<Layer>(c.name, c.parameters, c.inputs, 0.5f);
             const auto from = std::make_shared<TensorContainer<cpu, 1, float>>(Shape1(size), 1.f);
             const auto to = std::make_shared<TensorContainer<cpu, 1, float>>(Shape1(size), 0.f);
             Variants variants;
             variants.all = {{"ours", [=] { layer->Forward(); }},
                             {"copy", [=] { *to = F<op::identity>(*from); }}};
             variants.results_agree = [=] { return layer->MatchesReference(false); };
             return variants;
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  for (const auto& c : tessera::LayerCases()) tessera::AddCases(c);
  for (const auto& c : tessera::RowsCases()) tessera::AddRowsCase(c);
  return tessera::benchmarking::RunAll(argc, argv);
}
