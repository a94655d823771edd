#ifndef TESSERA_TRAIN_NN_LAYER_H_
#define TESSERA_TRAIN_NN_LAYER_H_

#include <concepts>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/train/initializer.h"
#include "tessera/train/nn/parameter.h"

namespace tessera::nn_internal {
class CompiledLayer;
}  // namespace tessera::nn_internal

namespace tessera::nn {

/// Options of Layer::LoadParameters.
struct LoadOptions {
  bool allow_missing = false;  ///< keeps the values of parameters that the file does not have
  bool ignore_extra = false;   ///< skips arrays of the file that are no parameters
  /// The devices of parameters that are not initialized.
  std::vector<Device> devices = {Device::Cpu()};
};

/// A function of arrays with parameters: a layer, a network of layers, or a loss.
///
///     nn::Sequential net(nn::Dense(128, {.activation = "relu"}), nn::Dense(10));
///     net.Initialize(Xavier());
///     const NDArray y = net(x);
///
/// A layer of one's own registers its parameters and layers, and computes with operators on arrays:
///
///     class Scale final : public nn::UnaryLayer {
///      public:
///       Scale() : scale_(AddParameter("scale_weight")) {}
///
///      private:
///       NDArray Forward(const NDArray& x) const override {
///         return x * scale_.Use(x.device(), {1});
///       }
///       nn::Parameter scale_;
///     };
///
/// Parameters are named by their place, as Gluon names them in files: "0.weight" in a Sequential,
/// "encoder.0.weight" for a layer that was added under the name encoder. The first call determines
/// shapes that are not known, and then sets the first values.
///
/// Threads: calls may overlap with each other; other members that are not const must not overlap
/// with anything. A layer that is moved from can only be destroyed or assigned to.
class Layer {
 public:
  virtual ~Layer();
  Layer(Layer&&) noexcept;
  Layer& operator=(Layer&&) noexcept;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  /// Calls the layer with its inputs. All lie on one device, where the parameters have a copy. The
  /// thread's modes (autograd::IsTraining, IsRecording) apply. Returns at once. Throws
  /// Error(kFailedPrecondition) if a parameter is not initialized, and Error(kInvalidArgument) for
  /// a number of inputs, a shape, type or device that does not fit.
  std::vector<NDArray> Call(std::span<const NDArray> inputs) const;
  std::vector<NDArray> Call(std::initializer_list<NDArray> inputs) const {
    return Call(std::span<const NDArray>(inputs.begin(), inputs.size()));
  }
  /// Calls the layer and returns its first output.
  template <std::same_as<NDArray>... Arrays>
  requires(sizeof...(Arrays) > 0) NDArray operator()(const Arrays&... inputs) const {
    return Call({inputs...})[0];
  }

  /// Initializes all parameters: see Parameter::Initialize. The names of those that have none are
  /// those of Parameters(). Without an initializer, weights are Uniform(0.07). Throws
  /// Error(kInvalidArgument) for an initializer that is null or cannot fill a parameter.
  void Initialize(std::shared_ptr<const Initializer> initializer,
                  const InitializeOptions& options = {});
  template <std::derived_from<Initializer> Chosen>
  void Initialize(const Chosen& initializer, const InitializeOptions& options = {}) {
    Initialize(std::make_shared<const Chosen>(initializer), options);
  }
  void Initialize() { Initialize(Uniform()); }

  /// Returns the parameters of this layer and of the layers in it, in the order of registration,
  /// each under each of its names.
  std::vector<NamedParameter> Parameters() const;

  /// Lets later calls run compiled: the first call with inputs of given shapes, types and device
  /// and a given training mode runs as before and is traced into a CachedOp; later ones run that.
  /// The layer's function must not depend on anything else, such as elements of arrays: see Trace.
  /// Calls inside another traced layer are part of its graph. CachedOpOptions::max_signatures
  /// limits the number of traced graphs; the least recently used one is dropped. Throws
  /// Error(kInvalidArgument) for options that are out of range.
  void Compile(CachedOpOptions options = {});

  /// Writes all parameters as they are on their first device, by the names of Parameters(): as
  /// safetensors if the path ends in ".safetensors", and otherwise in MXNet's `.params` format,
  /// which Gluon's load_parameters reads. Waits for the values. Throws Error(kFailedPrecondition)
  /// that names a parameter without values, and what SaveNDArrays and SaveSafetensors throw.
  void SaveParameters(const std::string& path) const;

  /// Reads a file of SaveParameters, of Gluon's save_parameters, or of another library that uses
  /// these names. No call of Initialize is needed. The ending of the path tells the format, as in
  /// SaveParameters. Throws Error(kInvalidArgument) that names the file and a parameter that it
  /// does not have, an array that is no parameter, or one whose shape or type differs; no parameter
  /// is then changed. Throws what LoadNDArrays and LoadSafetensors throw.
  void LoadParameters(const std::string& path, const LoadOptions& options = {});

  /// Returns copies of all parameters in host memory by the names of Parameters(), made
  /// asynchronously, for a checkpoint. Throws Error(kFailedPrecondition) as SaveParameters does.
  std::map<std::string, NDArray> GetParams() const;
  /// Sets the parameters to such arrays. Errors are those of LoadParameters without those of files.
  void SetParams(const std::map<std::string, NDArray>& arrays, const LoadOptions& options = {});

 protected:
  Layer();

  /// Registers a parameter, named within the layer. Throws Error(kInvalidArgument) for a name that
  /// another parameter or layer has.
  Parameter AddParameter(std::string name, ParameterOptions options = {});
  /// Registers a layer, named within this one: an rvalue, or a pointer to a layer that may also be
  /// a part of others. Returns a pointer to it. Throws Error(kInvalidArgument) as AddParameter
  /// does, and for null.
  template <std::derived_from<Layer> T>
  std::shared_ptr<T> AddLayer(std::string name, std::shared_ptr<T> layer) {
    Register(std::move(name), layer);
    return layer;
  }
  template <std::derived_from<Layer> T>
  requires(!std::is_const_v<T>) std::shared_ptr<T> AddLayer(std::string name, T&& layer) {
    return AddLayer(std::move(name), std::make_shared<T>(std::move(layer)));
  }

  /// Computes the outputs: the layer's function, written once with operators on arrays. It is
  /// called with at least one input, all of which are arrays.
  virtual std::vector<NDArray> ForwardAll(std::span<const NDArray> inputs) const = 0;

 private:
  struct NamedLayer {
    std::string name;
    std::shared_ptr<Layer> layer;
  };

  void Register(std::string name, std::shared_ptr<Layer> layer);
  void RequireNewName(const std::string& name) const;
  void SetAll(const std::string& source, const std::map<std::string, NDArray>& arrays,
              const LoadOptions& options);
  void AppendParameters(const std::string& prefix, std::vector<NamedParameter>* all) const;

  std::vector<NamedParameter> parameters_;
  std::vector<NamedLayer> layers_;
  std::unique_ptr<nn_internal::CompiledLayer> compiled_;  // null without Compile
};

/// A layer from one array to one array.
class UnaryLayer : public Layer {
 protected:
  /// Computes the output.
  virtual NDArray Forward(const NDArray& x) const = 0;

 private:
  std::vector<NDArray> ForwardAll(std::span<const NDArray> inputs) const final;
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_LAYER_H_
