// A program in MXNet's own style: a loss, whose gradient needs no head gradient.
//
//   out = 1 / (1 + exp(-data)),  d data = grad_scale (out - label) / number of samples
#include <dmlc/parameter.h>
#include <mxnet/operator.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "./mshadow_op.h"
#include "./operator_common.h"

namespace mxnet {
namespace op {

namespace logistic_loss {
enum LogisticLossInputs { kData, kLabel };
enum LogisticLossOutputs { kOut };
}  // namespace logistic_loss

struct LogisticLossParam : public dmlc::Parameter<LogisticLossParam> {
  float grad_scale;
  DMLC_DECLARE_PARAMETER(LogisticLossParam) {
    DMLC_DECLARE_FIELD(grad_scale).set_default(1.0f).describe("Scales the gradient.");
  }
};

template <typename xpu>
class LogisticLossOp : public Operator {
 public:
  explicit LogisticLossOp(LogisticLossParam param) : param_(param) {}

  virtual void Forward(const OpContext& ctx, const std::vector<TBlob>& in_data,
                       const std::vector<OpReqType>& req, const std::vector<TBlob>& out_data,
                       const std::vector<TBlob>& aux_args) {
    using namespace mshadow;
    using namespace mshadow::expr;
    Stream<xpu>* s = ctx.get_stream<xpu>();
    Tensor<xpu, 2> data = in_data[logistic_loss::kData].FlatTo2D<xpu, real_t>(s);
    Tensor<xpu, 2> out = out_data[logistic_loss::kOut].FlatTo2D<xpu, real_t>(s);
    Assign(out, req[logistic_loss::kOut], F<mshadow_op::sigmoid>(data));
  }

  // Ignores the requests, as many losses do.
  virtual void Backward(const OpContext& ctx, const std::vector<TBlob>& out_grad,
                        const std::vector<TBlob>& in_data, const std::vector<TBlob>& out_data,
                        const std::vector<OpReqType>& req, const std::vector<TBlob>& in_grad,
                        const std::vector<TBlob>& aux_args) {
    using namespace mshadow;
    using namespace mshadow::expr;
    CHECK_EQ(in_data.size(), 2U);
    CHECK_GE(in_grad.size(), 1U);
    Stream<xpu>* s = ctx.get_stream<xpu>();
    Tensor<xpu, 2> out = out_data[logistic_loss::kOut].FlatTo2D<xpu, real_t>(s);
    Tensor<xpu, 2> label = in_data[logistic_loss::kLabel].FlatTo2D<xpu, real_t>(s);
    Tensor<xpu, 2> grad = in_grad[logistic_loss::kData].FlatTo2D<xpu, real_t>(s);
    Tensor<xpu, 2> label_grad = in_grad[logistic_loss::kLabel].FlatTo2D<xpu, real_t>(s);
    grad = (out - label) * (param_.grad_scale / in_data[logistic_loss::kData].size(0));
    label_grad = 0.0f;
  }

 private:
  LogisticLossParam param_;
};

class LogisticLossProp : public OperatorProperty {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "label"}; }
  void Init(const std::vector<std::pair<std::string, std::string> >& kwargs) override {
    param_.Init(kwargs);
  }
  std::map<std::string, std::string> GetParams() const override { return param_.__DICT__(); }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape,
                  std::vector<TShape>* aux_shape) const override {
    CHECK_EQ(in_shape->size(), 2U) << "Input:[data, label]";
    const TShape& dshape = in_shape->at(0);
    if (dshape.ndim() == 0) return false;
    SHAPE_ASSIGN_CHECK(*in_shape, 1, dshape);
    out_shape->clear();
    out_shape->push_back(dshape);
    return true;
  }
  OperatorProperty* Copy() const override {
    auto ptr = new LogisticLossProp();
    ptr->param_ = param_;
    return ptr;
  }
  std::string TypeString() const override { return "style_logistic_loss"; }

  std::vector<int> DeclareBackwardDependency(const std::vector<int>& out_grad,
                                             const std::vector<int>& in_data,
                                             const std::vector<int>& out_data) const override {
    return {in_data[logistic_loss::kLabel], out_data[logistic_loss::kOut]};
  }
  std::vector<std::pair<int, void*> > BackwardInplaceOption(
      const std::vector<int>& out_grad, const std::vector<int>& in_data,
      const std::vector<int>& out_data, const std::vector<void*>& in_grad) const override {
    return {{out_data[logistic_loss::kOut], in_grad[logistic_loss::kData]}};
  }
  std::vector<std::pair<int, void*> > ForwardInplaceOption(
      const std::vector<int>& in_data, const std::vector<void*>& out_data) const override {
    return {{in_data[logistic_loss::kData], out_data[logistic_loss::kOut]}};
  }
  Operator* CreateOperator(Context ctx) const override { return new LogisticLossOp<cpu>(param_); }

 private:
  LogisticLossParam param_;
};

DMLC_REGISTER_PARAMETER(LogisticLossParam);

MXNET_REGISTER_OP_PROPERTY(style_logistic_loss, LogisticLossProp)
    .describe("The logistic function, with the gradient of the cross-entropy.")
    .add_argument("data", "Symbol", "The arguments of the function.")
    .add_argument("label", "Symbol", "0 or 1.")
    .add_arguments(LogisticLossParam::__FIELDS__());

}  // namespace op
}  // namespace mxnet
