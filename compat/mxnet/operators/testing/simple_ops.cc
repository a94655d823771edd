// A program in MXNet's own style: operators made of functions.
#include <mxnet/operator_util.h>

#include <string>

#include "./mshadow_op.h"
#include "./operator_common.h"

#define XPU cpu

namespace mxnet {
namespace op {

namespace mshadow_op {
// a moved by b towards 0, and 0 if it is nearer.
struct soft_shrink {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType a, DType b) {
    return DType(a > b ? a - b : a < -b ? a + b : DType(0));
  }
};
struct soft_shrink_grad {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType a, DType b) {
    return DType(a > b || a < -b ? DType(1) : DType(0));
  }
};
}  // namespace mshadow_op

template <typename xpu>
void SoftShrinkForward_(const TBlob& src, const EnvArguments& env, TBlob* ret, OpReqType req,
                        RunContext ctx) {
  using namespace mshadow;
  using namespace mshadow::expr;
  mshadow::Stream<xpu>* s = ctx.get_stream<xpu>();
  MSHADOW_REAL_TYPE_SWITCH(ret->type_flag_, DType, {
    Tensor<xpu, 2, DType> out = ret->FlatTo2D<xpu, DType>(s);
    Tensor<xpu, 2, DType> in = src.FlatTo2D<xpu, DType>(s);
    ASSIGN_DISPATCH(out, req, F<mshadow_op::soft_shrink>(in, scalar<DType>(DType(env.scalar))));
  });
}

template <typename xpu>
void SoftShrinkBackwardUseIn_(const OutputGrad& out_grad, const Input0& in_data0,
                              const EnvArguments& env, TBlob* in_grad, OpReqType req,
                              RunContext ctx) {
  using namespace mshadow;
  using namespace mshadow::expr;
  mshadow::Stream<xpu>* s = ctx.get_stream<xpu>();
  MSHADOW_REAL_TYPE_SWITCH(in_grad->type_flag_, DType, {
    Tensor<xpu, 2, DType> src = in_data0.data.FlatTo2D<xpu, DType>(s);
    Tensor<xpu, 2, DType> ograd = out_grad.data.FlatTo2D<xpu, DType>(s);
    Tensor<xpu, 2, DType> igrad = in_grad->FlatTo2D<xpu, DType>(s);
    ASSIGN_DISPATCH(igrad, req,
                    ograd * F<mshadow_op::soft_shrink_grad>(src, scalar<DType>(DType(env.scalar))));
  });
}

MXNET_REGISTER_SIMPLE_OP(style_soft_shrink, XPU)
    .set_function(XPU::kDevMask, SoftShrinkForward_<XPU>, kInplaceInOut)
    .set_gradient(XPU::kDevMask, SoftShrinkBackwardUseIn_<XPU>, kInplaceOutIn)
    .set_enable_scalar(true)
    .set_symbol_op_name("style_SoftShrink")
    .describe("The distance to the interval [-scalar, scalar], with its sign.");

// lhs[i] rhs[j].
inline TShape OuterShape_(const TShape& lhs, const TShape& rhs, const EnvArguments& env) {
  CHECK_EQ(lhs.ndim(), 1) << "lhs is a vector";
  CHECK_EQ(rhs.ndim(), 1) << "rhs is a vector";
  return mshadow::Shape2(lhs[0], rhs[0]);
}

template <typename xpu>
void OuterForward_(const TBlob& lhs, const TBlob& rhs, const EnvArguments& env, TBlob* ret,
                   OpReqType req, RunContext ctx) {
  using namespace mshadow;
  using namespace mshadow::expr;
  mshadow::Stream<xpu>* s = ctx.get_stream<xpu>();
  Tensor<xpu, 2> out = ret->get<xpu, 2, real_t>(s);
  Tensor<xpu, 1> a = lhs.get<xpu, 1, real_t>(s);
  Tensor<xpu, 1> b = rhs.get<xpu, 1, real_t>(s);
  ASSIGN_DISPATCH(out, req, broadcast<0>(a, out.shape_) * broadcast<1>(b, out.shape_));
}

template <typename xpu>
void OuterBackward_(const OutputGrad& out_grad, const Input0& lhs, const Input1& rhs,
                    const EnvArguments& env, TBlob* lhs_grad, TBlob* rhs_grad,
                    OpReqType req_lhs_grad, OpReqType req_rhs_grad, RunContext ctx) {
  using namespace mshadow;
  using namespace mshadow::expr;
  mshadow::Stream<xpu>* s = ctx.get_stream<xpu>();
  Tensor<xpu, 2> g = out_grad.data.get<xpu, 2, real_t>(s);
  Tensor<xpu, 1> a = lhs.data.get<xpu, 1, real_t>(s);
  Tensor<xpu, 1> b = rhs.data.get<xpu, 1, real_t>(s);
  Tensor<xpu, 1> da = lhs_grad->get<xpu, 1, real_t>(s);
  Tensor<xpu, 1> db = rhs_grad->get<xpu, 1, real_t>(s);
  ASSIGN_DISPATCH(da, req_lhs_grad, sumall_except_dim<0>(g * broadcast<1>(b, g.shape_)));
  ASSIGN_DISPATCH(db, req_rhs_grad, sumall_except_dim<1>(g * broadcast<0>(a, g.shape_)));
}

MXNET_REGISTER_SIMPLE_OP(style_outer, XPU)
    .set_shape_function(OuterShape_)
    .set_function(XPU::kDevMask, OuterForward_<XPU>, kNoInplace)
    .set_gradient(XPU::kDevMask, OuterBackward_<XPU>, kNoInplace)
    .describe("The products of the elements of two vectors.");

// As many numbers in [0, 1) as the parameter `size` says.
inline TShape UniformShape_(const EnvArguments& env) {
  for (const auto& kwarg : env.kwargs) {
    if (kwarg.first == "size") return mshadow::Shape1(std::stoi(kwarg.second));
  }
  LOG(FATAL) << "size is missing";
  return TShape();
}

template <typename xpu>
void Uniform_(const EnvArguments& env, TBlob* ret, OpReqType req, RunContext ctx) {
  using namespace mshadow;
  mshadow::Stream<xpu>* s = ctx.get_stream<xpu>();
  CHECK_EQ(req, kWriteTo);
  Tensor<xpu, 1> out = ret->get<xpu, 1, real_t>(s);
  env.resource[0].get_random<xpu, real_t>(s)->SampleUniform(&out, 0, 1);
}

MXNET_REGISTER_SIMPLE_OP(style_uniform, XPU)
    .set_enable_kwargs(true)
    .set_resource_request(ResourceRequest::kRandom)
    .set_shape_function(UniformShape_)
    .set_function(XPU::kDevMask, Uniform_<XPU>)
    .describe("Random numbers.");

}  // namespace op
}  // namespace mxnet
