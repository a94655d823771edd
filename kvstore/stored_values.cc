#include "tessera/kvstore/stored_values.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/sparse.h"

namespace tessera::kvstore_internal {
namespace {

/// Returns the type in which values of a type are added.
DType SumTypeOf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
}

}  // namespace

void StoredValues::CheckNewLocked(const KVKey& key, const NDArray& value) const {
  if (value.is_none()) {
    throw InvalidArgument("KVStore::Init: key ", Excerpt(ToString(key)),
                          ": the value is no array (is_none())");
  }
  if (values_.contains(key)) {
    throw FailedPrecondition("KVStore::Init: key ", Excerpt(ToString(key)),
                             " has a value already, expected one Init for each key");
  }
}

void StoredValues::CheckNew(const KVKey& key, const NDArray& value) const {
  const std::lock_guard lock(mutex_);
  CheckNewLocked(key, value);
}

void StoredValues::Add(const KVKey& key, const NDArray& value) {
  const std::lock_guard lock(mutex_);
  CheckNewLocked(key, value);
  NDArray stored = value.Copy(Device::Cpu());  // before the key exists: this may throw
  const int index = static_cast<int>(values_.size());
  values_.emplace(key, Value{std::move(stored), index});
}

StoredValues::Entry StoredValues::Find(const char* operation, const KVKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto value = values_.find(key);
  if (value == values_.end()) {
    throw NotFound("KVStore::", operation, ": unknown key ", Excerpt(ToString(key)),
                   ", expected one that Init was called for");
  }
  return {value->second.array, value->second.index, updater_};
}

void StoredValues::Check(const char* operation, const KVKey& key, const NDArray& stored,
                         std::span<const NDArray> arrays) {
  if (arrays.empty()) {
    throw InvalidArgument("KVStore::", operation, ": key ", Excerpt(ToString(key)),
                          ": no array given, expected at least one");
  }
  for (const NDArray& array : arrays) {
    if (array.is_none()) {
      throw InvalidArgument("KVStore::", operation, ": key ", Excerpt(ToString(key)),
                            ": one of the arrays is none (is_none())");
    }
    if (array.shape() != stored.shape() || array.dtype() != stored.dtype()) {
      throw InvalidArgument("KVStore::", operation, ": key ", Excerpt(ToString(key)), ": found ",
                            array.shape(), " of ", array.dtype(), ", expected ", stored.shape(),
                            " of ", stored.dtype(), " as given to Init");
    }
  }
}

void StoredValues::PullRows(const KVKey& key, const NDArray& out, const NDArray& rows) const {
  const NDArray stored = Find("PullRows", key).stored;
  Check("PullRows", key, stored, {&out, 1});
  if (StorageTypeOf(out) != StorageType::kRowSparse) {
    throw InvalidArgument("KVStore::PullRows: key ", Excerpt(ToString(key)), ": the array is ",
                          StorageTypeOf(out), ", expected row_sparse");
  }
  // Like Pull, it is no part of what the tape differentiates.
  const autograd::Pause pause(autograd::IsTraining());
  const NDArray inputs[] = {stored, rows};
  Invoke("_sparse_retain", inputs, {&out, 1});
}

void StoredValues::set_updater(KVStore::Updater updater) {
  auto shared = std::make_shared<const KVStore::Updater>(std::move(updater));
  const std::lock_guard lock(mutex_);
  updater_ = std::move(shared);
}

void StoredValues::Update(const KVKey& key, const Entry& entry, const NDArray& received,
                          int priority) {
  if (*entry.updater) {
    (*entry.updater)(key, received, entry.stored);
  } else {
    CopyFromTo(received, entry.stored, priority);
  }
}

NDArray OnHost(const NDArray& array) {
  return array.device().type == DeviceType::kGpu ? array.Copy(Device::Cpu()) : array;
}

NDArray SumOnHost(std::span<const NDArray> values, int priority) {
  if (values.size() == 1) return OnHost(values[0]);
  const DType dtype = values[0].dtype(), sum_type = SumTypeOf(dtype);
  const auto new_array = [&](DType type) {
    const StorageType storage = StorageTypeOf(values[0]);
    if (storage != StorageType::kDefault) {
      return sparse::Zeros(storage, values[0].shape(), Device::Cpu(), type);
    }
    return NDArray(values[0].shape(), Device::Cpu(), type, /*delay_alloc=*/true, "KVStore");
  };
  NDArray sum = new_array(sum_type);
  CopyFromTo(values[0], sum, priority);
  for (const NDArray& value : values.subspan(1)) {
    NDArray host = OnHost(value);
    if (sum_type != dtype) host = host.AsType(sum_type);
    sum += host;
  }
  if (sum_type == dtype) return sum;
  NDArray rounded = new_array(dtype);
  CopyFromTo(sum, rounded, priority);
  return rounded;
}

}  // namespace tessera::kvstore_internal
