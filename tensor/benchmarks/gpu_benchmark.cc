// Expressions on a GPU, compared with a copy of as many bytes on the device, and `dot` compared
// with cuBLAS. A copy runs at the device's bandwidth, so each ratio is the fraction of that
// bandwidth. Every run is waited for, including the peers'.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "tessera/base/error.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;
using Matrix = TensorContainer<gpu, 2, float>;
using Vector = TensorContainer<gpu, 1, float>;

// The matrices have 2^28 elements, far more than the caches.
constexpr index_t kRows = 1 << 14;
constexpr index_t kColumns = 1 << 14;
constexpr size_t kElements = size_t{kRows} * kColumns;

void Check(cudaError_t status) {
  if (status != cudaSuccess) throw FailedPrecondition(cudaGetErrorString(status));
}

/// A copy on the device that reads half of `moved` bytes and writes the other half.
class DeviceCopy {
 public:
  explicit DeviceCopy(size_t moved) : half_(moved / 2) {
    Check(cudaMalloc(&from_, half_));
    Check(cudaMalloc(&to_, half_));
    // Memory that was never written may not have physical pages yet.
    Check(cudaMemset(from_, 1, half_));
    Check(cudaMemset(to_, 2, half_));
  }
  ~DeviceCopy() {
    cudaFree(from_);
    cudaFree(to_);
  }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  void Run() {
    Check(cudaMemcpyAsync(to_, from_, half_, cudaMemcpyDeviceToDevice,
                          Stream<gpu>::GetStream(nullptr)));
    FallbackStream()->Wait();
  }

 private:
  size_t half_;
  void* from_ = nullptr;
  void* to_ = nullptr;
};

/// Returns a number in (-1, 1) for element i of `matrix`, which is 0 or 1. Neighbouring elements
/// differ. The number has 8 bits, so that sums of products are exact in double.
double Number(index_t i, int matrix) {
  const uint64_t mixed = (static_cast<uint64_t>(i) * 2 + static_cast<uint64_t>(matrix) + 1) *
                         uint64_t{0x9E3779B97F4A7C15};
  return (static_cast<double>(mixed >> 56) - 127.5) / 128;
}
/// Fills a matrix with the numbers of Number.
void FillWithNumbers(const Matrix& m, int matrix) {
  TensorContainer<cpu, 2, float> host(m.shape_);
  for (index_t y = 0; y < m.shape_[0]; ++y) {
    for (index_t x = 0; x < m.shape_[1]; ++x) {
      host[y][x] = static_cast<float>(Number(y * m.shape_[1] + x, matrix));
    }
  }
  Copy(m, host);
  FallbackStream()->Wait();
}

/// Returns whether result(i) equals expected(i), to within `tolerance`, for some elements i that
/// are distributed over all of them. Prints an element that does not.
template <int N, typename Expected>
bool Agree(const Tensor<gpu, N, float>& result, double tolerance, const Expected& expected) {
  TensorContainer<cpu, N, float> host(result.shape_);
  Copy(host, result, FallbackStream());
  FallbackStream()->Wait();
  const Shape<2> shape = result.shape_.FlatTo2D();
  for (index_t k = 0; k < 1009; ++k) {
    const index_t i = (result.shape_.Size() - 1) / 1008 * k;
    const index_t y = i / shape[1], x = i % shape[1];
    const double actual = host.dptr_[y * host.stride_ + x];
    const double wanted = expected(y, x);
    if (!(std::abs(actual - wanted) <= tolerance)) {
      std::cerr << "gpu_benchmark: element (" << y << ", " << x << ") is " << actual
                << ", expected " << wanted << "\n";
      return false;
    }
  }
  return true;
}

struct Data {
  Matrix a{Shape2(kRows, kColumns)}, b{Shape2(kRows, kColumns)}, r{Shape2(kRows, kColumns)};
  Vector row{Shape1(kColumns)};

  Data() {
    FillWithNumbers(a, 0);
    FillWithNumbers(b, 1);
    r = 99.0f;
    row = 99.0f;
  }
  static double A(index_t y, index_t x) { return Number(y * kColumns + x, 0); }
  static double B(index_t y, index_t x) { return Number(y * kColumns + x, 1); }
};

/// Adds a case of `work` on Data, compared with a copy of so many bytes for each element.
/// agrees(data) returns whether the result is right.
template <typename Work, typename Agrees>
void AddExpression(const std::string& name, size_t bytes_an_element, double bound, Work work,
                   Agrees agrees) {
  AddCase({.name = name, .bounds = {{.peer = "copy", .at_least = bound}}, .make = [=] {
             auto data = std::make_shared<Data>();
             auto copy = std::make_shared<DeviceCopy>(bytes_an_element * kElements);
             return Variants{.all = {{"ours",
                                      [data, work] {
                                        work(data.get());
                                        FallbackStream()->Wait();
                                      }},
                                     {"copy", [copy] { copy->Run(); }}},
                             .results_agree = [data, agrees] { return agrees(*data); }};
           }});
}
/// Adds a case in which element (y, x) of Data's r must be expected(y, x).
template <typename Work, typename Expected>
void AddElementwise(const std::string& name, size_t bytes_an_element, double bound, Work work,
                    Expected expected) {
  AddExpression(name, bytes_an_element, bound, work,
                [expected](const Data& d) { return Agree(d.r, 1e-6, expected); });
}
/// Adds a case of sums of a's rows, or columns, in Data's row.
template <typename Work>
void AddSums(const std::string& name, bool of_rows, Work work) {
  AddExpression(name, 4, 0.85, work, [of_rows](const Data& d) {
    return Agree(d.row, 1e-2, [of_rows](index_t, index_t i) {
      double sum = 0;
      for (index_t k = 0; k < kColumns; ++k) sum += of_rows ? Data::A(i, k) : Data::A(k, i);
      return sum;
    });
  });
}

/// The number of products that are enqueued before a wait, so that the GPU is busy while it is
/// timed.
constexpr int kProductsPerWait = 10;

void AddDot(index_t n) {
  AddCase({.name = "dot/" + std::to_string(n),
           .bounds = {{.peer = "cublas", .at_least = 0.99}},
           .flops = 2.0 * kProductsPerWait * static_cast<double>(n) * static_cast<double>(n) *
                    static_cast<double>(n),
           .make = [n] {
             struct Operands {
               Matrix a, b, c, by_cublas;
               explicit Operands(index_t size)
                   : a(Shape2(size, size)), b(a.shape_), c(a.shape_), by_cublas(a.shape_) {
                 FillWithNumbers(a, 0);
                 FillWithNumbers(b, 1);
                 c = 99.0f;
                 by_cublas = 99.0f;
               }
             };
             auto d = std::make_shared<Operands>(n);
             const auto ours = [d] {
               for (int i = 0; i < kProductsPerWait; ++i) d->c = dot(d->a, d->b);
               FallbackStream()->Wait();
             };
             const auto cublas = [d, n] {
               const float one = 1, zero = 0;
               const int size = static_cast<int>(n);
               for (int i = 0; i < kProductsPerWait; ++i) {
                 // cuBLAS's columns are Tessera's rows, so the operands are exchanged.
                 const cublasStatus_t status =
                     cublasSgemm(Stream<gpu>::GetBlasHandle(nullptr), CUBLAS_OP_N, CUBLAS_OP_N,
                                 size, size, size, &one, d->b.dptr_, static_cast<int>(d->b.stride_),
                                 d->a.dptr_, static_cast<int>(d->a.stride_), &zero,
                                 d->by_cublas.dptr_, static_cast<int>(d->by_cublas.stride_));
                 if (status != CUBLAS_STATUS_SUCCESS) {
                   throw FailedPrecondition("cublasSgemm failed");
                 }
               }
               FallbackStream()->Wait();
             };
             const auto agree = [d, n] {
               const auto expected = [n](index_t y, index_t x) {
                 double sum = 0;
                 for (index_t k = 0; k < n; ++k) sum += Number(y * n + k, 0) * Number(k * n + x, 1);
                 return sum;
               };
               return Agree(d->c, 1e-2, expected) && Agree(d->by_cublas, 1e-2, expected);
             };
             return Variants{.all = {{"ours", ours}, {"cublas", cublas}}, .results_agree = agree};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  SetFallbackStream(NewStream<gpu>());
  AddElementwise(
      "elementwise/add", 12, 0.92, [](Data* d) { d->r = d->a + d->b; },
      [](index_t y, index_t x) { return Data::A(y, x) + Data::B(y, x); });
  AddElementwise(
      "elementwise/five_operations", 12, 0.97,
      [](Data* d) { d->r = (d->a * 2.0f + d->b) * (d->a - d->b) + 1.0f; },
      [](index_t y, index_t x) {
        const double a = Data::A(y, x), b = Data::B(y, x);
        return (a * 2 + b) * (a - b) + 1;
      });
  AddSums("sum/rows", true, [](Data* d) { d->row = sum<1>(d->a); });
  AddSums("sum/columns", false, [](Data* d) { d->row = sum<0>(d->a); });
  AddSums("sum_rows", false, [](Data* d) { d->row = sum_rows(d->a); });
  AddElementwise(
      "transpose", 8, 0.75, [](Data* d) { d->r = transpose(d->a, Shape2(1, 0)); },
      [](index_t y, index_t x) { return Data::A(x, y); });
  for (const index_t n : {1024, 4096, 8192}) AddDot(n);
  return benchmarking::RunAll(argc, argv);
}
