#include "tessera/compat/mxnet/custom/lent_arrays.h"

#include <utility>

#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_memory.h"

namespace tessera::mxnet {
namespace {

/// Blocks until every operation on the array is complete. Throws the error of one.
void AwaitUsers(const NDArray& array) {
  Engine* const engine = Engine::Get();
  if (engine->IsIdle(array.var())) {
    engine->Throw(array.var());
  } else {
    array.WaitToWrite();
  }
}

}  // namespace

void LentArrays::Add(ArrayTag tag, const TBlob& blob) {
  AddArray(tag, NDArray(blob), /*is_view=*/true);
}

void LentArrays::AddNew(ArrayTag tag, const TShape& shape, DType dtype, Device device) {
  AddArray(tag, NDArray(shape, device, dtype, /*delay_alloc=*/true, "Custom"), /*is_view=*/false);
}

void LentArrays::AddUnread(ArrayTag tag) { AddArray(tag, NDArray(TShape{0}), /*is_view=*/false); }

void LentArrays::AddArray(ArrayTag tag, NDArray array, bool is_view) {
  arrays_.push_back(std::move(array));
  is_view_.push_back(is_view);
  tags_.push_back(static_cast<int>(tag));
}

std::vector<NDArrayHandle> LentArrays::MakeHandles() const {
  std::vector<NDArrayHandle> handles;
  for (const NDArray& array : arrays_) handles.push_back(Arrays().Add(array));
  return handles;
}

std::exception_ptr LentArrays::TakeBack() {
  std::exception_ptr first;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    // A wait that reports an error does not wait for readers, so it is repeated once.
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        AwaitUsers(arrays_[i]);
        if (is_view_[i]) ndarray_internal::ArrayAccess::EndLoan(arrays_[i]);
        break;
      } catch (...) {
        if (first == nullptr) first = std::current_exception();
      }
    }
  }
  return first;
}

}  // namespace tessera::mxnet
