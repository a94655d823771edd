#ifndef TESSERA_OPS_TESTING_TEST_DEVICE_H_
#define TESSERA_OPS_TESTING_TEST_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/philox.h"

namespace tessera::ops_testing {

using Bytes = std::vector<std::byte>;

/// The memory and stream of the device that operators are tested on.
class TestDevice {
 public:
  virtual ~TestDevice() = default;

  virtual Device device() const = 0;
  /// Returns the value of OpContext::stream.
  virtual void* stream() = 0;
  /// Returns memory aligned to 64 bytes.
  virtual void* Allocate(int64_t size_bytes) = 0;
  virtual void Free(void* memory) = 0;
  /// Copy, and return when the copy is made. Download first waits for the stream.
  virtual void Upload(void* to, const void* from, int64_t size_bytes) = 0;
  virtual void Download(void* to, const void* from, int64_t size_bytes) = 0;
  /// Returns the names of the operators that are not implemented on the device.
  virtual std::set<std::string> operators_without_code() const { return {}; }
};

std::unique_ptr<TestDevice> MakeCpuTestDevice();

/// Returns the device that a test binary was linked for. cpu_test_device.cc and cuda_test_device.cc
/// define it.
std::unique_ptr<TestDevice> MakeTestDevice();

/// Device memory between two zones that must not be written.
class GuardedBuffer {
 public:
  /// Allocates a buffer that begins `misalignment_bytes` after a 64-byte boundary. An empty buffer
  /// has no memory, as an empty array has none.
  GuardedBuffer(TestDevice* device, const Bytes& contents, int64_t misalignment_bytes = 0);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  void* data() const;
  Bytes Read() const;
  /// Returns whether both zones are unchanged.
  bool GuardsIntact() const;

 private:
  TestDevice* const device_;
  const int64_t size_bytes_;
  const int64_t offset_;
  Bytes initial_;  // the whole region, including the zones
  std::byte* memory_;
};

/// Workspace between guard zones, filled with NaN before use, and random numbers from a constant
/// seed.
class TestResource final : public Resource {
 public:
  TestResource(TestDevice* device, ResourceRequest request) : device_(device), request_(request) {}

  ResourceRequest request() const override { return request_; }
  Device device() const override { return device_->device(); }
  void* GetSpaceBytes(int64_t size_bytes) override;
  PhiloxState* GetRandomState() override;
  /// Returns the number of requests for workspace; an operation may make one.
  int requests() const { return requests_; }
  /// Returns the size of the last workspace.
  int64_t space_bytes() const { return space_bytes_; }
  bool GuardsIntact() const { return space_ == nullptr || space_->GuardsIntact(); }

 private:
  TestDevice* const device_;
  const ResourceRequest request_;
  int requests_ = 0;
  int64_t space_bytes_ = 0;
  std::unique_ptr<GuardedBuffer> space_;
  PhiloxState random_{.seed = 20160914};
};

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_TEST_DEVICE_H_
