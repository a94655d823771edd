#include "tessera/train/nn/parameter.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/train/nn/layer_trace.h"

namespace tessera::nn {

struct Parameter::State {
  State(std::string given_name, ParameterOptions given)
      : options(std::move(given)), name(std::move(given_name)), shape(options.shape) {}

  /// Returns the number of the device whose copy is used on `device`: memory of the host that is
  /// pinned or shared belongs to its first processor. Nothing if there is none.
  std::optional<size_t> Find(Device device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    for (size_t i = 0; i < devices.size(); ++i) {
      if (devices[i] == device) return i;
    }
    if (device.type == DeviceType::kCpuPinned || device.type == DeviceType::kCpuShared) {
      return Find(Device::Cpu());
    }
    return std::nullopt;
  }

  /// Returns the array on a device.
  NDArray ArrayOn(Device device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const std::optional<size_t> found = Find(device);
    if (!found) {
      throw FailedPrecondition("parameter ", Excerpt(name), " has no copy on ", device,
                               "; expected the device among those of Layer::Initialize");
    }
    return arrays[*found];
  }

  void RequireArrays() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (!arrays.empty()) return;
    if (devices.empty()) {
      throw FailedPrecondition("parameter ", Excerpt(name),
                               " is not initialized; expected Layer::Initialize or "
                               "Layer::LoadParameters before");
    }
    throw FailedPrecondition("parameter ", Excerpt(name), " has shape ", shape,
                             "; expected a call of its layer before, which determines the shape");
  }

  /// Makes the arrays with the initializer's values. Requires: the shape is known.
  void Initialize() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    NDArray values(shape, Device::Cpu(), options.dtype, /*delay_alloc=*/false, kTag);
    // The ending lets an initializer fill what its own rules would not.
    const bool has_own = options.initializer != nullptr;
    (has_own ? *options.initializer : *initializer)
        .Initialize(has_own && !name.ends_with("weight") ? name + ".weight" : name, seed, values);
    SetArrays(values);
  }

  /// Makes the arrays with copies of the values.
  void SetArrays(const NDArray& values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    // The first call of a layer may be recorded.
    const autograd::Pause pause(autograd::IsTraining());
    std::vector<NDArray> copies;
    for (const Device device : devices) {
      NDArray copy(shape, device, options.dtype, /*delay_alloc=*/false, kTag);
      CopyFromTo(values, copy);
      if (options.grad_req != kNullOp) {
        const NDArray gradient = sparse::Zeros(options.grad_storage, shape, device, options.dtype);
        autograd::MarkVariables({&copy, 1}, {&gradient, 1}, {&options.grad_req, 1});
      }
      copies.push_back(std::move(copy));
    }
    arrays = std::move(copies);
  }

  static constexpr const char* kTag = "nn::Parameter";

  const ParameterOptions options;
  std::mutex mutex;
  std::string name ABSL_GUARDED_BY(mutex);
  TShape shape ABSL_GUARDED_BY(mutex);
  std::shared_ptr<const Initializer> initializer ABSL_GUARDED_BY(mutex);
  uint64_t seed ABSL_GUARDED_BY(mutex) = 0;
  std::vector<Device> devices ABSL_GUARDED_BY(mutex);  // empty before Initialize and SetData
  std::vector<NDArray> arrays ABSL_GUARDED_BY(mutex);  // one for each device, or none
};

Parameter::Parameter(std::string name, ParameterOptions options) {
  if (!IsReal(options.dtype)) {
    throw InvalidArgument("parameter ", Excerpt(name), " has type ", options.dtype,
                          ", expected a floating-point type");
  }
  state_ = std::make_shared<State>(std::move(name), std::move(options));
}

std::string Parameter::name() const {
  const std::lock_guard lock(state_->mutex);
  return state_->name;
}

TShape Parameter::shape() const {
  const std::lock_guard lock(state_->mutex);
  return state_->shape;
}

DType Parameter::dtype() const { return state_->options.dtype; }
OpReqType Parameter::grad_req() const { return state_->options.grad_req; }
double Parameter::lr_mult() const { return state_->options.lr_mult; }
double Parameter::wd_mult() const { return state_->options.wd_mult; }

std::vector<Device> Parameter::devices() const {
  const std::lock_guard lock(state_->mutex);
  return state_->devices;
}

bool Parameter::has_data() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->arrays.empty();
}

void Parameter::Initialize(std::string name, std::shared_ptr<const Initializer> initializer,
                           const InitializeOptions& options) const {
  if (options.devices.empty()) {
    throw InvalidArgument("parameter ", Excerpt(name), ": no devices, expected at least one");
  }
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (!state.devices.empty() && !options.force) return;
  state.name = std::move(name);
  state.initializer = std::move(initializer);
  state.seed = options.seed;
  state.devices = options.devices;
  state.arrays.clear();
  if (state.shape.known()) state.Initialize();
}

NDArray Parameter::Use(Device device, const TShape& shape) const {
  State& state = *state_;
  NDArray array;
  {
    const std::lock_guard lock(state.mutex);
    if (state.arrays.empty() && state.devices.empty()) state.RequireArrays();
    TShape merged = state.shape;
    if (!merged.Merge(shape)) {
      throw InvalidArgument("parameter ", Excerpt(state.name), " has shape ", state.shape,
                            ", but the layer's input asks for ", shape);
    }
    if (state.arrays.empty()) {
      const TShape before = std::exchange(state.shape, merged);
      try {
        if (state.shape.known()) state.Initialize();
      } catch (...) {
        state.shape = before;
        throw;
      }
      state.RequireArrays();
    }
    array = state.ArrayOn(device);
  }
  nn_internal::LayerTrace* const trace = nn_internal::LayerTrace::Current();
  return trace == nullptr ? array : trace->Use(*this, array);
}

NDArray Parameter::Data(Device device) const {
  const std::lock_guard lock(state_->mutex);
  state_->RequireArrays();
  return state_->ArrayOn(device);
}

NDArray Parameter::Data() const {
  const std::lock_guard lock(state_->mutex);
  state_->RequireArrays();
  return state_->arrays[0];
}

NDArray Parameter::Grad(Device device) const { return Data(device).grad(); }
NDArray Parameter::Grad() const { return Data().grad(); }

void Parameter::CheckData(std::string_view what, const NDArray& value) const {
  const std::lock_guard lock(state_->mutex);
  TShape merged = state_->shape;
  if (value.is_none() || !merged.Merge(value.shape()) || value.dtype() != state_->options.dtype) {
    throw InvalidArgument(what, ": found ", value.shape(), " of ", value.dtype(), ", expected ",
                          state_->shape, " of ", state_->options.dtype);
  }
}

void Parameter::SetData(const NDArray& value, const std::vector<Device>& devices) const {
  CheckData("Parameter::SetData: parameter " + Excerpt(name()), value);
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (state.devices.empty()) {
    if (devices.empty()) {
      throw InvalidArgument("Parameter::SetData: parameter ", Excerpt(state.name),
                            " has no devices, expected at least one");
    }
    state.devices = devices;
  }
  state.shape = value.shape();
  if (state.arrays.empty()) {
    state.SetArrays(value);
    return;
  }
  for (const NDArray& array : state.arrays) CopyFromTo(value, array);
}

void Parameter::ZeroGrad() const {
  const std::lock_guard lock(state_->mutex);
  for (const NDArray& array : state_->arrays) {
    if (NDArray gradient = array.grad(); !gradient.is_none()) gradient = 0.0f;
  }
}

}  // namespace tessera::nn
