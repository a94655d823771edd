// Tessera's interface of operators over MXNet's: every operator in MXNet's style is an
// AdaptedProperty, whose calls are AdaptedOperators.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mxnet/infer_error.h"
#include "mxnet/operator.h"
#include "tessera/base/error.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/operator_entry.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace mxnet {
namespace {

using tessera::DType;
using tessera::InvalidArgument;

/// A property in MXNet's style after Init, with the names that it lists.
struct Description {
  std::string name;  // of the operator
  std::unique_ptr<OperatorProperty> property;
  std::vector<std::string> arguments, aux_states, outputs;
  int num_visible_outputs = 0;
  bool reads_out_grad = false, has_gradient = false, is_random = false;
};

/// Calls a function of a program. Its errors get the operator's name, and are Tessera's.
template <typename Function>
auto Call(const Description& description, const Function& function) {
  const auto about = [&](const std::vector<std::string>& names, int index,
                         const std::string& text) {
    const auto i = static_cast<size_t>(index);
    return InvalidArgument(description.name, ": ", i < names.size() ? names[i] : "a value", ": ",
                           text);
  };
  try {
    return function();
  } catch (const op::InferShapeError& error) {
    throw about(description.arguments, error.index, error.msg);
  } catch (const op::InferTypeError& error) {
    throw about(description.arguments, error.index, error.msg);
  } catch (const tessera::Error& error) {
    throw error.WithMessage(description.name + ": " + error.what());
  } catch (const std::exception& error) {
    throw InvalidArgument(description.name, ": ", error.what());
  }
}

std::vector<int> Iota(size_t first, size_t count) {
  std::vector<int> ids(count);
  std::iota(ids.begin(), ids.end(), static_cast<int>(first));
  return ids;
}

/// Returns a shape in MXNet's form, in which no dimensions stand for a shape that is not known, or
/// not all of it: many operators compute with each extent once there are dimensions. Throws for
/// shapes that the form has no room for.
TShape ToMxnet(const Description& description, std::string_view what,
               const tessera::TShape& shape) {
  if (!shape.rank_known()) return TShape();
  if (shape.ndim() == 0 || std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    throw InvalidArgument(description.name, ": ", what, " has shape ", shape,
                          "; an operator in MXNet's style takes extents of 0, and no dimensions, "
                          "for those that are not known, so expected at least one dimension and "
                          "extents of at least 1");
  }
  return shape.known() ? TShape(shape) : TShape();
}

/// Returns the shapes of values in MXNet's form.
ShapeVector ToMxnet(const Description& description, const std::vector<std::string>& names,
                    std::span<const tessera::TShape> shapes) {
  ShapeVector converted;
  for (size_t i = 0; i < names.size(); ++i) {
    converted.push_back(ToMxnet(description, names[i], shapes[i]));
  }
  return converted;
}

tessera::TShape FromMxnet(const TShape& shape) {
  if (shape.ndim() <= 0) return tessera::TShape();
  tessera::TShape converted = shape;
  for (int i = 0; i < converted.ndim(); ++i) {
    if (converted[i] == 0) converted[i] = tessera::TShape::kUnknown;
  }
  return converted;
}

std::vector<int> ToFlags(std::span<const DType> types) {
  std::vector<int> flags;
  for (const DType type : types) flags.push_back(static_cast<int>(type));
  return flags;
}

/// Throws if a function of a program has changed the length of a list.
template <typename T>
void CheckLength(const Description& description, const char* function, const char* what,
                 const std::vector<T>& list, size_t expected) {
  if (list.size() == expected) return;
  throw InvalidArgument(description.name, ": ", function, " has given ", list.size(), " ", what,
                        ", expected ", expected);
}

/// Returns Tessera's request. Throws for resources that the CPU has no need for.
tessera::ResourceRequest ToRequest(const Description& description, const ResourceRequest& request) {
  switch (request.type) {
    case ResourceRequest::kRandom:
      return {tessera::ResourceRequest::Type::kRandom};
    case ResourceRequest::kTempSpace:
      return {tessera::ResourceRequest::Type::kTempSpace};
    case ResourceRequest::kParallelRandom:
      break;
  }
  throw tessera::Unimplemented(description.name, ": a resource of kind ",
                               static_cast<int>(request.type),
                               " is requested, expected kRandom or kTempSpace");
}

/// Values as the addresses that MXNet's in-place options name them by.
class Addresses {
 public:
  explicit Addresses(std::span<const int> ids) : ids_(ids.begin(), ids.end()) {
    for (int& id : ids_) pointers_.push_back(&id);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  const std::vector<void*>& pointers() const { return pointers_; }
  /// Returns the value of an address.
  int IdOf(const Description& description, const void* pointer) const {
    const auto found = std::find(pointers_.begin(), pointers_.end(), pointer);
    if (found == pointers_.end()) {
      throw InvalidArgument(description.name,
                            ": an in-place option names a value that was not given to it");
    }
    return ids_[static_cast<size_t>(found - pointers_.begin())];
  }

 private:
  std::vector<int> ids_;
  std::vector<void*> pointers_;
};

std::vector<tessera::InplacePair> ToPairs(const Description& description,
                                          const std::vector<std::pair<int, void*>>& pairs,
                                          const Addresses& targets) {
  std::vector<tessera::InplacePair> converted;
  for (const auto& [source, target] : pairs) {
    converted.push_back({source, targets.IdOf(description, target)});
  }
  return converted;
}

TBlob Blob(void* dptr, const tessera::TShape& shape, DType type) {
  return TBlob(dptr, TShape(shape), cpu::kDevMask, static_cast<int>(type));
}

/// Returns the values that a call reads. One that Backward does not read has a shape and no memory.
std::vector<TBlob> Read(std::span<const tessera::TBlob> blobs, const tessera::TShape* shapes,
                        const DType* types) {
  std::vector<TBlob> read;
  for (size_t i = 0; i < blobs.size(); ++i) {
    read.push_back(Blob(blobs[i].dptr_, shapes[i], types[i]));
  }
  return read;
}

/// The values that a call writes. Those that are not wanted have memory of their own, since many
/// operators make tensors of them, or write them, whatever the request is.
class Written {
 public:
  void Add(const tessera::TBlob& blob, OpReqType request, const tessera::TShape& shape,
           DType type) {
    requests_.push_back(request);
    void* const dptr = request == kNullOp ? Spare(shape, type) : blob.dptr_;
    blobs_.push_back(Blob(dptr, shape, type));
  }
  /// Adds an auxiliary state, of which the call gets a copy if it must not change it.
  void AddState(const tessera::TBlob& blob, OpReqType request) {
    Add(blob, request, blob.shape_, blob.type_flag_);
    if (request != kNullOp) return;
    std::memcpy(blobs_.back().dptr_, blob.dptr_, SizeBytes(blob.shape_, blob.type_flag_));
  }

  const std::vector<TBlob>& blobs() const { return blobs_; }
  const std::vector<OpReqType>& requests() const { return requests_; }

 private:
  static size_t SizeBytes(const tessera::TShape& shape, DType type) {
    return static_cast<size_t>(shape.Size() * tessera::DTypeSizeBytes(type));
  }
  void* Spare(const tessera::TShape& shape, DType type) {
    spare_.push_back(std::make_unique_for_overwrite<std::byte[]>(SizeBytes(shape, type)));
    return spare_.back().get();
  }

  std::vector<TBlob> blobs_;
  std::vector<OpReqType> requests_;
  std::vector<std::unique_ptr<std::byte[]>> spare_;
};

/// The calls of an operator for some shapes and types.
class AdaptedOperator final : public tessera::Operator {
 public:
  /// The shapes and types are those of all inputs, auxiliary states included, and of all outputs.
  AdaptedOperator(std::shared_ptr<const Description> description,
                  std::vector<tessera::TShape> in_shape, std::vector<tessera::TShape> out_shape,
                  std::vector<DType> in_type, std::vector<DType> out_type)
      : description_(std::move(description)),
        in_shape_(std::move(in_shape)),
        out_shape_(std::move(out_shape)),
        in_type_(std::move(in_type)),
        out_type_(std::move(out_type)),
        mxnet_in_shape_(ToMxnet(*description_, description_->arguments, in_shape_)) {
    idle_.push_back(NewObject());  // an error of the program shows here
  }

  void Forward(const tessera::OpContext& context, std::span<const tessera::TBlob> in_data,
               std::span<const tessera::OpReqType> req,
               std::span<const tessera::TBlob> out_data) override {
    const size_t num_arguments = description_->arguments.size();
    const std::vector<TBlob> inputs =
        Read(in_data.first(num_arguments), in_shape_.data(), in_type_.data());
    Written outputs, aux_states;
    for (size_t i = 0; i < out_data.size(); ++i) {
      outputs.Add(out_data[i], static_cast<OpReqType>(req[i]), out_shape_[i], out_type_[i]);
    }
    for (size_t i = 0; i < description_->aux_states.size(); ++i) {
      aux_states.AddState(in_data[num_arguments + i],
                          static_cast<OpReqType>(req[out_data.size() + i]));
    }
    Run(context, description_->property->ForwardResource(mxnet_in_shape_),
        [&](mxnet::Operator& op, const OpContext& ctx) {
          op.Forward(ctx, inputs, outputs.requests(), outputs.blobs(), aux_states.blobs());
        });
  }

  void Backward(const tessera::OpContext& context, std::span<const tessera::TBlob> out_grad,
                std::span<const tessera::TBlob> in_data, std::span<const tessera::TBlob> out_data,
                std::span<const tessera::OpReqType> req,
                std::span<const tessera::TBlob> in_grad) override {
    const size_t num_arguments = description_->arguments.size();
    const std::vector<TBlob> head_gradients =
        Read(out_grad.first(static_cast<size_t>(description_->num_visible_outputs)),
             out_shape_.data(), out_type_.data());
    const std::vector<TBlob> inputs =
        Read(in_data.first(num_arguments), in_shape_.data(), in_type_.data());
    const std::vector<TBlob> aux_states =
        Read(in_data.subspan(num_arguments), in_shape_.data() + num_arguments,
             in_type_.data() + num_arguments);
    const std::vector<TBlob> outputs = Read(out_data, out_shape_.data(), out_type_.data());
    Written gradients;
    for (size_t i = 0; i < num_arguments; ++i) {
      gradients.Add(in_grad[i], static_cast<OpReqType>(req[i]), in_shape_[i], in_type_[i]);
    }
    Run(context, description_->property->BackwardResource(mxnet_in_shape_),
        [&](mxnet::Operator& op, const OpContext& ctx) {
          op.Backward(ctx, head_gradients, inputs, outputs, gradients.requests(), gradients.blobs(),
                      aux_states);
        });
  }

  /// Many operators ignore requests.
  bool AcceptsAddTo() const override { return false; }

 private:
  std::unique_ptr<mxnet::Operator> NewObject() const {
    ShapeVector shapes = mxnet_in_shape_;
    std::vector<int> types = ToFlags(std::span(in_type_).first(description_->arguments.size()));
    std::unique_ptr<mxnet::Operator> op(Call(*description_, [&] {
      return description_->property->CreateOperatorEx(Context::CPU(), &shapes, &types);
    }));
    if (op == nullptr) {
      throw InvalidArgument(description_->name, ": CreateOperatorEx has returned a null pointer");
    }
    return op;
  }

  /// Returns an object that no other call uses.
  std::unique_ptr<mxnet::Operator> TakeObject() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<mxnet::Operator> op = std::move(idle_.back());
        idle_.pop_back();
        return op;
      }
    }
    return NewObject();
  }

  /// Calls function(op, ctx) and waits until the operator's work is done.
  template <typename Function>
  void Run(const tessera::OpContext& context, const std::vector<ResourceRequest>& requests,
           const Function& function) {
    std::unique_ptr<mxnet::Operator> op = TakeObject();
    mshadow::Stream<cpu> stream;
    // Shared, since the call may end while set_value still runs.
    const auto done = std::make_shared<std::promise<void>>();
    OpContext ctx{.need_grad = context.needs_gradient,
                  .is_train = context.is_train,
                  .run_ctx = {.ctx = Context::CPU(), .stream = &stream},
                  .async_on_complete = engine::CallbackOnComplete([done] { done->set_value(); })};
    for (size_t i = 0; i < requests.size(); ++i) {
      ctx.requested.emplace_back(requests[i], context.requested[i]);
    }
    const bool is_async = op->exec_type() == ExecType::kAsync ||
                          description_->property->exec_type() == ExecType::kAsync;
    function(*op, ctx);
    if (is_async) done->get_future().wait();
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(op));
  }

  const std::shared_ptr<const Description> description_;
  const std::vector<tessera::TShape> in_shape_, out_shape_;
  const std::vector<DType> in_type_, out_type_;
  const ShapeVector mxnet_in_shape_;  // of the arguments
  std::mutex mutex_;
  std::vector<std::unique_ptr<mxnet::Operator>> idle_;
};

class AdaptedProperty final : public tessera::OperatorProperty {
 public:
  explicit AdaptedProperty(const OperatorPropertyFactory& factory) : property_(factory()) {}

  void Init(const tessera::ParameterMap& parameters) override {
    auto made = std::make_shared<Description>();
    made->name = TypeString();
    Call(*made, [&] { property_->Init({parameters.begin(), parameters.end()}); });
    made->arguments = property_->ListArguments();
    made->aux_states = property_->ListAuxiliaryStates();
    made->outputs = property_->ListOutputs();
    // MXNet's NumOutputs may count outputs that no name is listed for.
    while (made->outputs.size() < static_cast<size_t>(property_->NumOutputs())) {
      made->outputs.push_back("output" + std::to_string(made->outputs.size()));
    }
    made->num_visible_outputs = property_->NumVisibleOutputs();
    if (made->outputs.empty() || made->num_visible_outputs < 1 ||
        static_cast<size_t>(made->num_visible_outputs) > made->outputs.size()) {
      throw InvalidArgument(made->name, ": ", made->num_visible_outputs, " of ",
                            made->outputs.size(), " outputs are visible, expected at least one");
    }
    SetGradient(made.get());
    made->is_random = IsRandom(made->arguments.size());
    made->property = std::move(property_);
    description_ = std::move(made);
  }
  tessera::ParameterMap GetParams() const override {
    return Call(*description_, [&] { return property().GetParams(); });
  }

  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names = description_->arguments;
    names.insert(names.end(), description_->aux_states.begin(), description_->aux_states.end());
    return names;
  }
  std::vector<std::string> ListOutputs() const override { return description_->outputs; }
  std::vector<int> MutatedInputs() const override {
    return Iota(num_arguments(), description_->aux_states.size());
  }
  int NumVisibleOutputs() const override { return description_->num_visible_outputs; }
  tessera::Purity purity() const override {
    if (!description_->aux_states.empty()) return tessera::Purity::kMutating;
    return description_->is_random ? tessera::Purity::kRandom : tessera::Purity::kPure;
  }

  bool InferShape(std::vector<tessera::TShape>* in_shape,
                  std::vector<tessera::TShape>* out_shape) const override {
    const std::span<tessera::TShape> all(*in_shape);
    ShapeVector in = ToMxnet(*description_, description_->arguments, all);
    ShapeVector aux =
        ToMxnet(*description_, description_->aux_states, all.subspan(num_arguments()));
    ShapeVector out = ToMxnet(*description_, description_->outputs, *out_shape);
    if (!Call(*description_, [&] { return property().InferShape(&in, &out, &aux); })) return false;
    CheckLengths("InferShape", in, out, aux);
    in.insert(in.end(), aux.begin(), aux.end());
    const std::vector<std::string> names = ListArguments();
    for (size_t i = 0; i < in.size(); ++i) {
      MergeShape(*this, names[i], &(*in_shape)[i], FromMxnet(in[i]));
    }
    for (size_t i = 0; i < out.size(); ++i) {
      MergeShape(*this, description_->outputs[i], &(*out_shape)[i], FromMxnet(out[i]));
    }
    const auto known = [](const tessera::TShape& shape) { return shape.known(); };
    return std::all_of(in_shape->begin(), in_shape->end(), known) &&
           std::all_of(out_shape->begin(), out_shape->end(), known);
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    const std::span<DType> all(*in_type);
    std::vector<int> in = ToFlags(all.first(num_arguments()));
    std::vector<int> aux = ToFlags(all.subspan(num_arguments()));
    std::vector<int> out = ToFlags(*out_type);
    constexpr int kUnknown = static_cast<int>(DType::kUnknown);
    const auto num_unknown = static_cast<size_t>(std::count(in.begin(), in.end(), kUnknown));
    if (!in.empty() && num_unknown == in.size()) return false;
    try {
      if (!property().InferType(&in, &out, &aux)) return false;
    } catch (const op::InferTypeError&) {
      Call(*description_, [] { throw; });
    } catch (const std::exception&) {
      // Many operators do not accept that the first type is not known yet.
      if (num_unknown > 0) return false;
      Call(*description_, [] { throw; });
    }
    CheckLengths("InferType", in, out, aux);
    in.insert(in.end(), aux.begin(), aux.end());
    const std::vector<std::string> names = ListArguments();
    bool known = true;
    const auto merge = [&](const std::string& what, DType* type, int flag) {
      const auto inferred = static_cast<DType>(flag);
      if (*type == DType::kUnknown) *type = inferred;
      if (inferred != DType::kUnknown && *type != inferred) {
        throw InvalidArgument(TypeString(), ": ", what, " has element type ", *type, ", expected ",
                              inferred);
      }
      known &= *type != DType::kUnknown;
    };
    for (size_t i = 0; i < in.size(); ++i) merge(names[i], &(*in_type)[i], in[i]);
    for (size_t i = 0; i < out.size(); ++i) {
      merge(description_->outputs[i], &(*out_type)[i], out[i]);
    }
    return known;
  }

  std::vector<tessera::ResourceRequest> ForwardResource(
      std::span<const tessera::TShape> in_shape) const override {
    return Requests(
        property().ForwardResource(ToMxnet(*description_, description_->arguments, in_shape)));
  }
  std::vector<tessera::ResourceRequest> BackwardResource(
      std::span<const tessera::TShape> in_shape) const override {
    return Requests(
        property().BackwardResource(ToMxnet(*description_, description_->arguments, in_shape)));
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    const auto visible = out_grad.first(static_cast<size_t>(description_->num_visible_outputs));
    const auto arguments = in_data.first(num_arguments());
    std::vector<int> ids = Call(*description_, [&] {
      return property().DeclareBackwardDependency({visible.begin(), visible.end()},
                                                  {arguments.begin(), arguments.end()},
                                                  {out_data.begin(), out_data.end()});
    });
    // Backward always receives the auxiliary states.
    const auto aux_states = in_data.subspan(num_arguments());
    ids.insert(ids.end(), aux_states.begin(), aux_states.end());
    return ids;
  }
  std::vector<tessera::InplacePair> ForwardInplaceOption(
      std::span<const int> in_data, std::span<const int> out_data) const override {
    const auto arguments = in_data.first(num_arguments());
    const Addresses targets(out_data);
    return Call(*description_, [&] {
      return ToPairs(
          *description_,
          property().ForwardInplaceOption({arguments.begin(), arguments.end()}, targets.pointers()),
          targets);
    });
  }
  std::vector<tessera::InplacePair> BackwardInplaceOption(
      std::span<const int> out_grad, std::span<const int> in_data, std::span<const int> out_data,
      std::span<const int> in_grad) const override {
    const auto visible = out_grad.first(static_cast<size_t>(description_->num_visible_outputs));
    const auto arguments = in_data.first(num_arguments());
    const Addresses targets(in_grad.first(num_arguments()));
    return Call(*description_, [&] {
      return ToPairs(*description_,
                     property().BackwardInplaceOption(
                         {visible.begin(), visible.end()}, {arguments.begin(), arguments.end()},
                         {out_data.begin(), out_data.end()}, targets.pointers()),
                     targets);
    });
  }

  bool IsLoss() const override { return HasGradient() && !description_->reads_out_grad; }
  bool HasGradient() const override { return description_->has_gradient; }
  bool ArgumentHasGradient(int argument) const override {
    return HasGradient() && static_cast<size_t>(argument) < num_arguments();
  }

  /// Returns the operator for the inputs' shapes and types.
  std::unique_ptr<tessera::Operator> MakeOperator(std::span<const tessera::TShape> in_shape,
                                                  std::span<const DType> in_type) const {
    std::vector<tessera::TShape> in(in_shape.begin(), in_shape.end()),
        out(description_->outputs.size());
    std::vector<DType> types(in_type.begin(), in_type.end()),
        out_types(out.size(), DType::kUnknown);
    if (!InferShape(&in, &out) || !InferType(&types, &out_types)) {
      throw InvalidArgument(TypeString(),
                            ": shapes and types of the inputs do not determine those of the "
                            "outputs");
    }
    return std::make_unique<AdaptedOperator>(description_, std::move(in), std::move(out),
                                             std::move(types), std::move(out_types));
  }

 private:
  const mxnet::OperatorProperty& property() const { return *description_->property; }
  size_t num_arguments() const { return description_->arguments.size(); }

  /// States what Backward reads. A property without gradient throws, as MXNet's own do.
  void SetGradient(Description* made) const {
    const std::vector<int> out_grad = Iota(0, static_cast<size_t>(made->num_visible_outputs));
    const std::vector<int> in_data = Iota(out_grad.size(), made->arguments.size());
    const std::vector<int> out_data = Iota(out_grad.size() + in_data.size(), made->outputs.size());
    std::vector<int> read;
    try {
      read = property_->DeclareBackwardDependency(out_grad, in_data, out_data);
    } catch (const std::exception&) {
      return;
    }
    made->has_gradient = true;
    made->reads_out_grad = std::any_of(read.begin(), read.end(),
                                       [&](int id) { return id < made->num_visible_outputs; });
  }

  /// Returns whether Forward draws random numbers. Shapes, which a property may ask for, are not
  /// known here.
  bool IsRandom(size_t num_arguments) const {
    try {
      const std::vector<ResourceRequest> requests =
          property_->ForwardResource(ShapeVector(num_arguments));
      return std::any_of(requests.begin(), requests.end(), [](const ResourceRequest& request) {
        return request.type == ResourceRequest::kRandom;
      });
    } catch (const std::exception&) {
      return true;
    }
  }

  std::vector<tessera::ResourceRequest> Requests(
      const std::vector<ResourceRequest>& requests) const {
    std::vector<tessera::ResourceRequest> converted;
    for (const ResourceRequest& request : requests) {
      converted.push_back(ToRequest(*description_, request));
    }
    return converted;
  }

  template <typename T>
  void CheckLengths(const char* function, const std::vector<T>& in, const std::vector<T>& out,
                    const std::vector<T>& aux) const {
    CheckLength(*description_, function, "inputs", in, num_arguments());
    CheckLength(*description_, function, "outputs", out, description_->outputs.size());
    CheckLength(*description_, function, "auxiliary states", aux, description_->aux_states.size());
  }

  std::unique_ptr<mxnet::OperatorProperty> property_;  // until Init
  std::shared_ptr<const Description> description_;     // after Init
};

/// Returns the documentation of an operator's parameters, without that of its inputs.
std::vector<tessera::ParameterInfo> ParametersOf(const OperatorPropertyReg& registration) {
  constexpr std::string_view kDefault = ", optional, default=";
  std::vector<tessera::ParameterInfo> infos;
  for (const dmlc::ParamFieldInfo& argument : registration.arguments) {
    if (argument.type.find("Symbol") != std::string::npos ||
        argument.type.find("NDArray") != std::string::npos) {
      continue;
    }
    const size_t found = argument.type_info_str.find(kDefault);
    const bool required = found == std::string::npos;
    infos.push_back(
        {.name = argument.name,
         .type = argument.type,
         .default_value = required ? "" : argument.type_info_str.substr(found + kDefault.size()),
         .required = required,
         .description = argument.description});
  }
  return infos;
}

}  // namespace

void Operator::Backward(const OpContext&, const std::vector<TBlob>&, const std::vector<TBlob>&,
                        const std::vector<TBlob>&, const std::vector<OpReqType>&,
                        const std::vector<TBlob>&, const std::vector<TBlob>&) {
  throw InvalidArgument("the operator does not implement Backward");
}

bool OperatorProperty::InferType(std::vector<int>* in_type, std::vector<int>* out_type,
                                 std::vector<int>* aux_type) const {
  const std::vector<std::string> arguments = ListArguments();
  for (size_t i = 0; i < in_type->size(); ++i) {
    const int type = (*in_type)[i];
    if (type == mshadow::default_type_flag || type == -1) continue;
    throw InvalidArgument(i < arguments.size() ? arguments[i] : "an input", " has element type ",
                          static_cast<DType>(type), ", expected float32");
  }
  in_type->assign(arguments.size(), mshadow::default_type_flag);
  out_type->assign(static_cast<size_t>(NumOutputs()), mshadow::default_type_flag);
  aux_type->assign(ListAuxiliaryStates().size(), mshadow::default_type_flag);
  return true;
}

mxnet::Operator* OperatorProperty::CreateOperatorEx(Context ctx, ShapeVector* in_shape,
                                                    std::vector<int>* in_type) const {
  ShapeVector out_shape(static_cast<size_t>(NumOutputs())), aux_shape(ListAuxiliaryStates().size());
  std::vector<int> out_type(out_shape.size(), -1), aux_type(aux_shape.size(), -1);
  CHECK(InferType(in_type, &out_type, &aux_type)) << "the types of the inputs are not known";
  CHECK(InferShape(in_shape, &out_shape, &aux_shape)) << "the shapes of the inputs are not known";
  return CreateOperator(ctx);
}

std::vector<int> OperatorProperty::DeclareBackwardDependency(
    const std::vector<int>& out_grad, const std::vector<int>& in_data,
    const std::vector<int>& out_data) const {
  std::vector<int> all = out_grad;
  all.insert(all.end(), in_data.begin(), in_data.end());
  all.insert(all.end(), out_data.begin(), out_data.end());
  return all;
}

OperatorProperty* OperatorProperty::Create(const char* type_name) {
  const OperatorPropertyReg* const registration =
      dmlc::Registry<OperatorPropertyReg>::Find(type_name);
  CHECK(registration != nullptr) << "no operator in MXNet's style is called \"" << type_name
                                 << "\"";
  return registration->body();
}

OperatorPropertyReg& OperatorPropertyReg::describe(const std::string& text) {
  if (operator_entry != nullptr) operator_entry->description = text;
  return FunctionRegEntryBase::describe(text);
}

OperatorPropertyReg& OperatorPropertyReg::set_key_var_num_args(const std::string& key) {
  if (operator_entry != nullptr) operator_entry->key_var_num_args = key;
  key_var_num_args = key;
  return *this;
}

OperatorPropertyReg& OperatorPropertyReg::add_alias(const std::string& alias) {
  if (operator_entry != nullptr) {
    tessera::OperatorRegistry::Get().AddAlias(*operator_entry, alias);
  }
  return *this;
}

OperatorPropertyReg& RegisterOperatorProperty(const std::string& name,
                                              OperatorPropertyFactory factory, const char* file,
                                              int line) {
  OperatorPropertyReg& registration =
      dmlc::Registry<OperatorPropertyReg>::Get()->__REGISTER_OR_FIND__(name);
  tessera::OperatorEntry* const entry = tessera::OperatorRegistry::Get().Register(
      {.name = name,
       .file = file,
       .line = line,
       .create_property = [factory] { return std::make_unique<AdaptedProperty>(factory); },
       .describe_parameters = [&registration] { return ParametersOf(registration); },
       .implementation = {.device = tessera::DeviceType::kCpu,
                          .name = "native",
                          .create = [](const tessera::OperatorProperty& property,
                                       std::span<const tessera::TShape> in_shape,
                                       std::span<const DType> in_type) {
                            return static_cast<const AdaptedProperty&>(property).MakeOperator(
                                in_shape, in_type);
                          }}});
  if (registration.body == nullptr) {
    registration.set_body(std::move(factory));
    registration.operator_entry = entry;
  }
  return registration;
}

}  // namespace mxnet
