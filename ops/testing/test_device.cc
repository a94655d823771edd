#include "tessera/ops/testing/test_device.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "tessera/base/error.h"

namespace tessera::ops_testing {
namespace {

constexpr int64_t kGuardBytes = 256;
constexpr std::byte kGuard{0xA5};
// A NaN in every floating-point type.
constexpr std::byte kUnset{0xFF};

class CpuTestDevice final : public TestDevice {
 public:
  Device device() const override { return Device::Cpu(); }
  void* stream() override { return nullptr; }
  void* Allocate(int64_t size_bytes) override {
    return ::operator new (static_cast<size_t>(size_bytes), std::align_val_t{64});
  }
  void Free(void* memory) override { ::operator delete (memory, std::align_val_t{64}); }
  void Upload(void* to, const void* from, int64_t size_bytes) override {
    std::memcpy(to, from, static_cast<size_t>(size_bytes));
  }
  void Download(void* to, const void* from, int64_t size_bytes) override {
    std::memcpy(to, from, static_cast<size_t>(size_bytes));
  }
};

}  // namespace

std::unique_ptr<TestDevice> MakeCpuTestDevice() { return std::make_unique<CpuTestDevice>(); }

GuardedBuffer::GuardedBuffer(TestDevice* device, const Bytes& contents, int64_t misalignment_bytes)
    : device_(device),
      size_bytes_(static_cast<int64_t>(contents.size())),
      offset_(kGuardBytes + misalignment_bytes),
      initial_(static_cast<size_t>(offset_ + size_bytes_ + kGuardBytes), kGuard),
      memory_(static_cast<std::byte*>(device->Allocate(static_cast<int64_t>(initial_.size())))) {
  std::copy(contents.begin(), contents.end(), initial_.begin() + offset_);
  device_->Upload(memory_, initial_.data(), static_cast<int64_t>(initial_.size()));
}

GuardedBuffer::~GuardedBuffer() { device_->Free(memory_); }

void* GuardedBuffer::data() const { return size_bytes_ == 0 ? nullptr : memory_ + offset_; }

Bytes GuardedBuffer::Read() const {
  Bytes contents(static_cast<size_t>(size_bytes_));
  if (size_bytes_ > 0) device_->Download(contents.data(), memory_ + offset_, size_bytes_);
  return contents;
}

bool GuardedBuffer::GuardsIntact() const {
  Bytes now(initial_.size());
  device_->Download(now.data(), memory_, static_cast<int64_t>(now.size()));
  return std::equal(now.begin(), now.begin() + offset_, initial_.begin()) &&
         std::equal(now.begin() + offset_ + size_bytes_, now.end(),
                    initial_.begin() + offset_ + size_bytes_);
}

void* TestResource::GetSpaceBytes(int64_t size_bytes) {
  if (request_.type != ResourceRequest::Type::kTempSpace) {
    throw FailedPrecondition("Resource::GetSpaceBytes: the resource is no workspace");
  }
  ++requests_;
  space_bytes_ = size_bytes;
  space_ = std::make_unique<GuardedBuffer>(device_, Bytes(static_cast<size_t>(size_bytes), kUnset));
  return space_->data();
}

PhiloxState* TestResource::GetRandomState() {
  if (request_.type != ResourceRequest::Type::kRandom) {
    throw FailedPrecondition("Resource::GetRandomState: the resource is no random generator");
  }
  return &random_;
}

}  // namespace tessera::ops_testing
