// Operators that are made of functions, as operators in MXNet's style.
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "mxnet/operator_util.h"

namespace mxnet::op {
namespace {

/// The parameter of an operator with a scalar.
struct SimpleOpScalarParam : public dmlc::Parameter<SimpleOpScalarParam> {
  float scalar;
  DMLC_DECLARE_PARAMETER(SimpleOpScalarParam) {
    DMLC_DECLARE_FIELD(scalar).describe("the scalar of the function");
  }
};

}  // namespace

/// The property of an operator made of functions.
class SimpleOpProperty final : public OperatorProperty {
 public:
  explicit SimpleOpProperty(const SimpleOpRegEntry* entry) : entry_(entry) {}

  void Init(const std::vector<std::pair<std::string, std::string>>& kwargs) override {
    if (entry_->enable_kwargs_) {
      env_.kwargs = kwargs;
    } else if (entry_->enable_scalar_) {
      SimpleOpScalarParam param;
      param.Init(kwargs);
      env_.scalar = param.scalar;
    } else {
      CHECK(kwargs.empty()) << "the operator takes no parameters, but was given \""
                            << kwargs.front().first << "\"";
    }
  }
  std::map<std::string, std::string> GetParams() const override {
    if (entry_->enable_scalar_) {
      SimpleOpScalarParam param;
      param.scalar = env_.scalar;
      return param.__DICT__();
    }
    return {env_.kwargs.begin(), env_.kwargs.end()};
  }

  std::vector<std::string> ListArguments() const override {
    if (std::holds_alternative<SourceFunction>(entry_->function_)) return {};
    if (std::holds_alternative<BinaryFunction>(entry_->function_)) return {"lhs", "rhs"};
    return {"data"};
  }
  std::string TypeString() const override { return entry_->name; }

  bool InferShape(ShapeVector* in_shape, ShapeVector* out_shape,
                  ShapeVector* /*aux_shape*/) const override {
    ShapeVector& in = *in_shape;
    if (const auto* const shape = std::get_if<SourceShapeFunction>(&entry_->shape_)) {
      out_shape->assign(1, (*shape)(env_));
      return true;
    }
    if (const auto* const shape = std::get_if<UnaryShapeFunction>(&entry_->shape_)) {
      if (in[0].ndim() == 0) return false;
      out_shape->assign(1, (*shape)(in[0], env_));
      return true;
    }
    if (const auto* const shape = std::get_if<BinaryShapeFunction>(&entry_->shape_)) {
      if (in[0].ndim() == 0 || in[1].ndim() == 0) return false;
      out_shape->assign(1, (*shape)(in[0], in[1], env_));
      return true;
    }
    TShape common = out_shape->at(0);
    for (const TShape& shape : in) {
      if (shape.ndim() != 0) common = shape;
    }
    // The caller finds contradictions.
    in.assign(in.size(), common);
    out_shape->assign(1, common);
    return common.ndim() != 0;
  }
  bool InferType(std::vector<int>* in_type, std::vector<int>* out_type,
                 std::vector<int>* /*aux_type*/) const override {
    int common = in_type->empty() ? mshadow::default_type_flag : -1;
    for (const int type : *in_type) {
      if (type != -1) common = type;
    }
    in_type->assign(in_type->size(), common);
    out_type->assign(1, common);
    return common != -1;
  }

  OperatorProperty* Copy() const override { return new SimpleOpProperty(*this); }
  Operator* CreateOperator(Context ctx) const override;

  std::vector<ResourceRequest> ForwardResource(const ShapeVector& /*in_shape*/) const override {
    return entry_->requests_;
  }
  std::vector<ResourceRequest> BackwardResource(const ShapeVector& /*in_shape*/) const override {
    return entry_->requests_;
  }
  std::vector<int> DeclareBackwardDependency(const std::vector<int>& out_grad,
                                             const std::vector<int>& in_data,
                                             const std::vector<int>& out_data) const override {
    CHECK(!std::holds_alternative<std::monostate>(entry_->gradient_)) << "there is no gradient";
    std::vector<int> read = out_grad;
    if (std::holds_alternative<UnaryGradFunctionT1>(entry_->gradient_)) {
      read.insert(read.end(), out_data.begin(), out_data.end());
    } else if (std::holds_alternative<UnaryGradFunctionT2>(entry_->gradient_) ||
               std::holds_alternative<BinaryGradFunctionT1>(entry_->gradient_)) {
      read.insert(read.end(), in_data.begin(), in_data.end());
    }
    return read;
  }
  std::vector<std::pair<int, void*>> ForwardInplaceOption(
      const std::vector<int>& in_data, const std::vector<void*>& out_data) const override {
    if (!entry_->inplace_forward_ || in_data.empty()) return {};
    return {{in_data[0], out_data[0]}};
  }
  std::vector<std::pair<int, void*>> BackwardInplaceOption(
      const std::vector<int>& out_grad, const std::vector<int>& /*in_data*/,
      const std::vector<int>& /*out_data*/, const std::vector<void*>& in_grad) const override {
    if (!entry_->inplace_backward_ || in_grad.empty()) return {};
    return {{out_grad[0], in_grad[0]}};
  }

 private:
  friend class SimpleOpOperator;

  const SimpleOpRegEntry* entry_;
  EnvArguments env_;
};

/// The calls of an operator made of functions.
class SimpleOpOperator final : public Operator {
 public:
  explicit SimpleOpOperator(const SimpleOpProperty& property)
      : function_(property.entry_->function_),
        gradient_(property.entry_->gradient_),
        env_(property.env_) {}

  void Forward(const OpContext& ctx, const std::vector<TBlob>& in_data,
               const std::vector<OpReqType>& req, const std::vector<TBlob>& out_data,
               const std::vector<TBlob>& /*aux_states*/) override {
    if (req[0] == kNullOp) return;
    env_.resource = ctx.requested;
    TBlob out = out_data[0];
    std::visit(
        [&](const auto& function) {
          using Function = std::decay_t<decltype(function)>;
          if constexpr (std::is_same_v<Function, SourceFunction>) {
            function(env_, &out, req[0], ctx.run_ctx);
          } else if constexpr (std::is_same_v<Function, UnaryFunction>) {
            function(in_data[0], env_, &out, req[0], ctx.run_ctx);
          } else if constexpr (std::is_same_v<Function, BinaryFunction>) {
            function(in_data[0], in_data[1], env_, &out, req[0], ctx.run_ctx);
          } else {
            LOG(FATAL) << "no function is set for the CPU";
          }
        },
        function_);
    env_.resource.clear();
  }

  void Backward(const OpContext& ctx, const std::vector<TBlob>& out_grad,
                const std::vector<TBlob>& in_data, const std::vector<TBlob>& out_data,
                const std::vector<OpReqType>& req, const std::vector<TBlob>& in_grad,
                const std::vector<TBlob>& /*aux_states*/) override {
    env_.resource = ctx.requested;
    const OutputGrad head = {{out_grad[0]}};
    std::vector<TBlob> gradients = in_grad;
    std::visit(
        [&](const auto& function) {
          using Function = std::decay_t<decltype(function)>;
          if constexpr (std::is_same_v<Function, UnaryGradFunctionT0>) {
            function(head, env_, &gradients[0], req[0], ctx.run_ctx);
          } else if constexpr (std::is_same_v<Function, UnaryGradFunctionT1>) {
            function(head, {{out_data[0]}}, env_, &gradients[0], req[0], ctx.run_ctx);
          } else if constexpr (std::is_same_v<Function, UnaryGradFunctionT2>) {
            function(head, {{in_data[0]}}, env_, &gradients[0], req[0], ctx.run_ctx);
          } else if constexpr (std::is_same_v<Function, BinaryGradFunctionT0>) {
            function(head, env_, &gradients[0], &gradients[1], req[0], req[1], ctx.run_ctx);
          } else if constexpr (std::is_same_v<Function, BinaryGradFunctionT1>) {
            function(head, {{in_data[0]}}, {{in_data[1]}}, env_, &gradients[0], &gradients[1],
                     req[0], req[1], ctx.run_ctx);
          } else {
            LOG(FATAL) << "there is no gradient";
          }
        },
        gradient_);
    env_.resource.clear();
  }

 private:
  const decltype(SimpleOpRegEntry::function_) function_;
  const decltype(SimpleOpRegEntry::gradient_) gradient_;
  EnvArguments env_;
};

Operator* SimpleOpProperty::CreateOperator(Context /*ctx*/) const {
  return new SimpleOpOperator(*this);
}

SimpleOpRegEntry& SimpleOpRegEntry::set_symbol_op_name(const char* symbol_name) {
  if (symbol_name != name) registration_->add_alias(symbol_name);
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_enable_scalar(bool enable, SimpleOpScalarOption) {
  enable_scalar_ = enable;
  if (enable) registration_->add_arguments(SimpleOpScalarParam::__FIELDS__());
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_enable_kwargs(bool enable) {
  enable_kwargs_ = enable;
  // Saved graphs give parameters only to operators that document some.
  if (enable) {
    registration_->add_arguments(
        {{"**kwargs", "any", "any, optional, default=", "any parameters, as text"}});
  }
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_resource_request(
    const std::vector<ResourceRequest>& requests) {
  requests_ = requests;
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_resource_request(ResourceRequest request) {
  requests_ = {request};
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_shape_function(SourceShapeFunction function) {
  shape_ = function;
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_shape_function(UnaryShapeFunction function) {
  shape_ = function;
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_shape_function(BinaryShapeFunction function) {
  shape_ = function;
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_function(int dev_mask, SourceFunction function,
                                                 SimpleOpRegOption) {
  return SetForward(dev_mask, function, kNoInplace);
}

SimpleOpRegEntry& SimpleOpRegEntry::set_function(int dev_mask, UnaryFunction function,
                                                 SimpleOpInplaceOption inplace, SimpleOpRegOption) {
  return SetForward(dev_mask, function, inplace);
}

SimpleOpRegEntry& SimpleOpRegEntry::set_function(int dev_mask, BinaryFunction function,
                                                 SimpleOpInplaceOption inplace, SimpleOpRegOption) {
  return SetForward(dev_mask, function, inplace);
}

template <typename Function>
SimpleOpRegEntry& SimpleOpRegEntry::SetForward(int dev_mask, Function function,
                                               SimpleOpInplaceOption inplace) {
  if (dev_mask != cpu::kDevMask) return *this;
  function_ = function;
  inplace_forward_ = inplace == kInplaceInOut || inplace == kInplaceLhsOut;
  return *this;
}

template <typename Function>
SimpleOpRegEntry& SimpleOpRegEntry::SetGradient(int dev_mask, Function function,
                                                SimpleOpInplaceOption inplace) {
  if (dev_mask != cpu::kDevMask) return *this;
  gradient_ = function;
  inplace_backward_ = inplace == kInplaceOutIn || inplace == kInplaceOutLhs;
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::set_gradient(int dev_mask, UnaryGradFunctionT0 function,
                                                 SimpleOpInplaceOption inplace) {
  return SetGradient(dev_mask, function, inplace);
}

SimpleOpRegEntry& SimpleOpRegEntry::set_gradient(int dev_mask, UnaryGradFunctionT1 function,
                                                 SimpleOpInplaceOption inplace) {
  return SetGradient(dev_mask, function, inplace);
}

SimpleOpRegEntry& SimpleOpRegEntry::set_gradient(int dev_mask, UnaryGradFunctionT2 function,
                                                 SimpleOpInplaceOption inplace) {
  return SetGradient(dev_mask, function, inplace);
}

SimpleOpRegEntry& SimpleOpRegEntry::set_gradient(int dev_mask, BinaryGradFunctionT0 function,
                                                 SimpleOpInplaceOption inplace) {
  return SetGradient(dev_mask, function, inplace);
}

SimpleOpRegEntry& SimpleOpRegEntry::set_gradient(int dev_mask, BinaryGradFunctionT1 function,
                                                 SimpleOpInplaceOption inplace) {
  return SetGradient(dev_mask, function, inplace);
}

SimpleOpRegEntry& SimpleOpRegEntry::describe(const std::string& text) {
  registration_->describe(text);
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::add_argument(const std::string& argument,
                                                 const std::string& type, const std::string& text) {
  registration_->add_argument(argument, type, text);
  return *this;
}

SimpleOpRegEntry& SimpleOpRegEntry::add_arguments(
    const std::vector<dmlc::ParamFieldInfo>& arguments) {
  registration_->add_arguments(arguments);
  return *this;
}

SimpleOpRegEntry& RegisterSimpleOp(const char* name, const char* file, int line) {
  SimpleOpRegEntry& entry = dmlc::Registry<SimpleOpRegEntry>::Get()->__REGISTER_OR_FIND__(name);
  // The statement for a GPU finds the entry of the CPU's.
  if (entry.registration_ == nullptr) {
    entry.registration_ = &RegisterOperatorProperty(
        name, [&entry]() -> OperatorProperty* { return new SimpleOpProperty(&entry); }, file, line);
  }
  return entry;
}

}  // namespace mxnet::op
