#ifndef TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_PROPERTY_H_
#define TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_PROPERTY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera::mxnet {

/// The names of a client's functions in profiles.
struct ProfiledNames {
  std::string forward;
  std::string backward;
};

/// An operator whose functions a client has written. Its auxiliary states are its last inputs.
///
/// A client's function may compute with arrays, wait for them, and take its time, so every call is
/// Purity::kSynchronous: an engine operation of its own. The client's object may keep values from
/// Forward for the Backward of that call.
class ClientProperty : public OperatorProperty {
 public:
  ParameterMap GetParams() const override { return parameters_; }
  std::vector<std::string> ListArguments() const override;
  std::vector<std::string> ListOutputs() const override { return outputs_; }
  std::vector<int> MutatedInputs() const override;
  Purity purity() const override { return Purity::kSynchronous; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override;
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override;
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override;
  bool IsLoss() const override;
  bool ArgumentHasGradient(int argument) const override;

  /// Return the numbers of arguments without auxiliary states, of outputs, and of these states.
  size_t num_arguments() const { return arguments_.size(); }
  size_t num_outputs() const { return outputs_.size(); }
  size_t num_aux_states() const { return aux_states_.size(); }
  /// Returns the operator's name and what tells it from others, for errors.
  virtual std::string Describe() const { return TypeString(); }
  /// Returns the names under which profiles have calls of the client's functions, or null if they
  /// have only the operator's. The names live until the process ends.
  virtual const ProfiledNames* profiled_names() const { return nullptr; }

 protected:
  /// Keeps the parameters for GetParams. Init calls it.
  void SetParameters(const ParameterMap& parameters) { parameters_ = parameters; }
  /// Takes the names that the client's functions have listed.
  void SetNames(std::vector<std::string> arguments, std::vector<std::string> outputs,
                std::vector<std::string> aux_states);
  /// States what Backward reads, as numbers: the outputs' gradients are the first ones, then come
  /// the arguments, then the outputs. Throws Error(kInvalidArgument) for any other number.
  void SetBackwardReads(std::span<const int> ids);

  /// Calls the client's inference of shapes: of the arguments, which it is given, the outputs and
  /// the auxiliary states. The function replaces ranks and extents. Returns whether it has
  /// succeeded.
  virtual bool CallInferShape(std::vector<int>* ranks, std::vector<int*>* extents) const = 0;
  /// Calls the client's inference of types, which are MXNet's numbers, for the same values.
  virtual bool CallInferType(std::vector<int>* types) const = 0;

 private:
  bool Reads(size_t id) const { return backward_reads_[id]; }
  /// Returns the value of a number among arguments, outputs and auxiliary states.
  template <typename T>
  T& At(size_t i, std::vector<T>* in, std::vector<T>* out) const;
  /// Returns the names of these values, in the order of the numbers.
  std::vector<std::string> Names() const;

  ParameterMap parameters_;
  std::vector<std::string> arguments_, outputs_, aux_states_;
  std::vector<bool> backward_reads_;
};

/// Registers the operator that Property describes for the statement at `file` and `line`, and
/// returns true.
template <typename Property>
bool RegisterClientOperator(std::string_view name, std::string description, const char* file,
                            int line) {
  const auto create = [](const OperatorProperty& property, std::span<const TShape> in_shape,
                         std::span<const DType> in_type) {
    return property.CreateOperator(Device::Cpu(), in_shape, in_type);
  };
  OperatorEntry* const entry = OperatorRegistry::Get().Register(
      {.name = name,
       .file = file,
       .line = line,
       .create_property = [] { return std::make_unique<Property>(); },
       .describe_parameters = [] { return Property::DescribeParameters(); },
       .implementation = {.device = DeviceType::kCpu, .name = "client", .create = create}});
  if (entry != nullptr) entry->description = std::move(description);
  return true;
}

/// Returns the texts of a list that ends with a null pointer, as clients return them. Throws
/// Error(kInvalidArgument) that names the list if it is null.
std::vector<std::string> TextsUntilNull(const char* const* list, const char* name);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_PROPERTY_H_
