// The six cases of Devectorize.jl on doubles, on one thread. Each compares Tessera with a
// hand-written loop, plain Eigen and eager evaluation. Eager evaluation computes every operation by
// Eigen into an existing temporary; a case with one operation is then plain Eigen. Devectorize's
// cases by column are by row here, so that both run along the contiguous axis.
//
// The bound against eager evaluation is the ratio of the bytes that the two move. It is checked for
// every case, although a function costs more than the memory that it saves. Functions take twice as
// long on AVX2, so "complex" has a measured bound there. Devectorize's published gain is printed
// beside the bound; Devectorize allocated its temporaries anew each time.
//
// Each case also runs on two threads at the largest size. Its peers are one thread, and two threads
// that each run the hand-written loop over half of the rows: as much as memory gives to two.
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "tbb/parallel_invoke.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Bound;
using benchmarking::Variants;
using tensor_internal::InstructionSet;
using tensor_internal::UsedInstructionSet;
using Matrix = Tensor<cpu, 2, double>;
using Vector = Tensor<cpu, 1, double>;
using Map = Eigen::Map<Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using RowMap = Eigen::Map<Eigen::Array<double, 1, Eigen::Dynamic>>;
using ColumnMap = Eigen::Map<Eigen::Array<double, Eigen::Dynamic, 1>>;

/// The input matrices, the results of each variant, and the temporaries of eager evaluation.
struct Data {
  index_t rows, n;
  TensorContainer<cpu, 2, double> a, b, c, r, t, u, v;
  TensorContainer<cpu, 1, double> row;

  Data(index_t height, index_t width, bool with_temporaries)
      : rows(height), n(width), row(Shape1(width), 0.0) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    for (auto* m : {&a, &b, &c, &r, &t, &u, &v}) {
      if (m == &t && !with_temporaries) break;
      m->Resize(Shape2(rows, n));
      for (index_t i = 0; i < size(); ++i) m->dptr_[i] = uniform(random);
    }
  }
  index_t size() const { return rows * n; }
  static Map View(Matrix& m) { return Map(m.dptr_, m.shape_[0], m.shape_[1]); }
};

/// One case with the functions of its variants. Each stores its result in data->r or in data->row,
/// or returns a number. `result` reads it for the comparison of results.
struct Work {
  std::string name;
  double doubles_moved;        // for each element, by Tessera
  double doubles_moved_eager;  // for each element, by eager evaluation
  double operations;           // for each element; a function counts as one
  double published;            // Devectorize's published gain over eager evaluation
  std::function<double(Data*)> ours, loop, eigen, eager;
  double eager_bound_on_avx2 = 0;  // 0 for the ratio of the doubles moved
};

// Returns a sum that represents an array in the comparison of results.
double Checksum(const double* values, index_t count) {
  double sum = 0;
  for (index_t i = 0; i < count; ++i) sum += values[i] * static_cast<double>(i % 7 + 1);
  return sum;
}

double Simple(Data* d) {
  d->r = square(d->a - d->b) + d->c;
  return d->r.dptr_[0];
}
double SimpleLoop(Data* d) {
  const double* __restrict a = d->a.dptr_, * __restrict b = d->b.dptr_, * __restrict c = d->c.dptr_;
  double* __restrict r = d->r.dptr_;
  for (index_t i = 0; i < d->size(); ++i) {
    const double difference = a[i] - b[i];
    r[i] = difference * difference + c[i];
  }
  return r[0];
}
double SimpleEigen(Data* d) {
  Data::View(d->r) = (Data::View(d->a) - Data::View(d->b)).square() + Data::View(d->c);
  return d->r.dptr_[0];
}
double SimpleEager(Data* d) {
  Map t = Data::View(d->t), u = Data::View(d->u), r = Data::View(d->r);
  t = Data::View(d->a) - Data::View(d->b);
  u = t.square();
  r = u + Data::View(d->c);
  return d->r.dptr_[0];
}

double Complex(Data* d) {
  d->r = log(exp(square(d->a - d->b)) + exp(d->a + d->b)) - d->c * log(d->c);
  return d->r.dptr_[0];
}
double ComplexLoop(Data* d) {
  const double* __restrict a = d->a.dptr_, * __restrict b = d->b.dptr_, * __restrict c = d->c.dptr_;
  double* __restrict r = d->r.dptr_;
  for (index_t i = 0; i < d->size(); ++i) {
    const double difference = a[i] - b[i];
    r[i] =
        std::log(std::exp(difference * difference) + std::exp(a[i] + b[i])) - c[i] * std::log(c[i]);
  }
  return r[0];
}
double ComplexEigen(Data* d) {
  const Map a = Data::View(d->a), b = Data::View(d->b), c = Data::View(d->c);
  Data::View(d->r) = ((a - b).square().exp() + (a + b).exp()).log() - c * c.log();
  return d->r.dptr_[0];
}
double ComplexEager(Data* d) {
  const Map a = Data::View(d->a), b = Data::View(d->b), c = Data::View(d->c);
  Map t = Data::View(d->t), u = Data::View(d->u), v = Data::View(d->v), r = Data::View(d->r);
  t = a - b;
  u = t.square();
  t = u.exp();
  u = a + b;
  v = u.exp();
  u = t + v;
  t = u.log();
  u = c.log();
  v = c * u;
  r = t - v;
  return d->r.dptr_[0];
}

double ShiftDot(Data* d) { return sum((d->a - mean(d->a)) * (d->b - mean(d->b))); }
double ShiftDotLoop(Data* d) {
  const double* __restrict a = d->a.dptr_, * __restrict b = d->b.dptr_;
  const double size = static_cast<double>(d->size());
  double mean_a = 0, mean_b = 0, total = 0;
  for (index_t i = 0; i < d->size(); ++i) mean_a += a[i];
  for (index_t i = 0; i < d->size(); ++i) mean_b += b[i];
  mean_a /= size;
  mean_b /= size;
  for (index_t i = 0; i < d->size(); ++i) total += (a[i] - mean_a) * (b[i] - mean_b);
  return total;
}
double ShiftDotEigen(Data* d) {
  const Map a = Data::View(d->a), b = Data::View(d->b);
  return ((a - a.mean()) * (b - b.mean())).sum();
}
double ShiftDotEager(Data* d) {
  const Map a = Data::View(d->a), b = Data::View(d->b);
  Map t = Data::View(d->t), u = Data::View(d->u), v = Data::View(d->v);
  const double mean_a = a.mean(), mean_b = b.mean();
  t = a - mean_a;
  u = b - mean_b;
  v = t * u;
  return v.sum();
}

double SumContiguous(Data* d) {
  d->row = sum<1>(d->a);
  return d->row.dptr_[0];
}
double SumContiguousLoop(Data* d) {
  const double* __restrict a = d->a.dptr_;
  double* __restrict row = d->row.dptr_;
  for (index_t y = 0; y < d->rows; ++y) {
    double total = 0;
    for (index_t x = 0; x < d->n; ++x) total += a[y * d->n + x];
    row[y] = total;
  }
  return row[0];
}
double SumContiguousEigen(Data* d) {
  ColumnMap(d->row.dptr_, d->n) = Data::View(d->a).rowwise().sum();
  return d->row.dptr_[0];
}

double SumStrided(Data* d) {
  d->row = sum<0>(d->a);
  return d->row.dptr_[0];
}
double SumStridedLoop(Data* d) {
  const double* __restrict a = d->a.dptr_;
  double* __restrict row = d->row.dptr_;
  for (index_t x = 0; x < d->n; ++x) row[x] = 0;
  for (index_t y = 0; y < d->rows; ++y) {
    for (index_t x = 0; x < d->n; ++x) row[x] += a[y * d->n + x];
  }
  return row[0];
}
double SumStridedEigen(Data* d) {
  RowMap(d->row.dptr_, d->n) = Data::View(d->a).colwise().sum();
  return d->row.dptr_[0];
}

double Distance(Data* d) {
  d->row = sqrt(sum<1>(square(d->a - d->b)));
  return d->row.dptr_[0];
}
double DistanceLoop(Data* d) {
  const double* __restrict a = d->a.dptr_, * __restrict b = d->b.dptr_;
  double* __restrict row = d->row.dptr_;
  for (index_t y = 0; y < d->rows; ++y) {
    double total = 0;
    for (index_t x = 0; x < d->n; ++x) {
      const double difference = a[y * d->n + x] - b[y * d->n + x];
      total += difference * difference;
    }
    row[y] = std::sqrt(total);
  }
  return row[0];
}
double DistanceEigen(Data* d) {
  ColumnMap(d->row.dptr_, d->n) =
      (Data::View(d->a) - Data::View(d->b)).square().rowwise().sum().sqrt();
  return d->row.dptr_[0];
}
double DistanceEager(Data* d) {
  Map t = Data::View(d->t), u = Data::View(d->u);
  ColumnMap row(d->row.dptr_, d->n);
  t = Data::View(d->a) - Data::View(d->b);
  u = t.square();
  row = u.rowwise().sum();
  row = row.sqrt();
  return d->row.dptr_[0];
}

const std::vector<Work>& AllWork() {
  static const std::vector<Work> all = {
      {"simple", 4, 8, 3, 2.60, Simple, SimpleLoop, SimpleEigen, SimpleEager},
      {"complex", 4, 23, 10, 2.46, Complex, ComplexLoop, ComplexEigen, ComplexEager, 2.6},
      {"shift_dot", 4, 10, 6, 8.32, ShiftDot, ShiftDotLoop, ShiftDotEigen, ShiftDotEager},
      {"sum_contiguous", 1, 1, 1, 1.33, SumContiguous, SumContiguousLoop, SumContiguousEigen,
       SumContiguousEigen},
      {"sum_strided", 1, 1, 1, 4.27, SumStrided, SumStridedLoop, SumStridedEigen, SumStridedEigen},
      {"distance", 2, 6, 3, 5.65, Distance, DistanceLoop, DistanceEigen, DistanceEager},
  };
  return all;
}

void AddWork(const Work& work, index_t n) {
  const auto size = static_cast<double>(n * n);
  AddCase({.name = work.name + "/" + std::to_string(n),
           .bounds = {{.peer = "loop", .at_least = 0.98},
                      {.peer = "eager",
                       .at_least = work.doubles_moved_eager / work.doubles_moved,
                       .at_least_on_avx2 = work.eager_bound_on_avx2,
                       .published = work.published}},
           .bytes = work.doubles_moved * size * sizeof(double),
           .flops = work.operations * size,
           .make = [work, n] {
             auto data = std::make_shared<Data>(n, n, true);
             auto checksums = std::make_shared<std::vector<double>>();
             Variants variants;
             const auto add = [&](const std::string& name,
                                  const std::function<double(Data*)>& run) {
               // Each variant's result is checked once before it is timed.
               const double value = run(data.get());
               checksums->push_back(value + Checksum(data->r.dptr_, data->size()) +
                                    Checksum(data->row.dptr_, n));
               variants.all.push_back(
                   {name, [run, data] { benchmark::DoNotOptimize(run(data.get())); }});
             };
             add("ours", work.ours);
             add("loop", work.loop);
             add("eigen", work.eigen);
             add("eager", work.eager);
             variants.results_agree = [checksums] {
               for (const double value : *checksums) {
                 const double first = checksums->front();
                 if (!(std::abs(value - first) <= 1e-9 * std::abs(first) + 1e-9)) return false;
               }
               return true;
             };
             return variants;
           }});
}

void AddTwoThreads(const Work& work, index_t n) {
  const auto size = static_cast<double>(n * n);
  AddCase({.name = work.name + "_two_threads/" + std::to_string(n),
           .bounds = {{.peer = "one_thread", .at_least = 1.7}, {.peer = "loop", .at_least = 0.98}},
           .bytes = work.doubles_moved * size * sizeof(double),
           .flops = work.operations * size,
           .make = [work, n] {
             auto data = std::make_shared<Data>(n, n, false);
             auto upper = std::make_shared<Data>(n / 2, n, false);
             auto lower = std::make_shared<Data>(n - n / 2, n, false);
             auto two = std::make_shared<tbb::task_arena>(2);
             const auto run = [](const std::function<double(Data*)>& f, Data* d) {
               benchmark::DoNotOptimize(f(d));
             };
             return Variants{
                 .all = {{"ours", [=] { two->execute([&] { run(work.ours, data.get()); }); }},
                         {"one_thread", [=] { run(work.ours, data.get()); }},
                         {"loop", [=] {
                            two->execute([&] {
                              tbb::parallel_invoke([&] { run(work.loop, upper.get()); },
                                                   [&] { run(work.loop, lower.get()); });
                            });
                          }}}};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  // Four matrices fit in the L1 cache, in the L2 cache, in the last-level cache, and in none.
  for (const index_t n : {32, 128, 512, 4096}) {
    for (const Work& work : AllWork()) AddWork(work, n);
  }
  for (const Work& work : AllWork()) AddTwoThreads(work, 4096);
  tbb::task_arena one(1);
  const auto bounds = UsedInstructionSet() == InstructionSet::kAvx512
                          ? benchmarking::BoundsFor::kAvx512
                          : benchmarking::BoundsFor::kAvx2;
  return one.execute([&] { return benchmarking::RunAll(argc, argv, bounds); });
}
