#include "tessera/ndarray/ndarray.h"

#include <atomic>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>
#include <type_traits>
#include <utility>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/device_runtime.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/storage/storage.h"
#include "tessera/tensor/tensor.h"

namespace tessera {

using ndarray_internal::ArrayMemory;

/// The memory behind one or more arrays, with the variable that orders its users: in the child of a
/// fork another one, of the child's engine.
///
/// Operations that hold an NDArray hold the chunk. Those that hold a blob alone may still pend when
/// the last array is gone, so the memory is freed by an operation that writes the variable.
class NDArray::Chunk {
 public:
  Chunk(int64_t size_bytes, Device device, bool delay_alloc, std::string_view tag)
      : size_bytes_(size_bytes), device_(device), tag_(tag) {
    if (!delay_alloc) Data();
    try {
      first_ = {Engine::Get(), Engine::Get()->NewVariable(tag_), nullptr};
    } catch (...) {
      Storage::Get()->Free(handle_);
      throw;
    }
  }
  Chunk(void* external, int64_t size_bytes, Device device)
      : size_bytes_(size_bytes),
        device_(device),
        tag_("NDArray"),
        first_{Engine::Get(), Engine::Get()->NewVariable(tag_), nullptr},
        data_(external),
        has_data_(true) {}
  ~Chunk();
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  int64_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }
  /// Returns the variable of this process's engine. Throws Error(kFailedPrecondition) in the child
  /// of a fork during which the memory was written, and rethrows the error of an earlier operation
  /// that no wait has reported.
  Variable* var() {
    Engine* const engine = Engine::Get();
    // Acquire: pairs with the exchange of the thread that renewed it.
    const EngineVariable* const current = current_.load(std::memory_order_acquire);
    return current->engine == engine ? current->var : RenewAfterFork(engine, current)->var;
  }

  void* Data() {
    // Pairs with the release store below: a thread that sees the flag also sees the pointer.
    if (!has_data_.load(std::memory_order_acquire)) {
      // Several operations may read an array that no operation has written.
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!has_data_.load(std::memory_order_relaxed)) {
        handle_ = Storage::Get()->Alloc(size_bytes_, device_, tag_);
        data_ = handle_.dptr;
        has_data_.store(true, std::memory_order_release);
      }
    }
    return data_;
  }

 private:
  /// The variable in one process.
  struct EngineVariable {
    Engine* engine = nullptr;
    Variable* var = nullptr;
    const EngineVariable* of_parent = nullptr;
  };

  const EngineVariable* RenewAfterFork(Engine* engine, const EngineVariable* of_parent);

  const int64_t size_bytes_;
  const Device device_;
  const std::string tag_;
  EngineVariable first_;
  std::atomic<const EngineVariable*> current_{&first_};

  std::mutex mutex_;
  Storage::Handle handle_;  // empty for the caller's memory
  void* data_ = nullptr;
  std::atomic<bool> has_data_{false};
};

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
    if (handle_.dptr != nullptr) {
      engine->PushSync([handle = handle_](RunContext) { Storage::Get()->Free(handle); },
                       Device::Cpu(), {}, {own.var},
                       {.property = FnProperty::kDeleteVariable, .name = "~NDArray"});
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
    // There is no memory for the operation. The block is lost, which is safe.
  }
}

namespace {

int64_t SizeBytes(const TShape& shape, DType dtype) {
  if (!shape.known()) {
    throw InvalidArgument("NDArray: shape ", shape,
                          " is not fully known; expected an extent of 0 or "
                          "more for each dimension");
  }
  CheckedSize size_bytes(DTypeSizeBytes(dtype));
  // An empty array may have extents whose product would overflow.
  for (const index_t extent : shape) {
    if (extent == 0) return 0;
  }
  for (const index_t extent : shape) size_bytes = size_bytes * extent;
  if (!size_bytes.valid()) {
    throw InvalidArgument("NDArray: shape ", shape, " of ", dtype,
                          " takes more bytes than fit in 63 bits");
  }
  return *size_bytes.value();
}

/// Up to this size, a second copy of the bytes is faster than waking a thread and waiting for it.
constexpr int64_t kMaxStagedBytes = int64_t{1} << 18;

/// Pushes `fn`, which owns its data, as a write of the array.
template <typename Fn>
void PushWrite(const NDArray& array, const char* name, int priority, Fn fn,
               VariableList reads = {}) {
  Variable* const var = array.var();
  const bool keeps_rest = ArrayMemory::Of(array).IsPart();
  Engine::Get()->PushSync(
      [fn = std::move(fn), var, keeps_rest](RunContext context) {
        // Elements that are kept may be missing because an earlier operation failed. The engine
        // does not check that, because it assumes that a write replaces everything.
        if (keeps_rest) context.engine->Throw(var);
        fn();
      },
      Device::Cpu(), reads, {var}, {.priority = priority, .name = name});
}

/// A function that refers to its caller's variables. It is safe if a wait throws before the
/// operation has run.
class Borrowed {
 public:
  explicit Borrowed(const std::function<void()>& fn) : fn_(&fn) {}

  void Call() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fn_ != nullptr) (*fn_)();
  }
  /// Later calls of Call do nothing.
  void Revoke() {
    const std::lock_guard<std::mutex> lock(mutex_);
    fn_ = nullptr;
  }

 private:
  std::mutex mutex_;
  const std::function<void()>* fn_;
};

void WaitOrRevoke(Variable* var, Borrowed& borrowed) {
  try {
    Engine::Get()->WaitForVar(var);
  } catch (...) {
    borrowed.Revoke();
    throw;
  }
}

/// Writes the array by `fn` in order with its other operations, and returns when that is done.
void WriteInTurn(const NDArray& array, const char* name, const std::function<void()>& fn) {
  const auto borrowed = std::make_shared<Borrowed>(fn);
  PushWrite(array, name, 0, [borrowed] { borrowed->Call(); });
  WaitOrRevoke(array.var(), *borrowed);
}

/// Reads the array by `fn` in order with its other operations, and returns when that is done.
void ReadInTurn(const NDArray& array, const char* name, const std::function<void()>& fn) {
  Engine* const engine = Engine::Get();
  // The read also writes a variable, because waits cover only writes.
  struct Done {
    Engine* engine;
    Variable* var;
    ~Done() { engine->DeleteVariable(var); }
  } done{engine, engine->NewVariable(name)};
  const auto borrowed = std::make_shared<Borrowed>(fn);
  engine->PushSync([borrowed](RunContext) { borrowed->Call(); }, Device::Cpu(), {array.var()},
                   {done.var}, {.name = name});
  WaitOrRevoke(done.var, *borrowed);
}

/// Returns whether T can represent the value, truncated if T is an integer.
template <typename T>
bool Holds(double value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const double integer = std::trunc(value);
    return integer >= static_cast<double>(std::numeric_limits<T>::min()) &&
           integer < std::ldexp(1.0, std::numeric_limits<T>::digits);
  } else {
    return true;
  }
}

void Fill(const TBlob& dst, double value) {
  RunOnDevice(dst.device_, [&](void* stream) {
    if (dst.device_.dev_mask() != cpu::kDevMask) {
      RuntimeFor(dst.device_).Fill(dst, value, stream);
      return;
    }
    VisitDType(dst.type_flag_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      dst.FlatTo1D<cpu, T>() = static_cast<T>(value);
    });
  });
}

/// Returns the shortest text that a parameter parses to the same number.
std::string ScalarText(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end.ptr);
}

NDArray Binary(const char* op, const NDArray& a, const NDArray& b) {
  const NDArray inputs[] = {a, b};
  return Invoke(op, inputs)[0];
}

NDArray Scalar(const char* op, const NDArray& a, float b) {
  return Invoke(op, {&a, 1}, {{"scalar", ScalarText(b)}})[0];
}

NDArray& BinaryInPlace(const char* op, NDArray& a, const NDArray& b) {
  const NDArray inputs[] = {a, b};
  Invoke(op, inputs, {&a, 1});
  return a;
}

NDArray& ScalarInPlace(const char* op, NDArray& a, float b) {
  const NDArray input = a;
  Invoke(op, {&input, 1}, {&a, 1}, {{"scalar", ScalarText(b)}});
  return a;
}

}  // namespace

namespace ndarray_internal {

ArrayMemory ArrayMemory::Of(const NDArray& array) {
  NDArray::Chunk& chunk = array.RequireChunk("memory");
  const int64_t element_bytes = DTypeSizeBytes(array.dtype_);
  const int64_t begin = array.offset_ * element_bytes;
  return {.var = chunk.var(),
          .begin = begin,
          .end = begin + array.shape_.Size() * element_bytes,
          .size = chunk.size_bytes()};
}

}  // namespace ndarray_internal

NDArray::NDArray(const TShape& shape, Device device, DType dtype, bool delay_alloc,
                 std::string_view tag)
    : shape_(shape), dtype_(dtype) {
  const int64_t size_bytes = SizeBytes(shape, dtype);
  if (device.dev_mask() != cpu::kDevMask) RuntimeFor(device);
  chunk_ = std::make_shared<Chunk>(size_bytes, device, delay_alloc, tag);
}

NDArray::NDArray(const TBlob& blob)
    : chunk_(std::make_shared<Chunk>(blob.dptr_, SizeBytes(blob.shape_, blob.type_flag_),
                                     blob.device_)),
      shape_(blob.shape_),
      dtype_(blob.type_flag_) {}

NDArray NDArray::FromVector(std::span<const float> values, const TShape& shape) {
  NDArray array(shape);
  const index_t size = array.shape_.Size();
  if (static_cast<index_t>(values.size()) != size) {
    throw InvalidArgument("NDArray::FromVector: ", values.size(), " elements given, but shape ",
                          shape, " has ", size);
  }
  // No operation uses the new array yet.
  CopyBytes(array.data().dptr_, Device::Cpu(), values.data(), Device::Cpu(),
            size * static_cast<int64_t>(sizeof(float)));
  return array;
}

NDArray::Chunk& NDArray::RequireChunk(std::string_view operation) const {
  if (chunk_ == nullptr) {
    throw FailedPrecondition("NDArray::", operation, ": there is no array (is_none())");
  }
  return *chunk_;
}

Device NDArray::device() const { return RequireChunk("device").device(); }

Variable* NDArray::var() const { return RequireChunk("var").var(); }

TBlob NDArray::data() const {
  Chunk& chunk = RequireChunk("data");
  char* const begin = static_cast<char*>(chunk.Data());
  const int64_t offset_bytes = offset_ * DTypeSizeBytes(dtype_);
  // An empty array has no memory, and adding to null is undefined.
  return TBlob(offset_bytes == 0 ? begin : begin + offset_bytes, shape_, dtype_, chunk.device());
}

void NDArray::WaitToRead() const {
  if (!is_none()) Engine::Get()->WaitForVar(chunk_->var());
}

void NDArray::WaitToWrite() const {
  if (is_none()) return;
  // The wait comes first to throw errors. The following write waits for the readers, and leaves the
  // variable without an error.
  WaitToRead();
  Engine::Get()->PushSync([](RunContext) {}, Device::Cpu(), {}, {chunk_->var()},
                          {.name = "WaitToWrite"});
  WaitToRead();
}

void NDArray::WaitAll() { Engine::Get()->WaitForAll(); }

void NDArray::SyncCopyFromCPU(const void* data, index_t size) {
  RequireChunk("SyncCopyFromCPU");
  if (size != shape_.Size()) {
    throw InvalidArgument("NDArray::SyncCopyFromCPU: ", size, " elements given, but shape ", shape_,
                          " has ", shape_.Size());
  }
  const int64_t size_bytes = size * DTypeSizeBytes(dtype_);
  const auto copy = [size_bytes](const NDArray& array, const void* from) {
    const TBlob blob = array.data();
    CopyBytes(blob.dptr_, blob.device_, from, Device::Cpu(), size_bytes);
  };
  if (size_bytes > kMaxStagedBytes) {
    WriteInTurn(*this, "SyncCopyFromCPU", [&] { copy(*this, data); });
    return;
  }
  const auto staged = std::make_shared_for_overwrite<char[]>(static_cast<size_t>(size_bytes));
  CopyBytes(staged.get(), Device::Cpu(), data, Device::Cpu(), size_bytes);
  PushWrite(*this, "SyncCopyFromCPU", 0,
            [array = *this, staged, copy] { copy(array, staged.get()); });
}

void NDArray::SyncCopyToCPU(void* data, index_t size) const {
  RequireChunk("SyncCopyToCPU");
  if (size != shape_.Size()) {
    throw InvalidArgument("NDArray::SyncCopyToCPU: room for ", size, " elements given, but shape ",
                          shape_, " has ", shape_.Size());
  }
  ReadInTurn(*this, "SyncCopyToCPU", [&] {
    const TBlob blob = this->data();
    CopyBytes(data, Device::Cpu(), blob.dptr_, blob.device_, size * DTypeSizeBytes(dtype_));
  });
}

std::vector<float> NDArray::ToVector() const {
  RequireChunk("ToVector");
  const index_t size = shape_.Size();
  std::vector<float> values(static_cast<size_t>(size));
  if (dtype_ == DType::kFloat32) {
    SyncCopyToCPU(values.data(), size);
    return values;
  }
  return VisitDType(dtype_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto typed = std::make_unique<T[]>(values.size());
    SyncCopyToCPU(typed.get(), size);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(typed[i]);
    return std::move(values);
  });
}

NDArray NDArray::View(const TShape& shape, index_t offset) const {
  NDArray view = *this;
  view.shape_ = shape;
  view.offset_ += offset;
  return view;
}

NDArray NDArray::Slice(index_t begin, index_t end) const {
  RequireChunk("Slice");
  if (shape_.ndim() < 1) throw InvalidArgument("NDArray::Slice: a scalar has no rows");
  if (begin < 0 || begin > end || end > shape_[0]) {
    throw OutOfRange("NDArray::Slice: rows [", begin, ", ", end, ") of shape ", shape_,
                     "; expected 0 <= begin <= end <= ", shape_[0]);
  }
  TShape shape = shape_;
  shape[0] = end - begin;
  return View(shape, begin * shape_.ProdShape(1, shape_.ndim()));
}

NDArray NDArray::At(index_t i) const {
  RequireChunk("At");
  if (shape_.ndim() < 1) throw InvalidArgument("NDArray::At: a scalar has no rows");
  if (i < 0 || i >= shape_[0]) {
    throw OutOfRange("NDArray::At: row ", i, " of shape ", shape_, "; expected 0 <= row < ",
                     shape_[0]);
  }
  const TShape shape(std::span<const index_t>(shape_.begin() + 1, shape_.end()));
  return View(shape, i * shape.Size());
}

NDArray NDArray::Reshape(const TShape& shape) const {
  RequireChunk("Reshape");
  if (!shape.rank_known()) {
    throw InvalidArgument("NDArray::Reshape: the new shape of ", shape_, " has no rank");
  }
  TShape wanted = shape;
  int open = -1;
  CheckedSize rest = 1;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] != TShape::kUnknown) {
      rest = rest * shape[i];
    } else if (open < 0) {
      open = i;
    } else {
      throw InvalidArgument("NDArray::Reshape: shape ", shape,
                            " has several unknown extents; expected at most one");
    }
  }
  const index_t size = shape_.Size();
  const index_t known = rest.value().value_or(-1);
  if (open >= 0 && known > 0 && size % known == 0) {
    wanted[open] = size / known;
  } else if (open >= 0 || known != size) {
    throw InvalidArgument("NDArray::Reshape: shape ", shape_, " with ", size,
                          " elements cannot be seen as ", shape);
  }
  return View(wanted, 0);
}

NDArray NDArray::Copy(Device device) const {
  RequireChunk("Copy");
  NDArray copy(shape_, device, dtype_, /*delay_alloc=*/true);
  CopyFromTo(*this, copy);
  return copy;
}

void CopyFromTo(const NDArray& from, const NDArray& to, int priority) {
  if (from.is_none() || to.is_none()) {
    throw FailedPrecondition("CopyFromTo: ", from.is_none() ? "from" : "to",
                             " is no array (is_none())");
  }
  if (from.shape() != to.shape() || from.dtype() != to.dtype()) {
    throw InvalidArgument("CopyFromTo: from is ", from.shape(), " of ", from.dtype(), ", to is ",
                          to.shape(), " of ", to.dtype(), "; expected the same");
  }
  const ArrayMemory source = ArrayMemory::Of(from);
  const ArrayMemory target = ArrayMemory::Of(to);
  if (source.IsSame(target)) return;
  if (source.Overlaps(target)) {
    throw InvalidArgument("CopyFromTo: from and to share some of their memory, but not all");
  }
  // A variable is named once, so a copy between two parts of one array is a write of that array.
  Variable* const reads[] = {source.var};
  const size_t num_reads = source.var == target.var ? 0 : 1;
  PushWrite(
      to, "CopyFromTo", priority,
      [from, to] {
        const TBlob src = from.data();
        const TBlob dst = to.data();
        CopyBytes(dst.dptr_, dst.device_, src.dptr_, src.device_,
                  src.Size() * DTypeSizeBytes(src.type_flag_));
      },
      std::span<Variable* const>(reads, num_reads));
}

NDArray& NDArray::operator=(float value) {
  RequireChunk("operator=");
  const bool holds =
      VisitDType(dtype_, [&](auto tag) { return Holds<typename decltype(tag)::type>(value); });
  if (!holds) {
    throw InvalidArgument("NDArray::operator=: an array of ", dtype_, " cannot hold ", value);
  }
  PushWrite(*this, "NDArray::operator=", 0, [array = *this, value] { Fill(array.data(), value); });
  return *this;
}

NDArray& NDArray::operator+=(const NDArray& other) {
  return BinaryInPlace("elemwise_add", *this, other);
}
NDArray& NDArray::operator-=(const NDArray& other) {
  return BinaryInPlace("elemwise_sub", *this, other);
}
NDArray& NDArray::operator*=(const NDArray& other) {
  return BinaryInPlace("elemwise_mul", *this, other);
}
NDArray& NDArray::operator/=(const NDArray& other) {
  return BinaryInPlace("elemwise_div", *this, other);
}
NDArray& NDArray::operator+=(float value) { return ScalarInPlace("_plus_scalar", *this, value); }
NDArray& NDArray::operator-=(float value) { return ScalarInPlace("_minus_scalar", *this, value); }
NDArray& NDArray::operator*=(float value) { return ScalarInPlace("_mul_scalar", *this, value); }
NDArray& NDArray::operator/=(float value) { return ScalarInPlace("_div_scalar", *this, value); }

NDArray operator+(const NDArray& a, const NDArray& b) { return Binary("elemwise_add", a, b); }
NDArray operator-(const NDArray& a, const NDArray& b) { return Binary("elemwise_sub", a, b); }
NDArray operator*(const NDArray& a, const NDArray& b) { return Binary("elemwise_mul", a, b); }
NDArray operator/(const NDArray& a, const NDArray& b) { return Binary("elemwise_div", a, b); }
NDArray operator+(const NDArray& a, float b) { return Scalar("_plus_scalar", a, b); }
NDArray operator-(const NDArray& a, float b) { return Scalar("_minus_scalar", a, b); }
NDArray operator*(const NDArray& a, float b) { return Scalar("_mul_scalar", a, b); }
NDArray operator/(const NDArray& a, float b) { return Scalar("_div_scalar", a, b); }

}  // namespace tessera
