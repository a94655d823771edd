#ifndef TESSERA_OPS_TESTING_TEST_DEVICE_H_
#define TESSERA_OPS_TESTING_TEST_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/philox.h"

namespace tessera::ops_testing {

using Bytes = std::vector<std::byte>;

/// The memory and stream of the device that operators are tried on.
class TestDevice {
 public:
  virtual ~TestDevice() = default;

  virtual Device device() const = 0;
  /// What OpContext::stream holds.
  virtual void* stream() = 0;
  /// Memory aligned to 64 bytes.
  virtual void* Allocate(int64_t size_bytes) = 0;
  virtual void Free(void* memory) = 0;
  /// Copies that are done when the call returns; Download first waits for the stream.
  virtual void Upload(void* to, const void* from, int64_t size_bytes) = 0;
  virtual void Download(void* to, const void* from, int64_t size_bytes) = 0;
};

std::unique_ptr<TestDevice> MakeCpuTestDevice();

/// The device that a test binary was linked for: defined by cpu_test_device.cc and by
/// cuda_test_device.cc.
std::unique_ptr<TestDevice> MakeTestDevice();

/// Device memory between two zones that nobody may write.
class GuardedBuffer {
 public:
  /// `misalignment_bytes` moves the beginning away from its alignment to 64 bytes. An empty buffer
  /// has no memory, as an empty array has none.
  GuardedBuffer(TestDevice* device, const Bytes& contents, int64_t misalignment_bytes = 0);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  void* data() const;
  Bytes Read() const;
  /// Whether both zones still hold what they held.
  bool GuardsIntact() const;

 private:
  TestDevice* const device_;
  const int64_t size_bytes_;
  const int64_t offset_;
  Bytes initial_;  // the whole region, zones included
  std::byte* memory_;
};

/// Workspace between guard zones, filled with NaN before use; random numbers from a fixed seed.
class TestResource final : public Resource {
 public:
  TestResource(TestDevice* device, ResourceRequest request) : device_(device), request_(request) {}

  ResourceRequest request() const override { return request_; }
  Device device() const override { return device_->device(); }
  void* GetSpaceBytes(int64_t size_bytes) override;
  PhiloxState* GetRandomState() override;
  /// How often space was asked for; an operation may do so once.
  int requests() const { return requests_; }
  bool GuardsIntact() const { return space_ == nullptr || space_->GuardsIntact(); }

 private:
  TestDevice* const device_;
  const ResourceRequest request_;
  int requests_ = 0;
  std::unique_ptr<GuardedBuffer> space_;
  PhiloxState random_{.seed = 20160914};
};

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_TEST_DEVICE_H_
