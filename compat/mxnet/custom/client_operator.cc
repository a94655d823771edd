#include "tessera/compat/mxnet/custom/client_operator.h"

#include <exception>
#include <optional>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/profiling/profiler.h"
#include "tessera/ndarray/autograd.h"

namespace tessera::mxnet {
namespace {

/// Sets NumpyShape() for a scope.
class NumpyShapeScope {
 public:
  explicit NumpyShapeScope(bool value) : saved_(SetNumpyShapeOfThread(value)) {}
  ~NumpyShapeScope() { SetNumpyShapeOfThread(saved_); }
  NumpyShapeScope(const NumpyShapeScope&) = delete;
  NumpyShapeScope& operator=(const NumpyShapeScope&) = delete;

 private:
  const bool saved_;
};

bool IsEmpty(const TBlob& blob) { return !blob.shape_.rank_known(); }

/// Adds values that the client reads; empty blobs are those that it has not asked for.
void AddRead(ArrayTag tag, std::span<const TBlob> blobs, LentArrays* arrays) {
  for (const TBlob& blob : blobs) {
    if (IsEmpty(blob)) {
      arrays->AddUnread(tag);
    } else {
      arrays->Add(tag, blob);
    }
  }
}

}  // namespace

ClientOperator::ClientOperator(const ClientProperty& property, Device device,
                               std::span<const TShape> in_shape, std::span<const DType> in_type)
    : name_(property.Describe()),
      profiled_names_(property.profiled_names()),
      device_(device),
      num_arguments_(property.num_arguments()),
      num_outputs_(property.num_outputs()),
      in_shape_(in_shape.begin(), in_shape.end()),
      out_shape_(num_outputs_),
      in_type_(in_type.begin(), in_type.end()),
      out_type_(num_outputs_, DType::kUnknown),
      numpy_shape_(NumpyShape()) {
  // The only output is always wanted.
  if (num_outputs_ == 1) return;
  property.InferShape(&in_shape_, &out_shape_);
  property.InferType(&in_type_, &out_type_);
}

void ClientOperator::AddWritten(ArrayTag tag, std::span<const TBlob> blobs,
                                std::span<const OpReqType> req, std::span<const TShape> shapes,
                                std::span<const DType> types, LentArrays* arrays) const {
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (req[i] == kNullOp) {
      arrays->AddNew(tag, shapes[i], types[i], device_);
    } else {
      arrays->Add(tag, blobs[i]);
    }
  }
}

void ClientOperator::Forward(const OpContext& context, std::span<const TBlob> in_data,
                             std::span<const OpReqType> req, std::span<const TBlob> out_data) {
  LentArrays arrays;
  AddRead(ArrayTag::kInData, in_data.first(num_arguments_), &arrays);
  AddWritten(ArrayTag::kOutData, out_data, req, out_shape_, out_type_, &arrays);
  AddRead(ArrayTag::kAux, in_data.subspan(num_arguments_), &arrays);
  Run(/*is_backward=*/false, context.is_train, req.first(num_outputs_), &arrays);
}

void ClientOperator::Backward(const OpContext& context, std::span<const TBlob> out_grad,
                              std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                              std::span<const OpReqType> req, std::span<const TBlob> in_grad) {
  LentArrays arrays;
  AddRead(ArrayTag::kOutGrad, out_grad, &arrays);
  AddRead(ArrayTag::kInData, in_data.first(num_arguments_), &arrays);
  AddRead(ArrayTag::kOutData, out_data, &arrays);
  AddWritten(ArrayTag::kInGrad, in_grad.first(num_arguments_), req, in_shape_, in_type_, &arrays);
  AddRead(ArrayTag::kAux, in_data.subspan(num_arguments_), &arrays);
  Run(/*is_backward=*/true, context.is_train, req.first(num_arguments_), &arrays);
}

void ClientOperator::Run(bool is_backward, bool is_train, std::span<const OpReqType> req,
                         LentArrays* arrays) {
  std::vector<int> requests;
  for (const OpReqType request : req) requests.push_back(static_cast<int>(request));
  const std::vector<NDArrayHandle> handles = arrays->MakeHandles();
  bool has_succeeded = false;
  try {
    const autograd::Scope modes(/*recording=*/false, is_train);
    const NumpyShapeScope shapes(numpy_shape_);
    std::optional<ClientCallTimer> timer;
    if (profiled_names_ != nullptr) {
      timer.emplace(is_backward ? profiled_names_->backward : profiled_names_->forward);
    }
    has_succeeded = Call({.is_backward = is_backward,
                          .handles = handles,
                          .tags = arrays->tags(),
                          .requests = requests,
                          .is_train = is_train});
  } catch (...) {
    for (const NDArrayHandle handle : handles) Arrays().Remove(handle);
    throw;
  }
  const std::exception_ptr error = arrays->TakeBack();
  if (!has_succeeded) {
    throw Internal(name_, ": the client's ", is_backward ? "backward" : "forward",
                   " has failed; its error is printed");
  }
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace tessera::mxnet
