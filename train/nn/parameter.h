#ifndef TESSERA_TRAIN_NN_PARAMETER_H_
#define TESSERA_TRAIN_NN_PARAMETER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/sparse.h"
#include "tessera/train/initializer.h"

namespace tessera::nn {

/// Options of a Parameter.
struct ParameterOptions {
  /// The shape as far as it is known: TShape::kUnknown is an extent that the first call of the
  /// layer determines, and a shape of unknown rank is wholly determined by it.
  TShape shape = {};
  DType dtype = DType::kFloat32;  ///< a floating-point type
  /// How Backward writes the gradient. Training does not change a parameter with kNullOp, such as
  /// a running mean.
  OpReqType grad_req = kWriteTo;
  /// How the gradient stores its elements: a row_sparse one has the rows that Backward reaches.
  StorageType grad_storage = StorageType::kDefault;
  /// Sets the first values, whatever the parameter's name is; null: Layer::Initialize's does.
  std::shared_ptr<const Initializer> initializer = nullptr;
  double lr_mult = 1;  ///< the factor of the learning rate
  double wd_mult = 1;  ///< the factor of the weight decay
};

/// Options of Layer::Initialize.
struct InitializeOptions {
  uint64_t seed = 0;                              ///< see Initializer::Initialize
  std::vector<Device> devices = {Device::Cpu()};  ///< each has a copy of all parameters
  bool force = false;  ///< also sets the values of parameters that have some
};

/// A parameter of a layer: a name, and an array on each device with its gradient.
///
/// The arrays exist once the parameter is initialized and its shape is known. Copies of a Parameter
/// are handles to the same one. Threads: every member may be called from any thread.
class Parameter {
 public:
  /// Constructs a parameter without arrays. Throws Error(kInvalidArgument) for a type that is not a
  /// floating-point one.
  explicit Parameter(std::string name, ParameterOptions options = {});

  /// Returns the name within the network that was initialized, such as "0.weight", or at first
  /// within the layer.
  std::string name() const;
  /// Return the shape, as far as it is known, the type, and the options.
  TShape shape() const;
  DType dtype() const;
  OpReqType grad_req() const;
  double lr_mult() const;
  double wd_mult() const;
  /// Returns the devices with a copy; none before the parameter is initialized.
  std::vector<Device> devices() const;
  /// Returns whether the arrays exist.
  bool has_data() const;

  /// Names the parameter and lets `initializer` set the first values, now or, if the shape is not
  /// known, as soon as it is. An initializer in ParameterOptions takes precedence. A parameter that
  /// is initialized keeps its name and values unless options.force. Throws Error(kInvalidArgument)
  /// if there is no device, and what Initializer::Initialize throws.
  void Initialize(std::string name, std::shared_ptr<const Initializer> initializer,
                  const InitializeOptions& options) const;

  /// Returns the array on a device, for the layer's function: while the thread traces a layer, the
  /// array that stands for it. `shape` completes or confirms the parameter's shape. Throws
  /// Error(kFailedPrecondition) if the parameter is not initialized, or not on that device, and
  /// Error(kInvalidArgument) if the shapes contradict.
  NDArray Use(Device device, const TShape& shape) const;

  /// Return the array and its gradient on a device, or on the first one. A parameter with kNullOp
  /// has no gradient: is_none(). Throw Error(kFailedPrecondition) if there are no arrays, or none
  /// on that device.
  NDArray Data(Device device) const;
  NDArray Data() const;
  NDArray Grad(Device device) const;
  NDArray Grad() const;

  /// Throws Error(kInvalidArgument), which begins with `what`, if SetData would not accept the
  /// array.
  void CheckData(std::string_view what, const NDArray& value) const;
  /// Sets the values on all devices. A parameter without devices gets copies on `devices`, and one
  /// of incomplete shape the array's. Throws Error(kInvalidArgument) if shape or type differs.
  void SetData(const NDArray& value, const std::vector<Device>& devices = {Device::Cpu()}) const;
  /// Sets the gradients to 0, for parameters to which Backward adds (kAddTo).
  void ZeroGrad() const;

  /// Returns whether both are one parameter.
  friend bool operator==(const Parameter&, const Parameter&) = default;

 private:
  struct State;

  std::shared_ptr<State> state_;
};

/// A parameter and its name in a network.
struct NamedParameter {
  std::string name;     ///< such as "features.0.weight"
  Parameter parameter;  ///< the parameter
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_PARAMETER_H_
