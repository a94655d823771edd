#include <new>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ndarray/memory/array_body.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera {

NDArray::Chunk::Chunk(int64_t size_bytes, Device device, bool delay_alloc, std::string_view tag)
    : size_bytes_(size_bytes),
      device_(device),
      tag_(tag),
      is_written_elsewhere_(device.type == DeviceType::kCpuShared) {
  if (!delay_alloc || device.type == DeviceType::kCpuShared) Data();
  try {
    first_ = {Engine::Get(), Engine::Get()->NewVariable(tag_), nullptr};
  } catch (...) {
    Storage::Get()->Free(handle_);
    throw;
  }
}

NDArray::Chunk::Chunk(void* external, int64_t size_bytes, Device device,
                      std::shared_ptr<void> owner)
    : size_bytes_(size_bytes),
      device_(device),
      tag_("NDArray"),
      first_{Engine::Get(), Engine::Get()->NewVariable(tag_), nullptr},
      owner_(std::move(owner)),
      data_(external),
      has_data_(true),
      is_written_elsewhere_(true) {}

NDArray::Chunk::Chunk(std::shared_ptr<SharedFile> file)
    : size_bytes_(file->size_bytes()),
      device_(Device::CpuShared()),
      tag_("NDArray"),
      first_{Engine::Get(), Engine::Get()->NewVariable(tag_), nullptr},
      file_(std::move(file)),
      data_(file_->data()),
      has_data_(true),
      is_written_elsewhere_(true) {}

NDArray::Chunk::~Chunk() {
  Engine* const engine = Engine::Get();
  const EngineVariable own = *current_.load(std::memory_order_relaxed);
  for (const EngineVariable* renewed = current_.load(std::memory_order_relaxed);
       renewed != &first_;) {
    delete std::exchange(renewed, renewed->of_parent);
  }
  try {
    // An array of the parent that this process has not used.
    if (own.engine != engine) {
      Storage::Get()->Free(handle_);
      return;
    }
    const bool has_memory = handle_.dptr != nullptr || owner_ != nullptr || file_ != nullptr;
    if (has_memory && exposed_.load(std::memory_order_relaxed)) {
      engine->PushSync([handle = handle_, owner = std::move(owner_),
                        file = std::move(file_)](RunContext) { Storage::Get()->Free(handle); },
                       Device::Cpu(), {}, {own.var},
                       {.property = FnProperty::kDeleteVariable, .name = "~NDArray"});
    } else {
      Storage::Get()->Free(std::exchange(handle_, {}));
    }
    engine->DeleteVariable(own.var);
  } catch (const Error&) {
    // The engine accepts no more work, because the process is ending. No operation runs that could
    // use the memory. Storage, which is never destroyed, may therefore reuse it.
    try {
      Storage::Get()->Free(handle_);
    } catch (...) {
    }
  } catch (...) {
    // There is no memory for the operation. The block is lost, and so is the owner, which is safe.
    if (owner_ != nullptr) new (std::nothrow) std::shared_ptr<void>(std::move(owner_));
  }
}

void* NDArray::Chunk::Allocate() {
  // Several operations may read an array that no operation has written.
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_data_.load(std::memory_order_relaxed)) {
    if (device_.type == DeviceType::kCpuShared) {
      // Another process may use the memory for longer than a pool's block may be kept.
      file_ = SharedFile::Create(size_bytes_);
      data_ = file_->data();
    } else {
      // Memory is pinned for the copies of a GPU, so a build without one has none.
      const bool is_plain =
          device_.type == DeviceType::kCpuPinned && !HasDeviceRuntime(DeviceType::kGpu);
      handle_ = Storage::Get()->Alloc(size_bytes_, is_plain ? Device::Cpu() : device_, tag_);
      data_ = handle_.dptr;
    }
    has_data_.store(true, std::memory_order_release);
  }
  return data_;
}

void NDArray::Chunk::CopyExternal() {
  const std::lock_guard<std::mutex> lock(mutex_);
  handle_ = Storage::Get()->Alloc(size_bytes_, device_, tag_);
  CopyBytes(handle_.dptr, device_, data_, device_, size_bytes_);
  data_ = handle_.dptr;
  has_data_.store(true, std::memory_order_release);
  is_written_elsewhere_.store(false, std::memory_order_relaxed);
}

const NDArray::Chunk::EngineVariable* NDArray::Chunk::RenewAfterFork(
    Engine* engine, const EngineVariable* of_parent) {
  if (!of_parent->engine->IsIdle(of_parent->var)) {
    throw FailedPrecondition(
        "NDArray: the array was being written when this process was forked; expected a wait, as by "
        "NDArray::WaitAll, before the fork");
  }
  of_parent->engine->Throw(of_parent->var);
  auto renewed = std::make_unique<EngineVariable>(
      EngineVariable{engine, engine->NewVariable(tag_), of_parent});
  const EngineVariable* current = of_parent;
  if (current_.compare_exchange_strong(current, renewed.get(), std::memory_order_acq_rel)) {
    return renewed.release();
  }
  engine->DeleteVariable(renewed->var);
  return current;  // another thread's
}

}  // namespace tessera
