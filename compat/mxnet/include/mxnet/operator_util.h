#ifndef MXNET_OPERATOR_UTIL_H_
#define MXNET_OPERATOR_UTIL_H_

// Stateless operators of none, one or two arrays, made of functions:
//
//     MXNET_REGISTER_SIMPLE_OP(my_square, cpu)
//         .set_function(cpu::kDevMask, Square<cpu>, kInplaceInOut)
//         .set_gradient(cpu::kDevMask, SquareGrad<cpu>, kInplaceOutIn)
//         .describe("The second power.");

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dmlc/parameter.h"
#include "dmlc/registry.h"
#include "mxnet/base.h"
#include "mxnet/operator.h"

namespace mxnet::op {

/// An argument of a gradient's function.
struct GradFunctionArgument {
  TBlob data;  ///< its elements
};
/// The first input, the second input, the output, and the output's gradient.
struct Input0 : GradFunctionArgument {};
struct Input1 : GradFunctionArgument {};
struct OutputValue : GradFunctionArgument {};
struct OutputGrad : GradFunctionArgument {};

/// The arguments of a function besides arrays.
struct EnvArguments {
  real_t scalar = 0;                                        ///< with set_enable_scalar
  std::vector<std::pair<std::string, std::string>> kwargs;  ///< with set_enable_kwargs
  std::vector<Resource> resource;                           ///< with set_resource_request
};

/// Functions that write the output of no input, of one and of two.
using SourceFunction = void (*)(const EnvArguments& env, TBlob* ret, OpReqType req, RunContext ctx);
using UnaryFunction = void (*)(const TBlob& src, const EnvArguments& env, TBlob* ret, OpReqType req,
                               RunContext ctx);
using BinaryFunction = void (*)(const TBlob& lhs, const TBlob& rhs, const EnvArguments& env,
                                TBlob* ret, OpReqType req, RunContext ctx);
/// Functions that return the shape of the output. Without one, all shapes are equal.
using SourceShapeFunction = TShape (*)(const EnvArguments& env);
using UnaryShapeFunction = TShape (*)(const TShape& src, const EnvArguments& env);
using BinaryShapeFunction = TShape (*)(const TShape& lhs, const TShape& rhs,
                                       const EnvArguments& env);
/// Functions that write the gradient of the input: of the output's gradient, of the output as well,
/// and of the input as well.
using UnaryGradFunctionT0 = void (*)(const OutputGrad& out_grad, const EnvArguments& env,
                                     TBlob* in_grad, OpReqType req, RunContext ctx);
using UnaryGradFunctionT1 = void (*)(const OutputGrad& out_grad, const OutputValue& out_value,
                                     const EnvArguments& env, TBlob* in_grad, OpReqType req,
                                     RunContext ctx);
using UnaryGradFunctionT2 = void (*)(const OutputGrad& out_grad, const Input0& in_data0,
                                     const EnvArguments& env, TBlob* in_grad, OpReqType req,
                                     RunContext ctx);
/// Functions that write the gradients of two inputs: of the output's gradient, and of the inputs as
/// well.
using BinaryGradFunctionT0 = void (*)(const OutputGrad& out_grad, const EnvArguments& env,
                                      TBlob* lhs_grad, TBlob* rhs_grad, OpReqType req_lhs_grad,
                                      OpReqType req_rhs_grad, RunContext ctx);
using BinaryGradFunctionT1 = void (*)(const OutputGrad& out_grad, const Input0& lhs,
                                      const Input1& rhs, const EnvArguments& env, TBlob* lhs_grad,
                                      TBlob* rhs_grad, OpReqType req_lhs_grad,
                                      OpReqType req_rhs_grad, RunContext ctx);

/// Which value may use the memory of which other one.
enum SimpleOpInplaceOption {
  kNoInplace,      ///< none
  kInplaceInOut,   ///< the output that of the input
  kInplaceOutIn,   ///< the input's gradient that of the output's
  kInplaceLhsOut,  ///< the output that of the first input
  kInplaceOutLhs,  ///< the first input's gradient that of the output's
};
/// The position of the scalar among arguments, and whether graphs have the operator. Neither has an
/// effect: the scalar is the parameter `scalar`, and graphs have every operator.
enum SimpleOpScalarOption { kScalarBeforeArray, kArrayBeforeScalar };
enum SimpleOpRegOption { kNotRegisterSymbolic, kRegisterSymbolic };

/// The registration of an operator made of functions. Those for a GPU are ignored.
class SimpleOpRegEntry {
 public:
  /// Makes `symbol_name` a further name of the operator.
  SimpleOpRegEntry& set_symbol_op_name(const char* symbol_name);
  /// Gives the operator the required parameter `scalar`.
  SimpleOpRegEntry& set_enable_scalar(bool enable, SimpleOpScalarOption = kArrayBeforeScalar);
  /// Lets the operator take any parameters, as text.
  SimpleOpRegEntry& set_enable_kwargs(bool enable);
  /// Sets the resources of all functions.
  SimpleOpRegEntry& set_resource_request(const std::vector<ResourceRequest>& requests);
  SimpleOpRegEntry& set_resource_request(ResourceRequest request);
  /// Set the functions. The last one of a kind counts.
  SimpleOpRegEntry& set_shape_function(SourceShapeFunction function);
  SimpleOpRegEntry& set_shape_function(UnaryShapeFunction function);
  SimpleOpRegEntry& set_shape_function(BinaryShapeFunction function);
  SimpleOpRegEntry& set_function(int dev_mask, SourceFunction function,
                                 SimpleOpRegOption = kRegisterSymbolic);
  SimpleOpRegEntry& set_function(int dev_mask, UnaryFunction function,
                                 SimpleOpInplaceOption inplace,
                                 SimpleOpRegOption = kRegisterSymbolic);
  SimpleOpRegEntry& set_function(int dev_mask, BinaryFunction function,
                                 SimpleOpInplaceOption inplace,
                                 SimpleOpRegOption = kRegisterSymbolic);
  SimpleOpRegEntry& set_gradient(int dev_mask, UnaryGradFunctionT0 function,
                                 SimpleOpInplaceOption inplace);
  SimpleOpRegEntry& set_gradient(int dev_mask, UnaryGradFunctionT1 function,
                                 SimpleOpInplaceOption inplace);
  SimpleOpRegEntry& set_gradient(int dev_mask, UnaryGradFunctionT2 function,
                                 SimpleOpInplaceOption inplace);
  SimpleOpRegEntry& set_gradient(int dev_mask, BinaryGradFunctionT0 function,
                                 SimpleOpInplaceOption inplace);
  SimpleOpRegEntry& set_gradient(int dev_mask, BinaryGradFunctionT1 function,
                                 SimpleOpInplaceOption inplace);
  /// Documents the operator.
  SimpleOpRegEntry& describe(const std::string& text);
  SimpleOpRegEntry& add_argument(const std::string& argument, const std::string& type,
                                 const std::string& text);
  SimpleOpRegEntry& add_arguments(const std::vector<dmlc::ParamFieldInfo>& arguments);

  std::string name;  ///< the operator's name

 private:
  friend class SimpleOpProperty;
  friend class SimpleOpOperator;
  friend SimpleOpRegEntry& RegisterSimpleOp(const char*, const char*, int);

  template <typename Function>
  SimpleOpRegEntry& SetForward(int dev_mask, Function function, SimpleOpInplaceOption inplace);
  template <typename Function>
  SimpleOpRegEntry& SetGradient(int dev_mask, Function function, SimpleOpInplaceOption inplace);

  OperatorPropertyReg* registration_ = nullptr;
  bool enable_scalar_ = false, enable_kwargs_ = false;
  std::vector<ResourceRequest> requests_;
  std::variant<std::monostate, SourceShapeFunction, UnaryShapeFunction, BinaryShapeFunction> shape_;
  std::variant<std::monostate, SourceFunction, UnaryFunction, BinaryFunction> function_;
  std::variant<std::monostate, UnaryGradFunctionT0, UnaryGradFunctionT1, UnaryGradFunctionT2,
               BinaryGradFunctionT0, BinaryGradFunctionT1>
      gradient_;
  bool inplace_forward_ = false, inplace_backward_ = false;
};

/// Returns the registration of that name, which is added if there is none, for the statement at
/// `file` and `line`, literals of its library.
SimpleOpRegEntry& RegisterSimpleOp(const char* name, const char* file, int line);

}  // namespace mxnet::op

/// Registers an operator at namespace scope for a kind of device, `cpu`. Calls of
/// SimpleOpRegEntry's follow.
#define MXNET_REGISTER_SIMPLE_OP(Name, DEV)                                               \
  [[maybe_unused]] static ::mxnet::op::SimpleOpRegEntry& mxnet_simple_op_##Name##_##DEV = \
      ::mxnet::op::RegisterSimpleOp(#Name, __FILE__, __LINE__)

/// Treats the array `out` with an expression as the request says.
#define ASSIGN_DISPATCH(out, req, ...) \
  {                                    \
    switch (req) {                     \
      case ::mxnet::kNullOp:           \
        break;                         \
      case ::mxnet::kWriteTo:          \
      case ::mxnet::kWriteInplace:     \
        (out) = (__VA_ARGS__);         \
        break;                         \
      case ::mxnet::kAddTo:            \
        (out) += (__VA_ARGS__);        \
        break;                         \
    }                                  \
  }

#endif  // MXNET_OPERATOR_UTIL_H_
