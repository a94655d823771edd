// Expressions on a GPU beside a copy that moves as many bytes on the device, and `dot` beside
// cuBLAS called directly. What copies reach is the device's bandwidth, so that each ratio is the
// fraction of it. Every run is waited for, those of the peers as well.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
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

// 2^28 elements, far past the caches.
constexpr index_t kRows = 1 << 14;
constexpr index_t kColumns = 1 << 14;
constexpr size_t kElements = size_t{kRows} * kColumns;

void Check(cudaError_t status) {
  if (status != cudaSuccess) throw FailedPrecondition(cudaGetErrorString(status));
}

/// Copies on the device that read half of `moved` bytes and write the other half.
class DeviceCopy {
 public:
  explicit DeviceCopy(size_t moved) : half_(moved / 2) {
    Check(cudaMalloc(&from_, half_));
    Check(cudaMalloc(&to_, half_));
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

struct Data {
  Matrix a{Shape2(kRows, kColumns)}, b{Shape2(kRows, kColumns)}, r{Shape2(kRows, kColumns)};
  Vector row{Shape1(kColumns)};

  Data() {
    a = 0.5f;
    b = 0.25f;
  }
};

/// `work` on Data beside the copy of so many bytes for each element.
template <typename Work>
void AddExpression(const std::string& name, size_t bytes_an_element, double bound, Work work) {
  AddCase({.name = name, .bounds = {{.peer = "copy", .at_least = bound}}, .make = [=] {
             auto data = std::make_shared<Data>();
             auto copy = std::make_shared<DeviceCopy>(bytes_an_element * kElements);
             return Variants{.all = {{"ours",
                                      [data, work] {
                                        work(data.get());
                                        FallbackStream()->Wait();
                                      }},
                                     {"copy", [copy] { copy->Run(); }}}};
           }});
}

void AddDot(index_t n) {
  AddCase({.name = "dot/" + std::to_string(n),
           .bounds = {{.peer = "cublas", .at_least = 0.99}},
           .flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n),
           .make = [n] {
             struct Operands {
               Matrix a, b, c;
               explicit Operands(index_t size) : a(Shape2(size, size)), b(a.shape_), c(a.shape_) {
                 a = 0.5f;
                 b = 0.25f;
               }
             };
             auto d = std::make_shared<Operands>(n);
             const auto ours = [d] {
               d->c = dot(d->a, d->b);
               FallbackStream()->Wait();
             };
             const auto cublas = [d, n] {
               const float one = 1, zero = 0;
               const int size = static_cast<int>(n);
               // Its columns are our rows, so that the operands change places.
               const cublasStatus_t status =
                   cublasSgemm(Stream<gpu>::GetBlasHandle(nullptr), CUBLAS_OP_N, CUBLAS_OP_N, size,
                               size, size, &one, d->b.dptr_, static_cast<int>(d->b.stride_),
                               d->a.dptr_, static_cast<int>(d->a.stride_), &zero, d->c.dptr_,
                               static_cast<int>(d->c.stride_));
               if (status != CUBLAS_STATUS_SUCCESS) throw FailedPrecondition("cublasSgemm failed");
               FallbackStream()->Wait();
             };
             return Variants{.all = {{"ours", ours}, {"cublas", cublas}}};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  SetFallbackStream(NewStream<gpu>());
  AddExpression("elementwise/add", 12, 0.92, [](Data* d) { d->r = d->a + d->b; });
  AddExpression("elementwise/five_operations", 12, 0.97,
                [](Data* d) { d->r = (d->a * 2.0f + d->b) * (d->a - d->b) + 1.0f; });
  AddExpression("sum/rows", 4, 0.85, [](Data* d) { d->row = sum<1>(d->a); });
  AddExpression("sum/columns", 4, 0.85, [](Data* d) { d->row = sum<0>(d->a); });
  AddExpression("transpose", 8, 0.75, [](Data* d) { d->r = transpose(d->a, Shape2(1, 0)); });
  for (const index_t n : {1024, 4096, 8192}) AddDot(n);
  return benchmarking::RunAll(argc, argv);
}
