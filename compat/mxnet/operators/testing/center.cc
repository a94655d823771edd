#include "./center-inl.h"

namespace mxnet {
namespace op {

template <>
Operator* CreateOp<cpu>(CenterParam param, int dtype) {
  Operator* op = NULL;
  MSHADOW_REAL_TYPE_SWITCH(dtype, DType, { op = new CenterOp<cpu, DType>(param); });
  return op;
}

Operator* CenterProp::CreateOperatorEx(Context ctx, std::vector<TShape>* in_shape,
                                       std::vector<int>* in_type) const {
  std::vector<TShape> out_shape, aux_shape;
  std::vector<int> out_type, aux_type;
  CHECK(InferType(in_type, &out_type, &aux_type));
  CHECK(InferShape(in_shape, &out_shape, &aux_shape));
  DO_BIND_DISPATCH(CreateOp, param_, (*in_type)[0]);
}

DMLC_REGISTER_PARAMETER(CenterParam);

MXNET_REGISTER_OP_PROPERTY(style_center, CenterProp)
    .describe("Rows without their means.")
    .add_argument("data", "Symbol", "The rows.")
    .add_argument("weight", "Symbol", "The weights of columns.")
    .add_arguments(CenterParam::__FIELDS__());

}  // namespace op
}  // namespace mxnet
