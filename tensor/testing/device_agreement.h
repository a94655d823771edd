#ifndef TESSERA_TENSOR_TESTING_DEVICE_AGREEMENT_H_
#define TESSERA_TENSOR_TESTING_DEVICE_AGREEMENT_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/tensor.h"

namespace tessera {

/// One device's side of a comparison. Its arrays hold the same numbers on either device.
template <typename Device>
class Side {
 public:
  Side() : stream_(NewStream<Device>()) {}
  ~Side() {
    // CUDA refuses to free memory after a kernel has failed.
    try {
      for (const auto& free : frees_) free();
      DeleteStream(stream_);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  /// Returns a tensor of numbers in [low, high] that the seed determines. If `pad` is true, rows
  /// are padded.
  template <typename T, int N>
  Tensor<Device, N, T> Numbers(const Shape<N>& shape, uint32_t seed, double low = -1,
                               double high = 1, bool pad = true) {
    Tensor<cpu, N, T> host = NewTensor<cpu>(shape, T(0), false);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(low, high);
    for (index_t i = 0; i < shape.Size(); ++i) host.dptr_[i] = static_cast<T>(uniform(random));
    Tensor<Device, N, T> tensor = Empty<T>(shape, pad);
    Copy(tensor, host);
    stream_->Wait();
    FreeSpace(&host);
    return tensor;
  }

  template <typename T, int N>
  Tensor<Device, N, T> Empty(const Shape<N>& shape, bool pad = true) {
    Tensor<Device, N, T> tensor = NewTensor<Device>(shape, T(0), pad, stream_);
    frees_.push_back([tensor]() mutable { FreeSpace(&tensor); });
    return tensor;
  }

  template <int N, typename T>
  std::vector<double> Values(const Tensor<Device, N, T>& tensor) {
    Tensor<cpu, N, T> host = NewTensor<cpu>(tensor.shape_, T(0), false);
    Copy(host, tensor);
    stream_->Wait();
    std::vector<double> values;
    for (index_t i = 0; i < host.shape_.Size(); ++i) {
      values.push_back(static_cast<double>(host.dptr_[i]));
    }
    FreeSpace(&host);
    return values;
  }

  Stream<Device>* stream() const { return stream_; }

 private:
  Stream<Device>* stream_;
  std::vector<std::function<void()>> frees_;
};

/// Calls compute(&side), which returns a tensor, on the CPU and on the GPU, and compares the
/// results. Elements may differ by at most `tolerance` times the larger of 1 and the magnitude of
/// the CPU's element.
template <typename Compute>
void ExpectDevicesAgree(double tolerance, const Compute& compute) {
  Side<cpu> on_cpu;
  Side<gpu> on_gpu;
  const std::vector<double> expected = on_cpu.Values(compute(&on_cpu));
  const std::vector<double> actual = on_gpu.Values(compute(&on_gpu));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (actual[i] == expected[i]) continue;  // infinities have no difference
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(actual[i])) << "element " << i << " is " << actual[i];
      continue;
    }
    ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i << ": " << actual[i] << " on the GPU, " << expected[i] << " on the CPU";
  }
}

/// Returns an expression's value in the memory of the same side.
template <typename Device, typename E>
auto ValueOf(Side<Device>* side, const E& e) {
  auto value = side->template Empty<typename E::value_type>(e.shape());
  value = e;
  return value;
}

}  // namespace tessera

#endif  // TESSERA_TENSOR_TESTING_DEVICE_AGREEMENT_H_
