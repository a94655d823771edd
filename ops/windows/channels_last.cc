#include "tessera/ops/windows/channels_last.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/move.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/registry.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {
namespace {

/// Returns whether the array of that shape is there and has channels. Arrays that a call leaves out
/// have no dimension.
bool HasChannels(const TShape& shape) { return shape.rank_known() && shape.ndim() > 2; }

/// Returns (batch, channel, position…) for (batch, position…, channel).
TShape ChannelsFirst(const TShape& shape) {
  if (!HasChannels(shape)) return shape;
  TShape result = shape;
  result[1] = shape[shape.ndim() - 1];
  for (int i = 2; i < shape.ndim(); ++i) result[i] = shape[i - 1];
  return result;
}

/// Returns (batch, position…, channel) for (batch, channel, position…).
TShape ChannelsLast(const TShape& shape) {
  if (!HasChannels(shape)) return shape;
  TShape result = shape;
  result[shape.ndim() - 1] = shape[1];
  for (int i = 2; i < shape.ndim(); ++i) result[i - 1] = shape[i];
  return result;
}

/// The array of channels last, seen with channels first.
StridedView SeenChannelsFirst(const TBlob& array) {
  std::vector<int> axes = {0, array.ndim() - 1};
  for (int i = 1; i + 1 < array.ndim(); ++i) axes.push_back(i);
  return StridedView(array).Permuted(axes);
}

/// Gives arrays places in a workspace, one after the other.
class Places {
 public:
  /// `begin` may be null, to count the bytes.
  explicit Places(void* begin) : begin_(static_cast<char*>(begin)) {}

  /// Returns the arrays, of which the first `num_images` have channels first and places of their
  /// own.
  std::vector<TBlob> Take(std::span<const TBlob> arrays, size_t num_images) {
    std::vector<TBlob> taken(arrays.begin(), arrays.end());
    for (size_t i = 0; i < std::min(num_images, taken.size()); ++i) {
      TBlob& array = taken[i];
      if (!HasChannels(array.shape_)) continue;
      array.shape_ = ChannelsFirst(array.shape_);
      array.dptr_ = begin_ == nullptr ? nullptr : begin_ + size_bytes_;
      const int64_t bytes = array.Size() * DTypeSizeBytes(array.type_flag_);
      size_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    return taken;
  }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  static constexpr int64_t kAlignment = 64;

  char* const begin_;
  int64_t size_bytes_ = 0;
};

/// A part of the workspace of a call.
class PartOfWorkspace final : public Resource {
 public:
  PartOfWorkspace(Device device, void* begin, int64_t size_bytes)
      : device_(device), begin_(begin), size_bytes_(size_bytes) {}

  ResourceRequest request() const override { return {ResourceRequest::Type::kTempSpace}; }
  Device device() const override { return device_; }
  void* GetSpaceBytes(int64_t size_bytes) override {
    if (size_bytes > size_bytes_) {
      throw Internal("a workspace of ", size_bytes, " bytes is requested, but ", size_bytes_,
                     " are stated");
    }
    return size_bytes == 0 ? nullptr : begin_;
  }
  PhiloxState* GetRandomState() override {
    throw FailedPrecondition("a workspace has no random numbers");
  }

 private:
  const Device device_;
  void* const begin_;
  const int64_t size_bytes_;
};

/// Copies images into arrays with channels first. Arrays without memory, which a call does not
/// read, are left out.
void MoveIn(std::span<const TBlob> images, std::span<const TBlob> moved, size_t num_images,
            const OpContext& context) {
  for (size_t i = 0; i < std::min(num_images, images.size()); ++i) {
    if (!HasChannels(images[i].shape_) || images[i].dptr_ == nullptr) continue;
    Move(SeenChannelsFirst(images[i]), StridedView(moved[i]), kWriteTo, context);
  }
}

/// Copies results with channels first into images, as the requests say.
void MoveOut(std::span<const TBlob> moved, std::span<const TBlob> images, size_t num_images,
             std::span<const OpReqType> req, const OpContext& context) {
  for (size_t i = 0; i < std::min(num_images, images.size()); ++i) {
    if (req[i] == kNullOp || !HasChannels(images[i].shape_)) continue;
    Move(StridedView(moved[i]), SeenChannelsFirst(images[i]), req[i] == kAddTo ? kAddTo : kWriteTo,
         context);
  }
}

class ChannelsLastOperator final : public Operator {
 public:
  ChannelsLastOperator(std::unique_ptr<Operator> inner, size_t num_images)
      : inner_(std::move(inner)), num_images_(num_images) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const std::vector<OpReqType> requests = Requests(req, req.size());
    Places counted(nullptr);
    const std::vector<TBlob> counted_in = counted.Take(in_data, num_images_);
    const std::vector<TBlob> counted_out = counted.Take(out_data, out_data.size());
    const int64_t rest =
        inner_->ForwardWorkspaceBytes(ParallelWidth(), counted_in, requests, counted_out)
            .value_or(0);
    void* const space = context.requested[0]->GetSpaceBytes(counted.size_bytes() + rest);
    Places places(space);
    const std::vector<TBlob> in = places.Take(in_data, num_images_);
    const std::vector<TBlob> out = places.Take(out_data, out_data.size());
    MoveIn(in_data, in, num_images_, context);
    Within(context, space, places.size_bytes(), rest,
           [&](const OpContext& inside) { inner_->Forward(inside, in, requests, out); });
    MoveOut(out, out_data, out_data.size(), req, context);
  }

  std::optional<int64_t> ForwardWorkspaceBytes(int threads, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob> out_data) const override {
    Places counted(nullptr);
    const std::vector<TBlob> in = counted.Take(in_data, num_images_);
    const std::vector<TBlob> out = counted.Take(out_data, out_data.size());
    return counted.size_bytes() +
           inner_->ForwardWorkspaceBytes(threads, in, Requests(req, req.size()), out).value_or(0);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const std::vector<OpReqType> requests = Requests(req, num_images_);
    const Gradient counted(nullptr, num_images_, out_grad, in_data, out_data, in_grad);
    const int64_t rest =
        inner_
            ->BackwardWorkspaceBytes(ParallelWidth(), counted.out_grad, counted.in_data,
                                     counted.out_data, requests, counted.in_grad)
            .value_or(0);
    void* const space = context.requested[0]->GetSpaceBytes(counted.size_bytes + rest);
    const Gradient call(space, num_images_, out_grad, in_data, out_data, in_grad);
    MoveIn(out_grad, call.out_grad, out_grad.size(), context);
    MoveIn(in_data, call.in_data, num_images_, context);
    MoveIn(out_data, call.out_data, out_data.size(), context);
    Within(context, space, call.size_bytes, rest, [&](const OpContext& inside) {
      inner_->Backward(inside, call.out_grad, call.in_data, call.out_data, requests, call.in_grad);
    });
    MoveOut(call.in_grad, in_grad, num_images_, req, context);
  }

  std::optional<int64_t> BackwardWorkspaceBytes(int threads, std::span<const TBlob> out_grad,
                                                std::span<const TBlob> in_data,
                                                std::span<const TBlob> out_data,
                                                std::span<const OpReqType> req,
                                                std::span<const TBlob> in_grad) const override {
    const Gradient counted(nullptr, num_images_, out_grad, in_data, out_data, in_grad);
    return counted.size_bytes + inner_
                                    ->BackwardWorkspaceBytes(threads, counted.out_grad,
                                                             counted.in_data, counted.out_data,
                                                             Requests(req, num_images_),
                                                             counted.in_grad)
                                    .value_or(0);
  }

 private:
  /// The arrays of a call of Backward, with channels first.
  struct Gradient {
    Gradient(void* space, size_t num_images, std::span<const TBlob> out_grads,
             std::span<const TBlob> inputs, std::span<const TBlob> outputs,
             std::span<const TBlob> in_grads) {
      Places places(space);
      out_grad = places.Take(out_grads, out_grads.size());
      in_data = places.Take(inputs, num_images);
      out_data = places.Take(outputs, outputs.size());
      in_grad = places.Take(in_grads, num_images);
      size_bytes = places.size_bytes();
    }

    std::vector<TBlob> out_grad, in_data, out_data, in_grad;
    int64_t size_bytes;
  };

  /// Returns the requests with which the first `num_moved` results are computed: they are written
  /// to the workspace, if they are wanted.
  static std::vector<OpReqType> Requests(std::span<const OpReqType> req, size_t num_moved) {
    std::vector<OpReqType> requests(req.begin(), req.end());
    for (size_t i = 0; i < std::min(num_moved, requests.size()); ++i) {
      if (requests[i] != kNullOp) requests[i] = kWriteTo;
    }
    return requests;
  }

  /// Calls body with a context whose workspace is the `rest` bytes that lie `used` bytes behind the
  /// beginning of the call's own.
  template <typename Body>
  static void Within(const OpContext& context, void* space, int64_t used, int64_t rest,
                     const Body& body) {
    PartOfWorkspace part(context.requested[0]->device(),
                         rest == 0 ? nullptr : static_cast<char*>(space) + used, rest);
    Resource* const requested[] = {&part};
    OpContext inside = context;
    inside.requested = requested;
    body(inside);
  }

  const std::unique_ptr<Operator> inner_;
  const size_t num_images_;
};

}  // namespace

bool InferChannelsLast(
    size_t num_images, std::vector<TShape>* in_shape, std::vector<TShape>* out_shape,
    const std::function<bool(std::vector<TShape>*, std::vector<TShape>*)>& infer) {
  const auto convert = [num_images](const auto& function, std::vector<TShape>* in,
                                    std::vector<TShape>* out) {
    for (size_t i = 0; i < std::min(num_images, in->size()); ++i) (*in)[i] = function((*in)[i]);
    for (TShape& shape : *out) shape = function(shape);
  };
  std::vector<TShape> in = *in_shape, out = *out_shape;
  convert(ChannelsFirst, &in, &out);
  try {
    const bool known = infer(&in, &out);
    convert(ChannelsLast, &in, &out);
    *in_shape = std::move(in);
    *out_shape = std::move(out);
    return known;
  } catch (const Error& error) {
    throw error.WithMessage(std::string(error.what()) +
                            " (shapes as they are with the channels in front)");
  }
}

std::unique_ptr<Operator> MakeChannelsLast(const OperatorProperty& property, size_t num_images,
                                           std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) {
  ParameterMap parameters = property.GetParams();
  parameters["layout"] = "None";
  const auto inner = OperatorRegistry::Get().FindOrCreate(property.RegisteredName(), parameters);
  std::vector<TShape> shapes(in_shape.begin(), in_shape.end());
  for (size_t i = 0; i < std::min(num_images, shapes.size()); ++i) {
    shapes[i] = ChannelsFirst(shapes[i]);
  }
  return std::make_unique<ChannelsLastOperator>(
      inner->CreateOperator(Device::Cpu(), shapes, in_type), num_images);
}

}  // namespace tessera::ops_internal
