#include "tessera/ndarray/ndarray.h"

#include <functional>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/call/sparse_call.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/memory/array_body.h"
#include "tessera/ndarray/memory/device_runtime.h"
#include "tessera/ndarray/recorded_function.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/parameter.h"
#include "tessera/tensor/tensor.h"

namespace tessera {

using ndarray_internal::ArrayAccess;
using ndarray_internal::ArrayMemory;
using ndarray_internal::SparseStore;

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
  const ArrayMemory memory = ArrayAccess::Memory(array);
  // Elements that are kept may be missing because an earlier operation failed.
  const std::span<Variable* const> var(&memory.var, 1);
  Engine::Get()->PushSync([fn = std::move(fn)](const RunContext&) { fn(); }, Device::Cpu(), reads,
                          memory.IsPart() ? VariableList() : VariableList(var),
                          {.priority = priority,
                           .name = name,
                           .updates = memory.IsPart() ? VariableList(var) : VariableList()});
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
  const std::function<void()>* fn_ ABSL_GUARDED_BY(mutex_);
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
  WaitOrRevoke(ArrayAccess::Var(array), *borrowed);
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
  engine->PushSync([borrowed](RunContext) { borrowed->Call(); }, Device::Cpu(),
                   {ArrayAccess::Var(array)}, {done.var}, {.name = name});
  WaitOrRevoke(done.var, *borrowed);
}

void Fill(const TBlob& dst, const Number& value) {
  RunOnDevice(dst.device_, [&](void* stream) {
    if (dst.device_.dev_mask() != cpu::kDevMask) {
      RuntimeFor(dst.device_).Fill(dst, value, stream);
      return;
    }
    VisitDType(dst.type_flag_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      dst.FlatTo1D<cpu, T>() = value.Element<T>();
    });
  });
}

/// The copy of an array to another device, as a call on the tape.
class DeviceCopy final : public RecordedFunction {
 public:
  const std::string& name() const override {
    static const std::string name = "_CrossDeviceCopy";
    return name;
  }
  void Backward(std::span<const NDArray> out_grads, std::span<const OpReqType> req,
                std::span<const NDArray> in_grads, bool /*is_last*/) override {
    if (req[0] != kAddTo) {
      CopyFromTo(out_grads[0], in_grads[0]);
      return;
    }
    const NDArray part = out_grads[0].Copy(in_grads[0].device());
    Invoke("_copy", {&part, 1}, {&in_grads[0], 1}, {}, kAddTo);
  }
};

/// Copies with a conversion. Neither array is on the tape.
void ConvertTo(const NDArray& from, const NDArray& to, int priority) {
  const std::string type(DTypeName(to.dtype()));
  if (ComputeDevice(from.device()) == ComputeDevice(to.device())) {
    Invoke("Cast", {&from, 1}, {&to, 1}, {{"dtype", type}});
  } else {
    CopyFromTo(Invoke("Cast", {&from, 1}, {{"dtype", type}})[0], to, priority);
  }
}

}  // namespace

namespace ndarray_internal {

ArrayMemory ArrayAccess::Memory(const NDArray& array) {
  const NDArray::Body& body = array.RequireBody("memory");
  if (body.sparse != nullptr) return {.var = body.chunk->var(), .begin = 0, .end = 1, .size = 1};
  const int64_t element_bytes = DTypeSizeBytes(body.dtype);
  const int64_t begin = body.offset * element_bytes;
  return {.var = body.chunk->var(),
          .begin = begin,
          .end = begin + body.shape.Size() * element_bytes,
          .size = body.chunk->size_bytes()};
}

Variable* ArrayAccess::Var(const NDArray& array) { return array.RequireBody("var").chunk->var(); }

TBlob ArrayAccess::Data(const NDArray& array) {
  const NDArray::Body& body = array.RequireBody("data");
  if (body.sparse != nullptr) {
    throw InvalidArgument("NDArray::data: the array of shape ", body.shape, " is ",
                          body.sparse->type(), ", expected a dense one, as sparse::Cast makes");
  }
  char* const begin = static_cast<char*>(body.chunk->Data());
  const int64_t offset_bytes = body.offset * DTypeSizeBytes(body.dtype);
  // An empty array has no memory, and adding to null is undefined.
  return TBlob(offset_bytes == 0 ? begin : begin + offset_bytes, body.shape, body.dtype,
               body.chunk->device());
}

std::shared_ptr<const void> ArrayAccess::Owner(const NDArray& array) {
  return array.RequireBody("owner").chunk;
}

bool ArrayAccess::IsWrittenElsewhere(const NDArray& array) {
  return array.RequireBody("is written elsewhere").chunk->is_written_elsewhere();
}

void ArrayAccess::NoteOtherWriters(const NDArray& array) {
  array.RequireBody("note other writers").chunk->NoteOtherWriters();
}

NDArray ArrayAccess::OverFile(std::shared_ptr<SharedFile> file, const TShape& shape, DType dtype) {
  return NDArray(std::make_shared<NDArray::Body>(NDArray::Body{
      .chunk = std::make_shared<NDArray::Chunk>(std::move(file)), .shape = shape, .dtype = dtype}));
}

std::shared_ptr<SharedFile> ArrayAccess::File(const NDArray& array) {
  const NDArray::Body& body = array.RequireBody("file");
  return body.offset == 0 ? body.chunk->file() : nullptr;
}

SparseStore* ArrayAccess::Sparse(const NDArray& array) {
  return array.body_ == nullptr ? nullptr : array.body_->sparse.get();
}

NDArray ArrayAccess::NewSparse(StorageType type, const TShape& shape, Device device, DType dtype,
                               std::string_view tag) {
  SizeBytes(shape, dtype);  // throws
  auto store = std::make_shared<SparseStore>(type, shape, dtype, device);
  return NDArray(std::make_shared<NDArray::Body>(
      NDArray::Body{.chunk = std::make_shared<NDArray::Chunk>(0, device, /*delay_alloc=*/true, tag),
                    .shape = shape,
                    .dtype = dtype,
                    .sparse = std::move(store)}));
}

graph::NodeEntry& ArrayAccess::Entry(const NDArray& array) {
  return array.RequireBody("entry").entry;
}

NDArray ArrayAccess::WithEntry(const NDArray& array, graph::NodeEntry entry) {
  auto body = std::make_shared<NDArray::Body>(array.RequireBody("entry"));
  body->entry = std::move(entry);
  return NDArray(std::move(body));
}

void ArrayAccess::EndLoan(const NDArray& array) {
  const NDArray::Body& body = array.RequireBody("end of loan");
  if (array.body_.use_count() > 1 || body.chunk.use_count() > 1) body.chunk->CopyExternal();
}

}  // namespace ndarray_internal

NDArray::NDArray(const TShape& shape, Device device, DType dtype, bool delay_alloc,
                 std::string_view tag) {
  const int64_t size_bytes = SizeBytes(shape, dtype);
  if (device.dev_mask() != cpu::kDevMask) RuntimeFor(device);
  body_ = std::make_shared<Body>(
      Body{.chunk = std::make_shared<Chunk>(size_bytes, device, delay_alloc, tag),
           .shape = shape,
           .dtype = dtype});
}

NDArray::NDArray(const TBlob& blob) : NDArray(blob, nullptr) {}

NDArray::NDArray(const TBlob& blob, std::shared_ptr<void> owner)
    : body_(std::make_shared<Body>(
          Body{.chunk = std::make_shared<Chunk>(blob.dptr_, SizeBytes(blob.shape_, blob.type_flag_),
                                                blob.device_, std::move(owner)),
               .shape = blob.shape_,
               .dtype = blob.type_flag_})) {}

NDArray NDArray::FromVector(std::span<const float> values, const TShape& shape) {
  NDArray array(shape);
  const index_t size = array.shape().Size();
  if (static_cast<index_t>(values.size()) != size) {
    throw InvalidArgument("NDArray::FromVector: ", values.size(), " elements given, but shape ",
                          shape, " has ", size);
  }
  // No operation uses the new array yet.
  CopyBytes(array.data().dptr_, Device::Cpu(), values.data(), Device::Cpu(),
            size * static_cast<int64_t>(sizeof(float)));
  return array;
}

NDArray::Body& NDArray::RequireBody(std::string_view operation) const {
  if (body_ == nullptr) {
    throw FailedPrecondition("NDArray::", operation, ": there is no array (is_none())");
  }
  return *body_;
}

const TShape& NDArray::shape() const {
  static const TShape unknown;
  return body_ == nullptr ? unknown : body_->shape;
}

DType NDArray::dtype() const { return body_ == nullptr ? DType::kFloat32 : body_->dtype; }

Device NDArray::device() const { return RequireBody("device").chunk->device(); }

Variable* NDArray::var() const {
  Chunk& chunk = *RequireBody("var").chunk;
  chunk.Expose();
  return chunk.var();
}

TBlob NDArray::data() const {
  RequireBody("data").chunk->Expose();
  return ArrayAccess::Data(*this);
}

void NDArray::WaitToRead() const {
  if (!is_none()) Engine::Get()->WaitForVar(ArrayAccess::Var(*this));
}

void NDArray::WaitToWrite() const {
  if (is_none()) return;
  // The wait comes first to throw errors. The following write waits for the readers, and leaves the
  // variable without an error.
  WaitToRead();
  Engine::Get()->PushSync([](RunContext) {}, Device::Cpu(), {}, {ArrayAccess::Var(*this)},
                          {.name = "WaitToWrite"});
  WaitToRead();
}

void NDArray::WaitAll() { Engine::Get()->WaitForAll(); }

void NDArray::SyncCopyFromCPU(const void* data, index_t size) {
  const Body& body = RequireBody("SyncCopyFromCPU");
  if (body.sparse != nullptr) {
    throw InvalidArgument("NDArray::SyncCopyFromCPU: the array of shape ", body.shape, " is ",
                          body.sparse->type(), ", expected a dense one");
  }
  if (size != shape().Size()) {
    throw InvalidArgument("NDArray::SyncCopyFromCPU: ", size, " elements given, but shape ",
                          shape(), " has ", shape().Size());
  }
  const int64_t size_bytes = size * DTypeSizeBytes(dtype());
  const auto copy = [size_bytes](const NDArray& array, const void* from) {
    const TBlob blob = ArrayAccess::Data(array);
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
  RequireBody("SyncCopyToCPU");
  if (size != shape().Size()) {
    throw InvalidArgument("NDArray::SyncCopyToCPU: room for ", size, " elements given, but shape ",
                          shape(), " has ", shape().Size());
  }
  if (ArrayAccess::Sparse(*this) != nullptr) {
    sparse::Cast(Detach(), StorageType::kDefault).SyncCopyToCPU(data, size);
    return;
  }
  ReadInTurn(*this, "SyncCopyToCPU", [&] {
    const TBlob blob = ArrayAccess::Data(*this);
    CopyBytes(data, Device::Cpu(), blob.dptr_, blob.device_, size * DTypeSizeBytes(dtype()));
  });
}

std::vector<float> NDArray::ToVector() const {
  RequireBody("ToVector");
  const index_t size = shape().Size();
  std::vector<float> values(static_cast<size_t>(size));
  if (dtype() == DType::kFloat32) {
    SyncCopyToCPU(values.data(), size);
    return values;
  }
  return VisitDType(dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto typed = std::make_unique<T[]>(values.size());
    SyncCopyToCPU(typed.get(), size);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(typed[i]);
    return std::move(values);
  });
}

NDArray NDArray::Copy(Device device) const {
  RequireBody("Copy");
  const bool records = ShouldRecord({this, 1});
  if (records && device == this->device()) return Invoke("_copy", {this, 1})[0];
  const SparseStore* const store = ArrayAccess::Sparse(*this);
  const NDArray copy = store != nullptr ? sparse::Zeros(store->type(), shape(), device, dtype())
                                        : NDArray(shape(), device, dtype(), /*delay_alloc=*/true);
  CopyFromTo(*this, copy);
  if (records) RecordCall(std::make_shared<DeviceCopy>(), {this, 1}, {&copy, 1});
  return copy;
}

NDArray NDArray::AsInContext(Device device) const {
  return device == this->device() ? *this : Copy(device);
}

NDArray NDArray::AsType(DType dtype) const {
  RequireBody("AsType");
  return Invoke("Cast", {this, 1}, {{"dtype", std::string(DTypeName(dtype))}})[0];
}

void NDArray::CopyTo(const NDArray& other) const { CopyFromTo(*this, other); }

void CopyFromTo(const NDArray& from, const NDArray& to, int priority) {
  if (from.is_none() || to.is_none()) {
    throw FailedPrecondition("CopyFromTo: ", from.is_none() ? "from" : "to",
                             " is no array (is_none())");
  }
  if (from.shape() != to.shape()) {
    throw InvalidArgument("CopyFromTo: from has shape ", from.shape(), ", to has shape ",
                          to.shape(), "; expected one shape");
  }
  const ArrayMemory source = ArrayAccess::Memory(from);
  const ArrayMemory target = ArrayAccess::Memory(to);
  if (source.IsSame(target) && from.dtype() == to.dtype()) return;
  if (ArrayAccess::Sparse(from) != nullptr || ArrayAccess::Sparse(to) != nullptr) {
    ndarray_internal::CopySparse(from, to, kWriteTo, priority);
    return;
  }
  if (source.Overlaps(target)) {
    throw InvalidArgument("CopyFromTo: from and to share some of their memory, but not all");
  }
  if (from.dtype() != to.dtype()) {
    ConvertTo(from.Detach(), to.Detach(), priority);
    return;
  }
  // A variable is named once, so a copy between two parts of one array is a write of that array.
  Variable* const reads[] = {source.var};
  const size_t num_reads = source.var == target.var ? 0 : 1;
  PushWrite(
      to, "CopyFromTo", priority,
      [from, to] {
        const TBlob src = ArrayAccess::Data(from);
        const TBlob dst = ArrayAccess::Data(to);
        CopyBytes(dst.dptr_, dst.device_, src.dptr_, src.device_,
                  src.Size() * DTypeSizeBytes(src.type_flag_));
      },
      std::span<Variable* const>(reads, num_reads));
}

NDArray& NDArray::operator=(const Number& value) {
  RequireBody("operator=");
  if (!value.FitsIn(dtype())) {
    throw InvalidArgument("NDArray::operator=: an array of ", dtype(), " cannot hold ",
                          ops_internal::ParameterText<Number>::Print(value));
  }
  if (ArrayAccess::Sparse(*this) != nullptr) {
    ndarray_internal::FillSparse(*this, value);
    return *this;
  }
  PushWrite(*this, "NDArray::operator=", 0,
            [array = *this, value] { Fill(ArrayAccess::Data(array), value); });
  return *this;
}

}  // namespace tessera
