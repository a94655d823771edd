#include "tessera/ndarray/sparse/sparse_parts.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/memory/sparse_store.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"

namespace tessera::ndarray_internal {
namespace {

/// Returns the elements of a part.
TBlob BlobOf(const SparseBlob& parts, SparsePart part) {
  if (part == SparsePart::kValues) return parts.values;
  const std::span<int64_t> numbers = part == SparsePart::kIndices ? parts.indices : parts.indptr;
  return TBlob(numbers.data(), TShape{static_cast<index_t>(numbers.size())}, DType::kInt64,
               Device::Cpu());
}

}  // namespace

NDArray SparseWithRoom(StorageType type, const TShape& shape, Device device, DType dtype,
                       index_t count) {
  if (count < 0) {
    throw InvalidArgument("sparse array: ", count, " rows or elements, expected 0 or more");
  }
  NDArray array = ArrayAccess::NewSparse(type, shape, device, dtype, "NDArray");
  if (count == 0) return array;
  SparseStore& store = *ArrayAccess::Sparse(array);
  const std::shared_ptr<PartsMemory> memory = store.NewParts(count);
  memory->set_checked(false);
  store.Replace(memory);
  const SparseBlob parts = store.UncheckedBlob();
  const int64_t values_bytes = parts.values.Size() * DTypeSizeBytes(dtype);
  std::fill_n(static_cast<char*>(parts.values.dptr_), values_bytes, 0);
  std::fill(parts.indices.begin(), parts.indices.end(), 0);
  std::fill(parts.indptr.begin(), parts.indptr.end(), 0);
  return array;
}

void WritePart(const NDArray& array, SparsePart part, const NDArray& from) {
  SparseStore* const store = ArrayAccess::Sparse(array);
  if (store == nullptr || (part == SparsePart::kIndPtr && store->type() != StorageType::kCsr)) {
    throw InvalidArgument("sparse array: an array of shape ", array.shape(), " and storage type ",
                          StorageTypeOf(array), " has no such part");
  }
  if (from.is_none() || ArrayAccess::Sparse(from) != nullptr) {
    throw InvalidArgument("sparse array: a part is written from a ", StorageTypeOf(from),
                          " array, expected a dense one");
  }
  const auto target = [array, store, part, from] {
    const TBlob to = BlobOf(store->UncheckedBlob(), part);
    if (from.shape().Size() != to.Size()) {
      throw InvalidArgument("sparse array: ", from.shape().Size(), " numbers are given for a part ",
                            "of ", to.Size(), " of an array of shape ", array.shape());
    }
    return to;
  };
  // A wrong call is refused here, since an operation that fails leaves its error with the array.
  array.WaitToRead();
  target();
  Variable* const written[] = {ArrayAccess::Var(array)};
  Engine::Get()->PushSync(
      [store, from, target](const RunContext&) {
        const TBlob to = target();
        store->SetUnchecked();
        ops_internal::CopyConverted(ArrayAccess::Data(from), to);
      },
      Device::Cpu(), {ArrayAccess::Var(from)}, {}, {.name = "WritePart", .updates = written});
  array.WaitToRead();
}

}  // namespace tessera::ndarray_internal
