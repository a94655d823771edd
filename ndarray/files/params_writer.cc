// Writes MXNet's `.params` files and raw arrays; params_format.h describes them.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/files/byte_sink.h"
#include "tessera/ndarray/files/params_format.h"
#include "tessera/ndarray/memory/sparse_store.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using namespace ndarray_internal;  // NOLINT

/// Passes bytes on, and knows their checksum.
class ChecksumSink final : public ByteSink {
 public:
  explicit ChecksumSink(ByteSink& sink) : sink_(sink) {}
  void Write(const void* data, int64_t size_bytes) override {
    checksum_.Add(data, size_bytes);
    sink_.Write(data, size_bytes);
  }
  uint32_t checksum() const { return checksum_.value(); }

 private:
  ByteSink& sink_;
  Checksum checksum_;
};

bool IsWrittenAsV3(const TShape& shape, ShapeMeaning shapes) {
  if (shape.ndim() == 0 || shapes == ShapeMeaning::kNumpy) return true;
  return shape.Size() == 0 && shapes == ShapeMeaning::kMixed;
}

void WriteShape(const TShape& shape, ByteSink& sink) {
  sink.WriteNumber<int32_t>(shape.ndim());
  for (const index_t extent : shape) sink.WriteNumber<int64_t>(extent);
}

void WriteContext(ByteSink& sink) {
  // The file always names the CPU, because a reader without the array's device could not use the
  // file otherwise.
  sink.WriteNumber(static_cast<int32_t>(DeviceType::kCpu));
  sink.WriteNumber<int32_t>(0);
}

void WriteType(DType dtype, ByteSink& sink) { sink.WriteNumber(static_cast<int32_t>(dtype)); }

/// Writes a sparse array, in the version that MXNet has for it.
void WriteSparse(const NDArray& array, SparseStore* store, ByteSink& sink) {
  array.WaitToRead();
  const SparseBlob parts = store->Blob();
  std::vector<std::span<const int64_t>> aux;
  if (parts.storage == StorageType::kCsr) aux.push_back(parts.indptr);
  aux.push_back(parts.indices);
  sink.WriteNumber<uint32_t>(kMagicV2);
  sink.WriteNumber(static_cast<int32_t>(parts.storage));
  WriteShape(parts.values.shape_, sink);
  WriteShape(array.shape(), sink);
  WriteContext(sink);
  WriteType(array.dtype(), sink);
  for (const std::span<const int64_t> numbers : aux) {
    WriteType(DType::kInt64, sink);
    WriteShape({static_cast<index_t>(numbers.size())}, sink);
  }
  sink.Write(parts.values.dptr_, parts.values.Size() * DTypeSizeBytes(array.dtype()));
  for (const std::span<const int64_t> numbers : aux) {
    sink.Write(numbers.data(), static_cast<int64_t>(numbers.size_bytes()));
  }
}

void WriteArray(const NDArray& array, ShapeMeaning shapes, ByteSink& sink) {
  SparseStore* const store = ArrayAccess::Sparse(array);
  if (store != nullptr) return WriteSparse(array, store, sink);
  const TShape& shape = array.shape();
  sink.WriteNumber<uint32_t>(IsWrittenAsV3(shape, shapes) ? kMagicV3 : kMagicV2);
  sink.WriteNumber<int32_t>(kDenseStorage);
  WriteShape(shape, sink);
  WriteContext(sink);
  WriteType(array.dtype(), sink);
  WriteElements(array, sink);
}

/// Waits for the arrays and throws their errors. `name` begins the errors of the list.
void RequireWritable(const std::string& name, const NDArrayList& list) {
  std::set<std::string_view> names;
  for (const NamedArray& entry : list.arrays) {
    if (entry.array.is_none()) {
      throw InvalidArgument(name, ": entry \"", Excerpt(entry.name), "\" is no array (is_none())");
    }
    if (list.has_names && !names.insert(entry.name).second) {
      throw InvalidArgument(name, ": found two arrays with the name \"", Excerpt(entry.name),
                            "\"; expected distinct names");
    }
  }
  for (const NamedArray& entry : list.arrays) entry.array.WaitToRead();
}

void WriteList(const NDArrayList& list, ByteSink& to) {
  ChecksumSink sink(to);
  sink.WriteNumber(kListMagic);
  sink.WriteNumber<uint64_t>(0);
  sink.WriteNumber<uint64_t>(list.arrays.size());
  for (const NamedArray& entry : list.arrays) WriteArray(entry.array, list.shapes, sink);
  sink.WriteNumber<uint64_t>(list.has_names ? list.arrays.size() : 0);
  if (list.has_names) {
    for (const NamedArray& entry : list.arrays) {
      sink.WriteNumber<uint64_t>(entry.name.size());
      sink.WriteText(entry.name);
    }
  }
  if (list.digest) {
    sink.WriteNumber(kDigestMagic);
    sink.WriteNumber(*list.digest);
  }
  const uint32_t checksum = sink.checksum();
  sink.WriteNumber(kChecksumMagic);
  sink.WriteNumber(checksum);
}

void SaveList(const std::string& operation, const std::string& path, const NDArrayList& list) {
  RequireWritable(operation + ": " + path, list);
  FileSink sink(operation, path);
  WriteList(list, sink);
  sink.Commit();
}

}  // namespace

void SaveNDArrayList(const std::string& path, const NDArrayList& list) {
  SaveList("SaveNDArrayList", path, list);
}

std::string SerializeNDArrayList(const NDArrayList& list) {
  RequireWritable("SerializeNDArrayList", list);
  StringSink sink;
  WriteList(list, sink);
  return std::move(sink.bytes());
}

void SaveNDArrays(const std::string& path, const std::map<std::string, NDArray>& arrays,
                  std::optional<uint64_t> digest) {
  NDArrayList list{.digest = digest};
  for (const auto& [name, array] : arrays) list.arrays.push_back({name, array});
  SaveList("SaveNDArrays", path, list);
}

std::string SerializeArray(const NDArray& array, ShapeMeaning shapes) {
  if (array.is_none()) throw InvalidArgument("SerializeArray: found no array (is_none())");
  array.WaitToRead();
  StringSink sink;
  WriteArray(array, shapes, sink);
  return std::move(sink.bytes());
}

}  // namespace tessera
