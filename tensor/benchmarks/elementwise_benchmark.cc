// Element-wise expressions on floats, compared with hand-written loops over libm and with Eigen's
// packets. They run on one thread unless a case has two.
#include <cmath>
#include <memory>
#include <random>
#include <string>

#include "Eigen/Core"
#include "tbb/task_arena.h"
#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"
#include "unsupported/Eigen/SpecialFunctions"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;
using tensor_internal::InstructionSet;
using tensor_internal::UsedInstructionSet;
using Map = Eigen::Map<Eigen::ArrayXf>;

struct Data {
  index_t n;
  TensorContainer<cpu, 1, float> x, g, ours, loop, eigen;

  Data(index_t size, float low, float high) : n(size) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(low, high);
    for (auto* t : {&x, &g, &ours, &loop, &eigen}) {
      t->Resize(Shape1(n));
      for (index_t i = 0; i < n; ++i) t->dptr_[i] = uniform(random);
    }
    ours = x;
    loop = x;
    eigen = x;
  }
  bool Agree(double tolerance) const {
    for (index_t i = 0; i < n; ++i) {
      const double expected = loop.dptr_[i];
      for (const float value : {ours.dptr_[i], eigen.dptr_[i]}) {
        if (!(std::abs(value - expected) <= tolerance * (1 + std::abs(expected)))) return false;
      }
    }
    return true;
  }
  static Map View(Tensor<cpu, 1, float>& t) { return Map(t.dptr_, t.shape_[0]); }
};

constexpr float kRate = 1e-3f, kDecay = 1e-4f;

void Update(Data* d) { d->ours -= kRate * (d->g + kDecay * d->ours); }
void UpdateLoop(Data* d) {
  float* __restrict w = d->loop.dptr_;
  const float* __restrict g = d->g.dptr_;
  for (index_t i = 0; i < d->n; ++i) w[i] -= kRate * (g[i] + kDecay * w[i]);
}
void UpdateEigen(Data* d) {
  Map w = Data::View(d->eigen);
  w -= kRate * (Data::View(d->g) + kDecay * w);
}

void AddUpdate(index_t n) {
  AddCase({.name = "update/" + std::to_string(n),
           .bounds = {{.peer = "loop", .at_least = 0.98}},
           .bytes = 12.0 * static_cast<double>(n),
           .flops = 4.0 * static_cast<double>(n),
           .make = [n] {
             auto d = std::make_shared<Data>(n, -1.0f, 1.0f);
             return Variants{.all = {{"ours", [d] { Update(d.get()); }},
                                     {"loop", [d] { UpdateLoop(d.get()); }},
                                     {"eigen", [d] { UpdateEigen(d.get()); }}}};
           }});
}

/// Adds a case for the time of `work` on one thread over its time on two. `bytes` and `operations`
/// are for one element.
template <typename Work>
void AddTwoThreads(const std::string& name, index_t n, double bound, double bytes,
                   double operations, Work work) {
  AddCase({.name = name + "/" + std::to_string(n),
           .bounds = {{.peer = "one_thread", .at_least = bound}},
           .bytes = bytes * static_cast<double>(n),
           .flops = operations * static_cast<double>(n),
           .make = [n, work] {
             auto d = std::make_shared<Data>(n, 0.0f, 1.0f);
             auto two = std::make_shared<tbb::task_arena>(2);
             return Variants{
                 .all = {{"ours", [d, two, work] { two->execute([&] { work(d.get()); }); }},
                         {"one_thread", [d, work] { work(d.get()); }}}};
           }});
}

/// Adds a case slightly above the size at which a second thread starts: one and a half times the
/// largest size for one thread. Two threads must not be slower than one there. `cost` is CostOf's
/// result for `function`.
template <typename Function>
void AddCrossover(const std::string& name, index_t cost, Function function) {
  AddTwoThreads("crossover/" + name, 3 * ElementsPerTask(cost) / 2, 1, 8, 1,
                [function](Data* d) { d->ours = function(d->x); });
}

void AddCrossovers() {
  AddTwoThreads("crossover/update", 3 * ElementsPerTask() / 2, 1, 12, 4, Update);
  AddCrossover("exp", 1, [](const auto& x) { return exp(x); });
  AddCrossover("log", op::kKernelCost, [](const auto& x) { return log(x); });
  AddCrossover("tanh", 4, [](const auto& x) { return tanh(x); });
  AddCrossover("erfc", 8, [](const auto& x) { return erfc(x); });
  AddCrossover("lgamma", op::kLibraryCost, [](const auto& x) { return lgamma(x); });
  AddCrossover("pow", op::kLibraryCost / 2, [](const auto& x) { return pow(x, 0.3f); });
}

/// The required speed relative to libm, with AVX-512 and with AVX2. 0 for AVX2 means the same
/// bound.
struct OverLibm {
  double avx512 = 10, avx2 = 0;
};

/// Adds a function over [low, high]. `scalar` computes one element by libm and `eigen` computes all
/// by Eigen. `operations` counts an element's operations; a function counts as one.
template <typename Ours, typename Scalar, typename EigenForm>
void AddFunction(const std::string& name, float low, float high, Ours ours, Scalar scalar,
                 EigenForm eigen, OverLibm over_libm = {}, double operations = 1) {
  constexpr index_t kSize = 4096;
  AddCase({.name = name,
           .bounds = {{.peer = "libm",
                       .at_least = over_libm.avx512,
                       .at_least_on_avx2 = over_libm.avx2},
                      {.peer = "eigen", .at_least = 0.95}},
           .bytes = 8.0 * kSize,
           .flops = operations * kSize,
           .make = [=] {
             auto d = std::make_shared<Data>(kSize, low, high);
             return Variants{
                 .all = {{"ours", [d, ours] { d->ours = ours(d->x); }},
                         {"libm",
                          [d, scalar] {
                            for (index_t i = 0; i < d->n; ++i) {
                              d->loop.dptr_[i] = scalar(d->x.dptr_[i]);
                            }
                          }},
                         {"eigen", [d, eigen] { Data::View(d->eigen) = eigen(Data::View(d->x)); }}},
                 .results_agree = [d] { return d->Agree(1e-6); }};
           }});
}

void AddFunctions() {
  AddFunction(
      "sigmoid_chain", -10, 10, [](const auto& x) { return sigmoid(x * 2.0f) + 1.0f; },
      [](float x) { return 1 / (1 + std::exp(-2 * x)) + 1; },
      [](const Map& x) { return (x * 2.0f).logistic() + 1.0f; }, {10, 4.5}, 3);
  AddFunction(
      "tanh", -10, 10, [](const auto& x) { return tanh(x); }, [](float x) { return std::tanh(x); },
      [](const Map& x) { return x.tanh(); });
  AddFunction(
      "exp", -80, 80, [](const auto& x) { return exp(x); }, [](float x) { return std::exp(x); },
      [](const Map& x) { return x.exp(); }, {10, 4.5});
  AddFunction(
      "log", 1e-3f, 1e3f, [](const auto& x) { return log(x); }, [](float x) { return std::log(x); },
      [](const Map& x) { return x.log(); }, {10, 3.3});
  AddFunction(
      "erf", -4, 4, [](const auto& x) { return erf(x); }, [](float x) { return std::erf(x); },
      [](const Map& x) { return x.erf(); });
  // libm's sine and cosine of float are fast, so the bound is lower.
  AddFunction(
      "sin", -10, 10, [](const auto& x) { return sin(x); }, [](float x) { return std::sin(x); },
      [](const Map& x) { return x.sin(); }, {5});
  AddFunction(
      "cos", -10, 10, [](const auto& x) { return cos(x); }, [](float x) { return std::cos(x); },
      [](const Map& x) { return x.cos(); }, {5});
  AddFunction(
      "log2", 1e-3f, 1e3f, [](const auto& x) { return log2(x); },
      [](float x) { return std::log2(x); }, [](const Map& x) { return x.log2(); }, {10, 3.5});
}

/// Adds the functions for which Eigen has no packets, or none for the baseline.
void AddOtherFunctions() {
#define TESSERA_ADD_FUNCTION(name, low, high, avx512, avx2)                           \
  AddFunction(                                                                        \
      #name, low, high, [](const auto& x) { return name(x); },                        \
      [](float x) { return std::name(x); },                                           \
      [](const Map& x) { return x.unaryExpr([](float a) { return std::name(a); }); }, \
      {avx512, avx2})
  TESSERA_ADD_FUNCTION(tan, -10, 10, 10, 10);
  TESSERA_ADD_FUNCTION(sinh, -10, 10, 10, 10);
  TESSERA_ADD_FUNCTION(cosh, -10, 10, 10, 8);
  TESSERA_ADD_FUNCTION(exp2, -80, 80, 10, 5);
  TESSERA_ADD_FUNCTION(log10, 1e-3f, 1e3f, 10, 7);
  TESSERA_ADD_FUNCTION(asin, -1, 1, 10, 10);
  TESSERA_ADD_FUNCTION(acos, -1, 1, 10, 10);
  TESSERA_ADD_FUNCTION(atan, -10, 10, 10, 10);
  TESSERA_ADD_FUNCTION(asinh, -10, 10, 5, 4.5);
  TESSERA_ADD_FUNCTION(acosh, 1, 10, 5, 4);
  TESSERA_ADD_FUNCTION(atanh, -0.99f, 0.99f, 10, 10);
  TESSERA_ADD_FUNCTION(cbrt, -100, 100, 5, 5);
  TESSERA_ADD_FUNCTION(erfc, -4, 4, 10, 8.5);
#undef TESSERA_ADD_FUNCTION
  const auto gelu_by_libm = [](float x) {
    return static_cast<float>(0.5 * x * std::erfc(x * -0.70710678118654752));
  };
  AddFunction(
      "gelu", -4, 4, [](const auto& x) { return gelu(x); }, gelu_by_libm,
      [=](const Map& x) { return x.unaryExpr(gelu_by_libm); }, {2, 1.8});
  AddFunction(
      "pow", 0.1f, 10, [](const auto& x) { return pow(x, x); },
      [](float x) { return std::pow(x, x); }, [](const Map& x) { return x.pow(x); }, {2});
  AddFunction(
      "pow_number", 0.1f, 10, [](const auto& x) { return pow(x, 2.3f); },
      [](float x) { return std::pow(x, 2.3f); }, [](const Map& x) { return x.pow(2.3f); }, {2});
  const auto digamma_of_number = [](float x) { return tensor_internal::Digamma(x); };
  AddFunction(
      "digamma", 0.5f, 20, [](const auto& x) { return digamma(x); }, digamma_of_number,
      [=](const Map& x) { return x.unaryExpr(digamma_of_number); }, {3});
  const auto log_gamma_of_number = [](float x) { return tensor_internal::LogGamma(x); };
  AddFunction(
      "lgamma", 0.5f, 20, [](const auto& x) { return lgamma(x); }, log_gamma_of_number,
      [=](const Map& x) { return x.unaryExpr(log_gamma_of_number); }, {2, 1.6});
  const auto gamma_of_number = [](float x) { return tensor_internal::Gamma(x); };
  AddFunction(
      "gamma", 0.5f, 20, [](const auto& x) { return gamma(x); }, gamma_of_number,
      [=](const Map& x) { return x.unaryExpr(gamma_of_number); }, {4});
}

void AddFixedCost() {
  AddCase({.name = "fixed_cost/16", .limit_seconds = 20e-9, .make = [] {
             auto d = std::make_shared<Data>(16, -1.0f, 1.0f);
             return Variants{.all = {{"ours", [d] { Update(d.get()); }}}};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  for (const index_t n : {4096, 1 << 17, 1 << 24}) AddUpdate(n);
  AddTwoThreads("update_two_threads", 1 << 17, 1.7, 12, 4, Update);
  AddTwoThreads("update_two_threads", 1 << 24, 1.7, 12, 4, Update);
  AddCrossovers();
  AddFunctions();
  AddOtherFunctions();
  AddFixedCost();
  tbb::task_arena one(1);
  const auto bounds = UsedInstructionSet() == InstructionSet::kAvx512
                          ? benchmarking::BoundsFor::kAvx512
                          : benchmarking::BoundsFor::kAvx2;
  return one.execute([&] { return benchmarking::RunAll(argc, argv, bounds); });
}
