// Programs of mshadow's, statement by statement, beside the same statements under Tessera's own
// names and a loop written by hand, all on one thread: mshadow's names are to cost nothing.
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "mshadow/tensor.h"
#include "tbb/global_control.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace old {

using namespace mshadow;        // NOLINT: what such programs do
using namespace mshadow::expr;  // NOLINT

struct relu {
  MSHADOW_XINLINE static float Map(float a) { return a > 0.0f ? a : 0.0f; }
};

void Update(Tensor<cpu, 2> weight, Tensor<cpu, 2> gradient, float rate, float decay) {
  weight -= rate * (gradient + decay * weight);
}

void Layer(Tensor<cpu, 2> out, Tensor<cpu, 2> data, Tensor<cpu, 2> weight, Tensor<cpu, 1> bias) {
  out = dot(data, weight.T());
  out += repmat(bias, data.size(0));
  out = F<relu>(out);
}

}  // namespace old

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;

constexpr float kRate = 1e-3f, kDecay = 1e-4f;

struct Relu {
  TESSERA_HD static float Map(float a) { return a > 0.0f ? a : 0.0f; }
};

void Fill(TensorContainer<cpu, 2>* tensor, std::mt19937* random) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (index_t i = 0; i < tensor->shape_[0]; ++i) {
    for (index_t j = 0; j < tensor->shape_[1]; ++j) (*tensor)[i][j] = uniform(*random);
  }
}

bool Close(const TensorContainer<cpu, 2>& a, const TensorContainer<cpu, 2>& b) {
  for (index_t i = 0; i < a.shape_[0]; ++i) {
    for (index_t j = 0; j < a.shape_[1]; ++j) {
      if (!(std::abs(a[i][j] - b[i][j]) <= 1e-4f * (1 + std::abs(b[i][j])))) return false;
    }
  }
  return true;
}

struct UpdateData {
  TensorContainer<cpu, 2> gradient, mshadows, tesseras, loops;

  explicit UpdateData(Shape<2> shape)
      : gradient(shape), mshadows(shape), tesseras(shape), loops(shape) {
    std::mt19937 random(1);
    Fill(&gradient, &random);
    Fill(&mshadows, &random);
    tesseras = mshadows;
    loops = mshadows;
  }
};

void UpdateLoop(UpdateData* d) {
  for (index_t i = 0; i < d->loops.shape_[0]; ++i) {
    float* __restrict w = d->loops[i].dptr_;
    const float* __restrict g = d->gradient[i].dptr_;
    for (index_t j = 0; j < d->loops.shape_[1]; ++j) w[j] -= kRate * (g[j] + kDecay * w[j]);
  }
}

void AddUpdate(index_t rows, index_t columns) {
  AddCase(
      {.name = "update/" + std::to_string(rows) + "x" + std::to_string(columns),
       .bounds = {{.peer = "tessera", .at_least = 0.95}},
       .bytes = 12.0 * static_cast<double>(rows * columns),
       .make = [=] {
         auto d = std::make_shared<UpdateData>(Shape2(rows, columns));
         const auto ours = [d] { old::Update(d->mshadows, d->gradient, kRate, kDecay); };
         const auto tesseras = [d] { d->tesseras -= kRate * (d->gradient + kDecay * d->tesseras); };
         return Variants{
             .all = {{"ours", ours}, {"tessera", tesseras}, {"loop", [d] { UpdateLoop(d.get()); }}},
             .results_agree = [d] {
               return Close(d->mshadows, d->tesseras) && Close(d->mshadows, d->loops);
             }};
       }});
}

struct LayerData {
  TensorContainer<cpu, 2> data, weight, mshadows, tesseras;
  TensorContainer<cpu, 1> bias;

  LayerData(index_t batch, index_t inputs, index_t outputs)
      : data(Shape2(batch, inputs)),
        weight(Shape2(outputs, inputs)),
        mshadows(Shape2(batch, outputs)),
        tesseras(Shape2(batch, outputs)),
        bias(Shape1(outputs), 0.25f) {
    std::mt19937 random(1);
    Fill(&data, &random);
    Fill(&weight, &random);
  }
};

void AddLayer(index_t batch, index_t inputs, index_t outputs) {
  AddCase({.name = "layer/" + std::to_string(batch) + "x" + std::to_string(inputs) + "x" +
                   std::to_string(outputs),
           .bounds = {{.peer = "tessera", .at_least = 0.95}},
           .flops = 2.0 * static_cast<double>(batch * inputs * outputs),
           .make = [=] {
             auto d = std::make_shared<LayerData>(batch, inputs, outputs);
             const auto ours = [d] { old::Layer(d->mshadows, d->data, d->weight, d->bias); };
             const auto tesseras = [d] {
               d->tesseras = dot(d->data, d->weight.T());
               d->tesseras += repmat(d->bias, d->data.size(0));
               d->tesseras = F<Relu>(d->tesseras);
             };
             return Variants{.all = {{"ours", ours}, {"tessera", tesseras}},
                             .results_agree = [d] { return Close(d->mshadows, d->tesseras); }};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  mshadow::InitTensorEngine<mshadow::cpu>();
  // In L1, where a statement's own cost shows, and past L2.
  tessera::AddUpdate(16, 64);
  tessera::AddUpdate(1024, 1024);
  // The perceptron of examples/digits and a layer whose product is most of it.
  tessera::AddLayer(32, 64, 128);
  tessera::AddLayer(128, 512, 512);
  return tessera::benchmarking::RunAll(argc, argv);
}
