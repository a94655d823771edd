#include "tessera/ndarray/memory/sparse_store.h"

#include <algorithm>
#include <utility>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"

namespace tessera::ndarray_internal {
namespace {

constexpr char kTag[] = "sparse array";

int64_t Bytes(index_t count, index_t width, int64_t element_bytes) {
  const CheckedSize size_bytes = CheckedSize(element_bytes) * count * width;
  if (!size_bytes.valid()) {
    throw InvalidArgument("sparse array: ", count, " rows of ", width,
                          " elements take more bytes than fit in 63 bits");
  }
  return *size_bytes.value();
}

/// Returns whether a blob is csr and its indptr as SparseBlob states.
bool HasRows(const SparseBlob& blob) {
  return blob.storage == StorageType::kCsr && blob.indptr.front() == 0 &&
         blob.indptr.back() == blob.count() &&
         std::is_sorted(blob.indptr.begin(), blob.indptr.end());
}

}  // namespace

PartsMemory::PartsMemory(const SparseBlob& blob, index_t count) : count_(count) {
  const index_t width = blob.storage == StorageType::kRowSparse ? blob.width() : 1;
  constexpr int64_t kIndexBytes = sizeof(int64_t);
  Storage* const storage = Storage::Get();
  const int64_t values_bytes = Bytes(count, width, DTypeSizeBytes(blob.values.type_flag_));
  const int64_t indices_bytes = Bytes(count, 1, kIndexBytes);
  const index_t num_ends = blob.storage == StorageType::kCsr ? blob.shape[0] + 1 : 0;
  const int64_t indptr_bytes = Bytes(num_ends, 1, kIndexBytes);
  const auto allocate = [storage](int64_t size_bytes) {
    return size_bytes == 0 ? Storage::Handle() : storage->Alloc(size_bytes, Device::Cpu(), kTag);
  };
  try {
    values_ = allocate(values_bytes);
    indices_ = allocate(indices_bytes);
    indptr_ = allocate(indptr_bytes);
  } catch (...) {
    storage->Free(values_);
    storage->Free(indices_);
    throw;
  }
}

PartsMemory::~PartsMemory() {
  try {
    for (const Storage::Handle& handle : {values_, indices_, indptr_}) {
      Storage::Get()->Free(handle);
    }
  } catch (...) {
    // The process is ending.
  }
}

void PartsMemory::PointTo(SparseBlob* blob) const {
  blob->SetParts(count_, values_.dptr, static_cast<int64_t*>(indices_.dptr),
                 static_cast<int64_t*>(indptr_.dptr));
}

SparseStore::SparseStore(StorageType type, const TShape& shape, DType dtype, Device device)
    : type_(type), shape_(shape), dtype_(dtype) {
  if (type != StorageType::kRowSparse && type != StorageType::kCsr) {
    throw InvalidArgument("sparse array: storage type ", type, ", expected row_sparse or csr");
  }
  if (device.type != DeviceType::kCpu && device.type != DeviceType::kCpuPinned) {
    throw Unimplemented("sparse array: a ", type, " array on ", device,
                        "; expected the CPU, where sparse arrays are");
  }
  if (type == StorageType::kCsr ? shape.ndim() != 2 : shape.ndim() < 1) {
    throw InvalidArgument("sparse array: a ", type, " array of shape ", shape, ", expected ",
                          type == StorageType::kCsr ? "two axes" : "one axis or more");
  }
  CheckedSize row = DTypeSizeBytes(dtype);
  for (int axis = 1; axis < shape.ndim(); ++axis) row = row * shape[axis];
  if (!row.valid()) {
    throw InvalidArgument("sparse array: a row of shape ", shape, " takes more bytes than fit in ",
                          "63 bits");
  }
}

SparseBlob SparseStore::EmptyBlob() const {
  return {.storage = type_,
          .shape = shape_,
          .values = TBlob(nullptr, TShape{0}, dtype_, Device::Cpu())};
}

std::shared_ptr<PartsMemory> SparseStore::NewParts(index_t count) const {
  return std::make_shared<PartsMemory>(EmptyBlob(), count);
}

std::shared_ptr<PartsMemory> SparseStore::Memory() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (memory_ == nullptr) {
    memory_ = NewParts(0);
    SparseBlob blob = EmptyBlob();
    memory_->PointTo(&blob);
    std::fill(blob.indptr.begin(), blob.indptr.end(), 0);
  }
  return memory_;
}

SparseBlob SparseStore::UncheckedBlob() {
  SparseBlob blob = EmptyBlob();
  Memory()->PointTo(&blob);
  return blob;
}

SparseBlob SparseStore::Blob() {
  std::shared_ptr<PartsMemory> memory = Memory();
  if (!memory->is_checked()) memory = Check(memory);
  SparseBlob blob = EmptyBlob();
  memory->PointTo(&blob);
  return blob;
}

std::shared_ptr<PartsMemory> SparseStore::Check(const std::shared_ptr<PartsMemory>& memory) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (sorted_ != nullptr) return sorted_;
  }
  SparseBlob blob = EmptyBlob();
  memory->PointTo(&blob);
  if (!HasRows(blob) || ops_internal::HasSortedColumns(blob)) {
    CheckParts(blob, /*full=*/true);
    memory->set_checked(true);
    return memory;
  }
  const std::shared_ptr<PartsMemory> sorted = NewParts(blob.count());
  SparseBlob copy = EmptyBlob();
  sorted->PointTo(&copy);
  ops_internal::SortColumns(blob, &copy);
  CheckParts(copy, /*full=*/true);
  // Several operations may read the array at a time; the copy of the first stays.
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sorted_ == nullptr) sorted_ = sorted;
  return sorted_;
}

void SparseStore::SetUnchecked() {
  Memory()->set_checked(false);
  const std::lock_guard<std::mutex> lock(mutex_);
  sorted_ = nullptr;
}

void SparseStore::Replace(std::shared_ptr<PartsMemory> memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_.swap(memory);
  sorted_ = nullptr;
}

void NewSparseParts::Allocate(index_t count, SparseBlob* blob) {
  memories_.push_back(store_->NewParts(count));
  memories_.back()->PointTo(blob);
}

void NewSparseParts::Commit() {
  if (!memories_.empty()) store_->Replace(memories_.back());
}

}  // namespace tessera::ndarray_internal
