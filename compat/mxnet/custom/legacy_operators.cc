// The operators "_NDArray" and "_Native": MXNet's older kinds of operators that a client writes.
// Their parameter `info` is the address, in hexadecimal digits, of a struct of functions that lives
// as long as the operator. Functions of _NDArray take arrays, and those of _Native float32 memory.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/compat/mxnet/custom/client_operator.h"
#include "tessera/compat/mxnet/custom/client_property.h"

namespace tessera::mxnet {
namespace {

/// The struct of _NDArray. Each p_… is the last argument of the function of that name.
struct NDArrayOpInfo {
  bool (*forward)(int, void**, int*, void*);
  bool (*backward)(int, void**, int*, void*);
  bool (*infer_shape)(int, int*, int**, void*);
  bool (*list_outputs)(char***, void*);
  bool (*list_arguments)(char***, void*);
  bool (*declare_backward_dependency)(const int*, const int*, const int*, int*, int**, void*);
  void* p_forward;
  void* p_backward;
  void* p_infer_shape;
  void* p_list_outputs;
  void* p_list_arguments;
  void* p_declare_backward_dependency;
};

/// The struct of _Native.
struct NativeOpInfo {
  void (*forward)(int, float**, int*, unsigned**, int*, void*);
  void (*backward)(int, float**, int*, unsigned**, int*, void*);
  void (*infer_shape)(int, int*, int**, void*);
  void (*list_outputs)(char***, void*);
  void (*list_arguments)(char***, void*);
  void* p_forward;
  void* p_backward;
  void* p_infer_shape;
  void* p_list_outputs;
  void* p_list_arguments;
};

/// Calls a function of the client. Returns what it returns, or true if that is void. Throws
/// Error(kFailedPrecondition) after MXNotifyShutdown.
template <typename Result, typename... Parameters, typename... Arguments>
bool CallClient(Result (*function)(Parameters...), Arguments... arguments) {
  if (function == nullptr) return false;
  const CallbackScope scope;
  scope.RequireAllowed();
  if constexpr (std::is_void_v<Result>) {
    function(arguments...);
    return true;
  } else {
    return function(arguments...);
  }
}

/// The part that both kinds share. Their aux states are none, and all values are of the first one's
/// type.
template <typename Info>
class LegacyProperty : public ClientProperty {
 public:
  void Init(const ParameterMap& parameters) override {
    SetParameters(parameters);
    for (const auto& [key, value] : parameters) Read(key, value);
    if (info_ == nullptr) {
      throw InvalidArgument(TypeString(), ": the parameter info is missing or null");
    }
    char **arguments = nullptr, **outputs = nullptr;
    if (!CallClient(info_->list_arguments, &arguments, info_->p_list_arguments) ||
        !CallClient(info_->list_outputs, &outputs, info_->p_list_outputs)) {
      throw InvalidArgument(TypeString(), ": the client's lists of names have failed");
    }
    SetNames(TextsUntilNull(arguments, "list_arguments"), TextsUntilNull(outputs, "list_outputs"),
             {});
    std::vector<int> ids(2 * num_outputs() + num_arguments());
    std::iota(ids.begin(), ids.end(), 0);
    ReadBackwardDependency(ids);
  }

 protected:
  const Info& info() const { return *info_; }

  /// Calls SetBackwardReads with some of `ids`.
  virtual void ReadBackwardDependency(std::span<const int> ids) = 0;
  /// Reads a parameter other than info. Throws Error(kInvalidArgument).
  virtual void ReadOther(const std::string& key, const std::string& /*value*/) {
    throw InvalidArgument(TypeString(), ": there is no parameter \"", Excerpt(key), "\"");
  }

  bool CallInferShape(std::vector<int>* ranks, std::vector<int*>* extents) const override {
    return CallClient(info_->infer_shape, static_cast<int>(ranks->size()), ranks->data(),
                      extents->data(), info_->p_infer_shape);
  }
  bool CallInferType(std::vector<int>* types) const override {
    constexpr int kUnknown = static_cast<int>(DType::kUnknown);
    int known = kUnknown;
    for (const int type : *types) known = known == kUnknown ? type : known;
    for (int& type : *types) type = type == kUnknown ? known : type;
    return true;
  }

 private:
  void Read(const std::string& key, const std::string& value) {
    if (key != "info") return ReadOther(key, value);
    char* end = nullptr;
    const auto address = static_cast<uintptr_t>(std::strtoull(value.c_str(), &end, 16));
    if (value.empty() || *end != '\0' || address % alignof(Info) != 0) {
      throw InvalidArgument(TypeString(), ": info is \"", Excerpt(value),
                            "\", expected an address in hexadecimal digits");
    }
    info_ = reinterpret_cast<const Info*>(address);  // NOLINT: MXNet passes it so
  }

  const Info* info_ = nullptr;
};

class NDArrayOperator final : public ClientOperator {
 public:
  NDArrayOperator(const ClientProperty& property, Device device, std::span<const TShape> in_shape,
                  std::span<const DType> in_type, const NDArrayOpInfo& info)
      : ClientOperator(property, device, in_shape, in_type), info_(info) {}

 protected:
  bool Call(const ClientCall& call) override {
    std::vector<NDArrayHandle> handles = call.handles;
    std::vector<int> tags = call.tags;
    return CallClient(call.is_backward ? info_.backward : info_.forward,
                      static_cast<int>(handles.size()), handles.data(), tags.data(),
                      call.is_backward ? info_.p_backward : info_.p_forward);
  }

 private:
  const NDArrayOpInfo& info_;
};

class NDArrayProperty final : public LegacyProperty<NDArrayOpInfo> {
 public:
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override {
    return std::make_unique<NDArrayOperator>(*this, device, in_shape, in_type, info());
  }
  static std::vector<ParameterInfo> DescribeParameters() {
    return {{.name = "info",
             .type = "ptr",
             .required = true,
             .description = "The address of the client's functions."}};
  }

 protected:
  void ReadBackwardDependency(std::span<const int> ids) override {
    int count = 0;
    int* needed = nullptr;
    if (!CallClient(info().declare_backward_dependency, ids.data(), ids.data() + num_outputs(),
                    ids.data() + num_outputs() + num_arguments(), &count, &needed,
                    info().p_declare_backward_dependency) ||
        count < 0) {
      throw InvalidArgument("_NDArray: the client's declare_backward_dependency has failed");
    }
    SetBackwardReads(ListOf(needed, static_cast<size_t>(count), "deps"));
  }
};

/// The memory of values as _Native's functions take it.
class NativeMemory {
 public:
  void Add(ArrayTag tag, std::span<const TBlob> blobs) {
    for (const TBlob& blob : blobs) AddBlob(tag, blob, static_cast<float*>(blob.dptr_));
  }
  /// Adds values that are written, with memory for those that nobody wants.
  void AddWritten(ArrayTag tag, std::span<const TBlob> blobs, std::span<const OpReqType> req,
                  std::span<const TShape> shapes) {
    for (size_t i = 0; i < blobs.size(); ++i) {
      if (req[i] != kNullOp) {
        AddBlob(tag, blobs[i], static_cast<float*>(blobs[i].dptr_));
        continue;
      }
      unwanted_.emplace_back(static_cast<size_t>(shapes[i].Size()));
      AddBlob(tag, TBlob(nullptr, shapes[i], DType::kFloat32, Device::Cpu()),
              unwanted_.back().data());
    }
  }

  bool Call(void (*function)(int, float**, int*, unsigned**, int*, void*), void* data) {
    std::vector<unsigned*> shapes;
    for (std::vector<unsigned>& shape : shapes_) shapes.push_back(shape.data());
    return CallClient(function, static_cast<int>(pointers_.size()), pointers_.data(), ranks_.data(),
                      shapes.data(), tags_.data(), data);
  }

 private:
  void AddBlob(ArrayTag tag, const TBlob& blob, float* pointer) {
    pointers_.push_back(pointer);
    shapes_.emplace_back(blob.shape_.begin(), blob.shape_.end());
    ranks_.push_back(blob.shape_.ndim());
    tags_.push_back(static_cast<int>(tag));
  }

  std::vector<float*> pointers_;
  std::vector<std::vector<unsigned>> shapes_;
  std::vector<int> ranks_, tags_;
  std::vector<std::vector<float>> unwanted_;
};

class NativeOperator final : public Operator {
 public:
  NativeOperator(const NativeOpInfo& info, std::vector<TShape> in_shape,
                 std::vector<TShape> out_shape)
      : info_(info), in_shape_(std::move(in_shape)), out_shape_(std::move(out_shape)) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    NativeMemory memory;
    memory.Add(ArrayTag::kInData, in_data);
    memory.AddWritten(ArrayTag::kOutData, out_data, req, out_shape_);
    if (!memory.Call(info_.forward, info_.p_forward)) throw Internal("there is no forward");
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    NativeMemory memory;
    memory.Add(ArrayTag::kInData, in_data);
    memory.Add(ArrayTag::kOutData, out_data);
    memory.AddWritten(ArrayTag::kInGrad, in_grad, req, in_shape_);
    // A loss has no gradient of its output.
    if (!out_grad.empty() && out_grad[0].shape_.rank_known()) {
      memory.Add(ArrayTag::kOutGrad, out_grad);
    }
    if (!memory.Call(info_.backward, info_.p_backward)) throw Internal("there is no backward");
  }

  bool AcceptsAddTo() const override { return false; }

 private:
  const NativeOpInfo& info_;
  const std::vector<TShape> in_shape_, out_shape_;
};

class NativeProperty final : public LegacyProperty<NativeOpInfo> {
 public:
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override {
    for (const DType type : in_type) {
      if (type == DType::kFloat32 && device.dev_mask() == cpu::kDevMask) continue;
      throw Unimplemented("_Native: an input is ", type, " on ", device,
                          ", expected float32 in the host's memory");
    }
    std::vector<TShape> in(in_shape.begin(), in_shape.end()), out(num_outputs());
    InferShape(&in, &out);
    return std::make_unique<NativeOperator>(info(), std::move(in), std::move(out));
  }
  static std::vector<ParameterInfo> DescribeParameters() {
    std::vector<ParameterInfo> parameters = NDArrayProperty::DescribeParameters();
    parameters.push_back({.name = "need_top_grad",
                          .type = "boolean",
                          .default_value = "True",
                          .description = "Whether backward reads the gradient of the outputs."});
    return parameters;
  }

 protected:
  void ReadOther(const std::string& key, const std::string& value) override {
    if (key != "need_top_grad") return LegacyProperty::ReadOther(key, value);
    needs_out_grad_ = ops_internal::ParameterText<bool>::Parse(value);
  }
  void ReadBackwardDependency(std::span<const int> ids) override {
    SetBackwardReads(needs_out_grad_ ? ids : ids.subspan(num_outputs()));
  }

 private:
  bool needs_out_grad_ = true;
};

const bool kRegistered =
    RegisterClientOperator<NDArrayProperty>(
        "_NDArray", "Runs functions of arrays that the client has written.", __FILE__, __LINE__) &&
    RegisterClientOperator<NativeProperty>(
        "_Native", "Runs functions of float32 memory that the client has written.", __FILE__,
        __LINE__);

}  // namespace
}  // namespace tessera::mxnet
