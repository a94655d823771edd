// The same jobs in Tessera, in loops written by hand, and in other libraries, all on one thread.
// python_peer.py does those jobs in Python packages, under the same names.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "tbb/blocked_range.h"
#include "tbb/parallel_for.h"
#include "tbb/parallel_reduce.h"
#include "tbb/task_arena.h"
#include "tessera/benchmarks/peers/peer_libraries.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;
using Vector = std::vector<float>;
using Array = Eigen::Map<Eigen::ArrayXf>;
using Matrix = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

Vector RandomVector(index_t n) {
  static std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Vector values(static_cast<size_t>(n));
  for (float& value : values) value = uniform(random);
  return values;
}

bool AllClose(const std::vector<Vector>& results, float tolerance) {
  for (const Vector& result : results) {
    for (size_t i = 0; i < result.size(); ++i) {
      if (!(std::abs(result[i] - results[0][i]) <= tolerance * (1 + std::abs(results[0][i])))) {
        return false;
      }
    }
  }
  return true;
}

Tensor<cpu, 1> Flat(Vector& v) {
  return Tensor<cpu, 1>(v.data(), Shape1(static_cast<index_t>(v.size())));
}
Array EigenArray(Vector& v) { return Array(v.data(), static_cast<Eigen::Index>(v.size())); }

// The data of a case: inputs, and one result for each variant, which is made when it is named.
struct Job {
  Vector a, b;
  std::vector<Vector> results;

  // Room for every variant there can be: captured pointers into it must stay valid.
  Job() { results.reserve(8); }
  Vector* Result(Vector initial) {
    results.push_back(std::move(initial));
    return &results.back();
  }
};

constexpr float kRate = 1e-3f, kDecay = 1e-4f;

void UpdateLoop(size_t begin, size_t end, const Vector& gradient, Vector* weight) {
  const float* __restrict g = gradient.data();
  float* __restrict w = weight->data();
  for (size_t i = begin; i < end; ++i) w[i] -= kRate * (g[i] + kDecay * w[i]);
}

// A step of gradient descent with weight decay: w -= rate * (g + decay * w).
Variants UpdateVariants(index_t n, const std::vector<peers::PeerLibrary>& libraries) {
  auto job = std::make_shared<Job>();
  job->a = RandomVector(n);
  const Vector w = RandomVector(n);
  Variants variants;
  variants.all.push_back({"ours", [job, r = job->Result(w)] {
                            Tensor<cpu, 1> out = Flat(*r);
                            out -= kRate * (Flat(job->a) + kDecay * out);
                          }});
  variants.all.push_back(
      {"loop", [job, r = job->Result(w)] { UpdateLoop(0, r->size(), job->a, r); }});
  variants.all.push_back({"eigen", [job, r = job->Result(w)] {
                            Array out = EigenArray(*r);
                            out -= kRate * (EigenArray(job->a) + kDecay * out);
                          }});
  variants.all.push_back({"tbb", [job, r = job->Result(w)] {
                            tbb::parallel_for(tbb::blocked_range<size_t>(0, r->size(), 4096),
                                              [&](const tbb::blocked_range<size_t>& range) {
                                                UpdateLoop(range.begin(), range.end(), job->a, r);
                                              });
                          }});
  for (const peers::PeerLibrary& library : libraries) {
    if (!library.scaled_sum) continue;
    variants.all.push_back({library.name, [job, r = job->Result(w), run = library.scaled_sum] {
                              run(static_cast<int64_t>(r->size()), -kRate, job->a.data(),
                                  1 - kRate * kDecay, r->data());
                            }});
  }
  variants.results_agree = [job] { return AllClose(job->results, 1e-5f); };
  return variants;
}

float SumLoop(const float* x, size_t count) {
  // Without reassociation a compiler may not vectorize one sum; sixteen it may.
  float sums[16] = {};
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (size_t lane = 0; lane < 16; ++lane) sums[lane] += x[i + lane];
  }
  float total = 0;
  for (; i < count; ++i) total += x[i];
  for (const float sum : sums) total += sum;
  return total;
}

Variants SumVariants(index_t n) {
  auto job = std::make_shared<Job>();
  job->a = RandomVector(n);
  const Vector zero(1);
  Variants variants;
  variants.all.push_back(
      {"ours", [job, r = job->Result(zero)] { (*r)[0] = ReduceAll<red::sum>(Flat(job->a)); }});
  variants.all.push_back(
      {"loop", [job, r = job->Result(zero)] { (*r)[0] = SumLoop(job->a.data(), job->a.size()); }});
  variants.all.push_back(
      {"eigen", [job, r = job->Result(zero)] { (*r)[0] = EigenArray(job->a).sum(); }});
  variants.all.push_back({"tbb", [job, r = job->Result(zero)] {
                            (*r)[0] = tbb::parallel_reduce(
                                tbb::blocked_range<size_t>(0, job->a.size(), 4096), 0.0f,
                                [&](const tbb::blocked_range<size_t>& range, float sum) {
                                  return sum + SumLoop(job->a.data() + range.begin(), range.size());
                                },
                                [](float x, float y) { return x + y; });
                          }});
  // Orders of summation differ.
  variants.results_agree = [job] { return AllClose(job->results, 1e-3f); };
  return variants;
}

// Some rows of the product of square matrices.
void ProductLoop(size_t begin, size_t end, size_t n, const float* __restrict a,
                 const float* __restrict b, float* __restrict c) {
  std::fill(c + begin * n, c + end * n, 0.0f);
  for (size_t i = begin; i < end; ++i) {
    for (size_t k = 0; k < n; ++k) {
      for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
}

Variants ProductVariants(index_t n, const std::vector<peers::PeerLibrary>& libraries) {
  auto job = std::make_shared<Job>();
  job->a = RandomVector(n * n);
  job->b = RandomVector(n * n);
  const Vector zeros(static_cast<size_t>(n * n));
  const auto view = [n](Vector& v) { return Tensor<cpu, 2>(v.data(), Shape2(n, n)); };
  const auto matrix = [n](Vector& v) { return Matrix(v.data(), n, n); };
  Variants variants;
  variants.all.push_back({"ours", [job, view, r = job->Result(zeros)] {
                            Tensor<cpu, 2> out = view(*r);
                            out = dot(view(job->a), view(job->b));
                          }});
  variants.all.push_back({"loop", [job, n, r = job->Result(zeros)] {
                            const auto rows = static_cast<size_t>(n);
                            ProductLoop(0, rows, rows, job->a.data(), job->b.data(), r->data());
                          }});
  variants.all.push_back({"eigen", [job, matrix, r = job->Result(zeros)] {
                            matrix(*r).noalias() = matrix(job->a) * matrix(job->b);
                          }});
  variants.all.push_back({"tbb", [job, n, r = job->Result(zeros)] {
                            const auto rows = static_cast<size_t>(n);
                            tbb::parallel_for(tbb::blocked_range<size_t>(0, rows, 16),
                                              [&](const tbb::blocked_range<size_t>& range) {
                                                ProductLoop(range.begin(), range.end(), rows,
                                                            job->a.data(), job->b.data(),
                                                            r->data());
                                              });
                          }});
  for (const peers::PeerLibrary& library : libraries) {
    if (!library.product) continue;
    variants.all.push_back({library.name, [job, n, r = job->Result(zeros), run = library.product] {
                              run(n, job->a.data(), job->b.data(), r->data());
                            }});
  }
  variants.results_agree = [job] { return AllClose(job->results, 1e-3f); };
  return variants;
}

void SoftmaxLoop(size_t rows, size_t columns, const float* x, float* y) {
  for (size_t row = 0; row < rows; ++row, x += columns, y += columns) {
    const float largest = *std::max_element(x, x + columns);
    float sum = 0;
    for (size_t i = 0; i < columns; ++i) sum += y[i] = std::exp(x[i] - largest);
    for (size_t i = 0; i < columns; ++i) y[i] /= sum;
  }
}

Variants SoftmaxVariants(index_t rows, index_t columns) {
  auto job = std::make_shared<Job>();
  job->a = RandomVector(rows * columns);
  const Vector zeros(job->a.size());
  Variants variants;
  variants.all.push_back({"ours", [job, rows, columns, r = job->Result(zeros)] {
                            const Shape<2> shape = Shape2(rows, columns);
                            Tensor<cpu, 2> out(r->data(), shape);
                            Softmax(out, Tensor<cpu, 2>(job->a.data(), shape));
                          }});
  variants.all.push_back({"loop", [job, rows, columns, r = job->Result(zeros)] {
                            SoftmaxLoop(static_cast<size_t>(rows), static_cast<size_t>(columns),
                                        job->a.data(), r->data());
                          }});
  variants.all.push_back({"eigen", [job, rows, columns, r = job->Result(zeros)] {
                            for (index_t row = 0; row < rows; ++row) {
                              const Array x(job->a.data() + row * columns, columns);
                              Array y(r->data() + row * columns, columns);
                              y = (x - x.maxCoeff()).exp();
                              y /= y.sum();
                            }
                          }});
  variants.all.push_back({"tbb", [job, rows, columns, r = job->Result(zeros)] {
                            const auto width = static_cast<size_t>(columns);
                            const tbb::blocked_range<size_t> every(0, static_cast<size_t>(rows), 8);
                            tbb::parallel_for(every, [&](const tbb::blocked_range<size_t>& range) {
                              SoftmaxLoop(range.size(), width,
                                          job->a.data() + range.begin() * width,
                                          r->data() + range.begin() * width);
                            });
                          }});
  variants.results_agree = [job] { return AllClose(job->results, 1e-5f); };
  return variants;
}

void AddJobs(const std::vector<peers::PeerLibrary>& libraries) {
  // A vector in the first cache, and one in the last.
  for (const index_t n : {index_t{4096}, index_t{1} << 20}) {
    const double bytes = 4.0 * static_cast<double>(n);
    AddCase({.name = "update/" + std::to_string(n), .bytes = 3 * bytes, .make = [n, libraries] {
               return UpdateVariants(n, libraries);
             }});
    AddCase({.name = "sum/" + std::to_string(n), .bytes = bytes, .make = [n] {
               return SumVariants(n);
             }});
  }
  // Three matrices in the first cache, and in the second.
  for (const index_t n : {64, 512}) {
    const std::string size = std::to_string(n);
    AddCase({.name = "gemm/" + size + "x" + size + "x" + size,
             .flops = 2.0 * static_cast<double>(n * n * n),
             .make = [n, libraries] { return ProductVariants(n, libraries); }});
  }
  // A batch of ImageNet's classes.
  AddCase({.name = "softmax/64x1000", .bytes = 8.0 * 64 * 1000, .make = [] {
             return SoftmaxVariants(64, 1000);
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const auto libraries = tessera::peers::FindPeerLibraries();
  for (const tessera::peers::PeerLibrary& library : libraries) {
    if (library.missing_because.empty()) continue;
    benchmark::AddCustomContext("missing " + library.name, library.missing_because);
  }
  tessera::AddJobs(libraries);
  tbb::task_arena one(1);
  return one.execute([&] { return tessera::benchmarking::RunAll(argc, argv); });
}
