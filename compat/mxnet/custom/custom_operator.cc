// The operator "Custom", whose kind its parameter op_type names and whose functions a client has
// written. Other parameters are the client's. The functions stand in two lists of MXNet's order:
// those of the description, and those of the object that computes.
#include "tessera/compat/mxnet/custom/custom_operator.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/compat/mxnet/custom/client_operator.h"
#include "tessera/compat/mxnet/custom/client_property.h"

namespace tessera::mxnet {
namespace {

/// An operator that a client has registered.
struct RegisteredOperator {
  std::atomic<CustomOpPropCreator> creator;  // a later registration replaces it
  ProfiledNames names;
};

/// The clients' operators by op_type, which are never removed.
class Creators {
 public:
  static Creators& Get() {
    static auto* const creators = new Creators;
    return *creators;
  }

  void Set(const std::string& op_type, CustomOpPropCreator creator) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = operators_.try_emplace(op_type);
    if (is_new) at->second.names = {.forward = op_type, .backward = "_backward_" + op_type};
    at->second.creator = creator;
  }

  const RegisteredOperator& Find(const std::string& op_type) {
    const std::lock_guard lock(mutex_);
    const auto found = operators_.find(op_type);
    if (found != operators_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [name, registered] : operators_) known.push_back(name);
    const std::string nearest = NearestName(op_type, known);
    throw NotFound("Custom: there is no op_type \"", Excerpt(op_type), "\"",
                   nearest.empty() ? "; expected one that MXCustomOpRegister has registered"
                                   : "; did you mean \"" + nearest + "\"?");
  }

 private:
  std::mutex mutex_;
  std::map<std::string, RegisteredOperator> operators_ ABSL_GUARDED_BY(mutex_);
};

/// Returns `count` numbers from `first` on.
std::vector<int> Ids(size_t first, size_t count) {
  std::vector<int> ids(count);
  std::iota(ids.begin(), ids.end(), static_cast<int>(first));
  return ids;
}

/// An object of the client that computes.
class CustomOperator final : public ClientOperator {
 public:
  CustomOperator(const ClientProperty& property, Device device, std::span<const TShape> in_shape,
                 std::span<const DType> in_type, Callbacks callbacks)
      : ClientOperator(property, device, in_shape, in_type), callbacks_(std::move(callbacks)) {}
  ~CustomOperator() override { callbacks_.Delete(kDelete); }

 protected:
  bool Call(const ClientCall& call) override {
    std::vector<NDArrayHandle> handles = call.handles;
    std::vector<int> tags = call.tags;
    return callbacks_.Call(call.is_backward ? kBackward : kForward,
                           static_cast<int>(handles.size()), handles.data(), tags.data(),
                           call.requests.data(), static_cast<int>(call.is_train));
  }

 private:
  enum : size_t { kDelete, kForward, kBackward };

  const Callbacks callbacks_;
};

class CustomProperty final : public ClientProperty {
 public:
  ~CustomProperty() override { callbacks_.Delete(kDelete); }

  void Init(const ParameterMap& parameters) override;
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override;
  std::string Describe() const override { return "Custom of op_type \"" + op_type_ + "\""; }
  const ProfiledNames* profiled_names() const override { return &registered_->names; }

  static std::vector<ParameterInfo> DescribeParameters() {
    return {{.name = "op_type",
             .type = "string",
             .required = true,
             .description = "The operator's name. Further parameters are its own."}};
  }

 protected:
  bool CallInferShape(std::vector<int>* ranks, std::vector<int*>* extents) const override {
    return callbacks_.Call(kInferShape, static_cast<int>(ranks->size()), ranks->data(),
                           extents->data());
  }
  bool CallInferType(std::vector<int>* types) const override {
    return callbacks_.Call(kInferType, static_cast<int>(types->size()), types->data());
  }

 private:
  enum : size_t {
    kDelete,
    kListArguments,
    kListOutputs,
    kListAuxiliaryStates,
    kInferShape,
    kDeclareBackwardDependency,
    kCreateOperator,
    kInferType,
  };

  void Create(const ParameterMap& parameters);
  std::vector<std::string> List(size_t function, const char* name) const;
  void ReadBackwardDependency();

  std::string op_type_;
  const RegisteredOperator* registered_ = nullptr;
  Callbacks callbacks_;
};

void CustomProperty::Init(const ParameterMap& parameters) {
  SetParameters(parameters);
  const auto found = parameters.find("op_type");
  if (found == parameters.end()) {
    throw InvalidArgument("Custom: the parameter op_type is missing, expected an operator's name");
  }
  op_type_ = found->second;
  Create(parameters);
  SetNames(List(kListArguments, "list_arguments"), List(kListOutputs, "list_outputs"),
           List(kListAuxiliaryStates, "list_auxiliary_states"));
  ReadBackwardDependency();
}

void CustomProperty::Create(const ParameterMap& parameters) {
  registered_ = &Creators::Get().Find(op_type_);
  const CustomOpPropCreator creator = registered_->creator;
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : parameters) {
    if (key == "op_type") continue;
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  MXCallbackList list = {};
  const CallbackScope scope;
  scope.RequireAllowed();
  if (creator(op_type_.c_str(), static_cast<int>(keys.size()), keys.data(), values.data(), &list) ==
      0) {
    throw InvalidArgument(Describe(), ": the client has failed to create it from ", keys.size(),
                          " parameters; its error is printed");
  }
  callbacks_ = Callbacks(list);
}

std::vector<std::string> CustomProperty::List(size_t function, const char* name) const {
  char** list = nullptr;
  if (!callbacks_.Call(function, &list)) {
    throw InvalidArgument(Describe(), ": the client's ", name, " has failed; its error is printed");
  }
  return TextsUntilNull(list, name);
}

void CustomProperty::ReadBackwardDependency() {
  const std::vector<int> out_grad = Ids(0, num_outputs());
  const std::vector<int> in_data = Ids(num_outputs(), num_arguments());
  const std::vector<int> out_data = Ids(num_outputs() + num_arguments(), num_outputs());
  int count = 0;
  int* ids = nullptr;
  if (!callbacks_.Call(kDeclareBackwardDependency, out_grad.data(), in_data.data(), out_data.data(),
                       &count, &ids) ||
      count < 0) {
    throw InvalidArgument(Describe(), ": the client's declare_backward_dependency has failed; ",
                          "its error is printed");
  }
  SetBackwardReads(ListOf(ids, static_cast<size_t>(count), "deps"));
}

std::unique_ptr<Operator> CustomProperty::CreateOperator(Device device,
                                                         std::span<const TShape> in_shape,
                                                         std::span<const DType> in_type) const {
  std::vector<std::vector<unsigned>> extents;
  std::vector<int> ranks, types;
  for (const TShape& shape : in_shape) {
    extents.emplace_back(shape.begin(), shape.end());
    ranks.push_back(shape.ndim());
  }
  std::vector<unsigned*> shapes;
  for (std::vector<unsigned>& shape : extents) shapes.push_back(shape.data());
  for (const DType type : in_type) types.push_back(static_cast<int>(type));
  MXCallbackList list = {};
  const std::string context = device.ToString();
  const int* const given_ranks = ranks.data();
  const int* const given_types = types.data();
  if (!callbacks_.Call(kCreateOperator, context.c_str(), static_cast<int>(ranks.size()),
                       shapes.data(), given_ranks, given_types, &list)) {
    throw InvalidArgument(Describe(), ": the client's create_operator has failed; its error is ",
                          "printed");
  }
  return std::make_unique<CustomOperator>(*this, device, in_shape, in_type, Callbacks(list));
}

const bool kRegistered = RegisterClientOperator<CustomProperty>(
    "Custom", "Runs an operator whose functions the client has written.", __FILE__, __LINE__);

}  // namespace

void RegisterCustomOperator(const std::string& op_type, CustomOpPropCreator creator) {
  Creators::Get().Set(op_type, creator);
}

}  // namespace tessera::mxnet
