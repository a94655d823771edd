// A program in MXNet's own style: rows without their means, weighted and scaled.
//
//   out[i][j] = a (data[i][j] - mean[i]) weight[j] + b,  a = factor^repeat coefs[0],  b = shift
//
// `mean` is the mean of a row, or 0 with mode=keep. It is a hidden output. Without `weighted`, the
// weights are 1. In training, the auxiliary state `running` moves halfway to the column's means.
#ifndef MXNET_OPERATOR_CENTER_INL_H_
#define MXNET_OPERATOR_CENTER_INL_H_

#include <dmlc/logging.h>
#include <dmlc/optional.h>
#include <dmlc/parameter.h>
#include <mxnet/operator.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "./mshadow_op.h"
#include "./operator_common.h"

namespace mxnet {
namespace op {

namespace center {
enum CenterInputs { kData, kWeight };
enum CenterOutputs { kOut, kMean };
enum CenterAux { kRunning };
enum CenterMode { kSubtract, kKeep };
enum CenterResource { kTempSpace };
}  // namespace center

struct CenterParam : public dmlc::Parameter<CenterParam> {
  int repeat;
  uint32_t width;
  int64_t most;
  float factor;
  double shift;
  bool weighted;
  std::string label;
  int mode;
  dmlc::optional<int> axis;
  dmlc::optional<float> limit;
  TShape block;
  Tuple<float> coefs;
  DMLC_DECLARE_PARAMETER(CenterParam) {
    DMLC_DECLARE_FIELD(repeat).set_default(1).set_lower_bound(1).describe("The factor's exponent.");
    DMLC_DECLARE_FIELD(width).describe("The length of a row.");
    DMLC_DECLARE_FIELD(most).set_default(1000).describe("The greatest number of rows.");
    DMLC_DECLARE_FIELD(factor).set_default(1.0f).set_range(0, 100).describe("Scales the output.");
    DMLC_DECLARE_FIELD(shift).set_default(0).describe("Is added to the output.");
    DMLC_DECLARE_FIELD(weighted).set_default(false).describe("Whether there are weights.");
    DMLC_DECLARE_FIELD(label).set_default("none").describe("Any text.");
    DMLC_DECLARE_FIELD(mode)
        .add_enum("subtract", center::kSubtract)
        .add_enum("keep", center::kKeep)
        .set_default(center::kSubtract)
        .describe("What happens to the mean.");
    DMLC_DECLARE_FIELD(axis).set_default(dmlc::optional<int>()).describe("1, if it is given.");
    DMLC_DECLARE_FIELD(limit)
        .set_default(dmlc::optional<float>())
        .set_range(0.5f, 8.0f)
        .describe("The greatest factor.");
    int64_t one[] = {1, 1};
    DMLC_DECLARE_FIELD(block)
        .set_default(TShape(one, one + 2))
        .set_expect_ndim(2)
        .enforce_nonzero()
        .describe("What divides the extents.");
    DMLC_DECLARE_FIELD(coefs).set_default({1.0f}).describe("One factor.");
    DMLC_DECLARE_ALIAS(factor, scale);
  }
};

template <typename xpu, typename DType>
class CenterOp : public Operator {
 public:
  explicit CenterOp(CenterParam param) : param_(param) {}

  virtual void Forward(const OpContext& ctx, const std::vector<TBlob>& in_data,
                       const std::vector<OpReqType>& req, const std::vector<TBlob>& out_data,
                       const std::vector<TBlob>& aux_states) {
    using namespace mshadow;
    using namespace mshadow::expr;
    CHECK_EQ(in_data.size(), param_.weighted ? 2U : 1U);
    CHECK_EQ(out_data.size(), 2U);
    Stream<xpu>* s = ctx.get_stream<xpu>();
    Tensor<xpu, 2, DType> data = in_data[center::kData].get<xpu, 2, DType>(s);
    Tensor<xpu, 2, DType> out = out_data[center::kOut].get<xpu, 2, DType>(s);
    Tensor<xpu, 1, DType> mean = out_data[center::kMean].get<xpu, 1, DType>(s);
    Tensor<xpu, 1, DType> running = aux_states[center::kRunning].get<xpu, 1, DType>(s);
    if (param_.mode == center::kSubtract) {
      mean = sumall_except_dim<0>(data) * DType(1.0f / data.size(1));
    } else {
      mean = DType(0);
    }
    Tensor<xpu, 2, DType> centered =
        ctx.requested[center::kTempSpace].get_space_typed<xpu, 2, DType>(data.shape_, s);
    centered = data - broadcast<0>(mean, data.shape_);
    if (param_.weighted) {
      Tensor<xpu, 1, DType> weight = in_data[center::kWeight].get<xpu, 1, DType>(s);
      centered *= broadcast<1>(weight, data.shape_);
    }
    Assign(out, req[center::kOut], centered * DType(Scale()) + DType(param_.shift));
    if (ctx.is_train) {
      running = running * DType(0.5f) + sumall_except_dim<1>(data) * DType(0.5f / data.size(0));
    }
  }

  virtual void Backward(const OpContext& ctx, const std::vector<TBlob>& out_grad,
                        const std::vector<TBlob>& in_data, const std::vector<TBlob>& out_data,
                        const std::vector<OpReqType>& req, const std::vector<TBlob>& in_grad,
                        const std::vector<TBlob>& aux_states) {
    using namespace mshadow;
    using namespace mshadow::expr;
    CHECK_EQ(out_grad.size(), 1U);
    Stream<xpu>* s = ctx.get_stream<xpu>();
    Tensor<xpu, 2, DType> grad = out_grad[center::kOut].get<xpu, 2, DType>(s);
    Tensor<xpu, 2, DType> data = in_data[center::kData].get<xpu, 2, DType>(s);
    Tensor<xpu, 1, DType> mean = out_data[center::kMean].get<xpu, 1, DType>(s);
    Tensor<xpu, 2, DType> data_grad = in_grad[center::kData].get<xpu, 2, DType>(s);
    Tensor<xpu, 1, DType> space = ctx.requested[center::kTempSpace].get_space_typed<xpu, 1, DType>(
        Shape1(grad.shape_.Size() + grad.size(0)), s);
    Tensor<xpu, 2, DType> scaled(space.dptr_, grad.shape_, s);
    Tensor<xpu, 1, DType> sums(space.dptr_ + grad.shape_.Size(), Shape1(grad.size(0)), s);
    scaled = grad * DType(Scale());
    if (param_.weighted) {
      Tensor<xpu, 1, DType> weight = in_data[center::kWeight].get<xpu, 1, DType>(s);
      Tensor<xpu, 1, DType> weight_grad = in_grad[center::kWeight].get<xpu, 1, DType>(s);
      Assign(weight_grad, req[center::kWeight],
             sumall_except_dim<1>(scaled * (data - broadcast<0>(mean, data.shape_))));
      scaled *= broadcast<1>(weight, data.shape_);
    }
    if (param_.mode == center::kSubtract) {
      sums = sumall_except_dim<0>(scaled) * DType(1.0f / data.size(1));
      scaled -= broadcast<0>(sums, data.shape_);
    }
    Assign(data_grad, req[center::kData], F<mshadow_op::identity>(scaled));
  }

 private:
  float Scale() const {
    float scale = std::pow(param_.factor, static_cast<float>(param_.repeat)) * param_.coefs[0];
    return param_.limit.has_value() ? std::min(scale, param_.limit.value()) : scale;
  }

  CenterParam param_;
};

template <typename xpu>
Operator* CreateOp(CenterParam param, int dtype);

class CenterProp : public OperatorProperty {
 public:
  void Init(const std::vector<std::pair<std::string, std::string> >& kwargs) override {
    param_.Init(kwargs);
    CHECK_EQ(param_.coefs.ndim(), 1) << "coefs has one factor";
    CHECK(!param_.axis || *param_.axis == 1) << "the axis is 1";
  }
  std::map<std::string, std::string> GetParams() const override { return param_.__DICT__(); }

  std::vector<std::string> ListArguments() const override {
    if (param_.weighted) return {"data", "weight"};
    return {"data"};
  }
  std::vector<std::string> ListOutputs() const override { return {"output", "mean"}; }
  std::vector<std::string> ListAuxiliaryStates() const override { return {"running"}; }
  int NumVisibleOutputs() const override { return 1; }
  int NumOutputs() const override { return 2; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape,
                  std::vector<TShape>* aux_shape) const override {
    using namespace mshadow;
    const TShape& dshape = in_shape->at(center::kData);
    if (dshape.ndim() == 0) return false;
    CHECK_EQ(dshape.ndim(), 2) << "data has rows";
    CHECK_EQ(dshape[1], static_cast<index_t>(param_.width)) << "the length of a row";
    CHECK_LE(dshape[0], param_.most) << "the number of rows";
    for (int i = 0; i < 2; ++i) CHECK_EQ(dshape[i] % param_.block[i], 0) << "blocks";
    if (param_.weighted) {
      SHAPE_ASSIGN_CHECK(*in_shape, center::kWeight, Shape1(dshape[1]));
    }
    out_shape->clear();
    out_shape->push_back(dshape);
    out_shape->push_back(Shape1(dshape[0]));
    aux_shape->clear();
    aux_shape->push_back(Shape1(dshape[1]));
    return true;
  }
  bool InferType(std::vector<int>* in_type, std::vector<int>* out_type,
                 std::vector<int>* aux_type) const override {
    int dtype = (*in_type)[0];
    CHECK_NE(dtype, -1) << "First input must have specified type";
    for (size_t i = 0; i < in_type->size(); ++i) TYPE_ASSIGN_CHECK(*in_type, i, dtype);
    out_type->assign(2, dtype);
    aux_type->assign(1, dtype);
    return true;
  }

  OperatorProperty* Copy() const override {
    auto ptr = new CenterProp();
    ptr->param_ = param_;
    return ptr;
  }
  std::string TypeString() const override { return "style_center"; }

  std::vector<ResourceRequest> ForwardResource(const std::vector<TShape>& in_shape) const override {
    return {ResourceRequest::kTempSpace};
  }
  std::vector<ResourceRequest> BackwardResource(
      const std::vector<TShape>& in_shape) const override {
    return {ResourceRequest::kTempSpace};
  }
  std::vector<int> DeclareBackwardDependency(const std::vector<int>& out_grad,
                                             const std::vector<int>& in_data,
                                             const std::vector<int>& out_data) const override {
    std::vector<int> read = {out_grad[center::kOut], in_data[center::kData],
                             out_data[center::kMean]};
    if (param_.weighted) read.push_back(in_data[center::kWeight]);
    return read;
  }
  std::vector<std::pair<int, void*> > ForwardInplaceOption(
      const std::vector<int>& in_data, const std::vector<void*>& out_data) const override {
    return {};
  }
  std::vector<std::pair<int, void*> > BackwardInplaceOption(
      const std::vector<int>& out_grad, const std::vector<int>& in_data,
      const std::vector<int>& out_data, const std::vector<void*>& in_grad) const override {
    return {{out_grad[center::kOut], in_grad[center::kData]}};
  }

  Operator* CreateOperator(Context ctx) const override {
    LOG(FATAL) << "Not Implemented.";
    return NULL;
  }
  Operator* CreateOperatorEx(Context ctx, std::vector<TShape>* in_shape,
                             std::vector<int>* in_type) const override;

 private:
  CenterParam param_;
};

}  // namespace op
}  // namespace mxnet

#endif  // MXNET_OPERATOR_CENTER_INL_H_
