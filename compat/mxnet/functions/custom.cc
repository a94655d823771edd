// Operators, and functions with gradients, that a client writes. Functions of MXNet's C API; see
// types.h.
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/compat/mxnet/custom/custom_operator.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/recorded_function.h"

namespace tessera::mxnet {
namespace {

/// The gradient of autograd.Function, as the tape holds it.
class CustomFunction final : public RecordedFunction {
 public:
  CustomFunction(const MXCallbackList& list, const std::vector<NDArray>& inputs)
      : callbacks_(list) {
    for (const NDArray& input : inputs) {
      inputs_.push_back({input.shape(), input.device(), input.dtype()});
    }
  }
  ~CustomFunction() override { callbacks_.Delete(kDelete); }

  const std::string& name() const override {
    static const std::string name = "_CustomFunction";
    return name;
  }

  /// Calls the client's function on the calling thread, which holds no lock. Its gradients are new
  /// arrays, because clients do not add.
  void Backward(std::span<const NDArray> out_grads, std::span<const OpReqType> req,
                std::span<const NDArray> in_grads, bool /*is_last*/) override {
    std::vector<NDArray> arrays(out_grads.begin(), out_grads.end());
    for (const Input& input : inputs_) {
      arrays.emplace_back(input.shape, input.device, input.dtype);
    }
    CallBackward(out_grads.size(), arrays);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (req[i] == kNullOp) continue;
      Invoke("_copy", {&arrays[out_grads.size() + i], 1}, {&in_grads[i], 1}, {}, req[i]);
    }
  }

 private:
  static constexpr size_t kBackward = 0;
  static constexpr size_t kDelete = 1;
  struct Input {
    TShape shape;
    Device device;
    DType dtype;
  };

  /// Calls the client's function with `arrays`, the first of which are the outputs' gradients.
  void CallBackward(size_t num_out_grads, const std::vector<NDArray>& arrays) {
    std::vector<NDArrayHandle> handles;  // the client frees them
    for (const NDArray& array : arrays) handles.push_back(Arrays().Add(array));
    const std::vector<int> requests(inputs_.size(), static_cast<int>(kWriteTo));
    bool has_succeeded = false;
    try {
      has_succeeded = callbacks_.Call(kBackward, static_cast<int>(num_out_grads),
                                      static_cast<int>(inputs_.size()), handles.data(),
                                      requests.data(), /*is_train=*/1);
    } catch (...) {
      for (const NDArrayHandle handle : handles) Arrays().Remove(handle);
      throw;
    }
    if (!has_succeeded)
      throw Internal(name(), ": the client's backward has failed; its error is printed");
  }

  const Callbacks callbacks_;
  std::vector<Input> inputs_;
};

}  // namespace
}  // namespace tessera::mxnet

using tessera::InvalidArgument;
using tessera::NDArray;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXCustomOpRegister(const char* op_type, CustomOpPropCreator creator) {
  return ApiCall(
      [&] { RegisterCustomOperator(NotNull(op_type, "op_type"), NotNull(creator, "creator")); });
}

TESSERA_MXNET_API int MXCustomFunctionRecord(int num_inputs, NDArrayHandle* inputs, int num_outputs,
                                             NDArrayHandle* outputs, MXCallbackList* callbacks) {
  return ApiCall([&] {
    if (num_inputs < 0 || num_outputs < 0) {
      throw InvalidArgument("MXCustomFunctionRecord: a number of arrays is negative");
    }
    const std::vector<NDArray> in = ArraysOf(inputs, static_cast<size_t>(num_inputs), "inputs");
    const std::vector<NDArray> out = ArraysOf(outputs, static_cast<size_t>(num_outputs), "outputs");
    const auto function = std::make_shared<CustomFunction>(*NotNull(callbacks, "callbacks"), in);
    if (tessera::autograd::IsRecording() && tessera::ShouldRecord(in)) {
      tessera::RecordCall(function, in, out);
    }
  });
}
