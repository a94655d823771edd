// Operators in MXNet's own style in arrays, on the tape and in graphs: those of the programs in
// testing/, and one that this file registers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "mxnet/operator.h"
#include "tessera/base/testing/errors.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/registry.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace {

/// The sum of any number of arrays, which a thread of its own computes.
struct SumParam : public dmlc::Parameter<SumParam> {
  int num_args;
  DMLC_DECLARE_PARAMETER(SumParam) {
    DMLC_DECLARE_FIELD(num_args).set_lower_bound(1).describe("The number of arrays.");
  }
};
DMLC_REGISTER_PARAMETER(SumParam);

class SumOp final : public mxnet::Operator {
 public:
  void Forward(const mxnet::OpContext& ctx, const std::vector<mxnet::TBlob>& in_data,
               const std::vector<mxnet::OpReqType>& /*req*/,
               const std::vector<mxnet::TBlob>& out_data,
               const std::vector<mxnet::TBlob>& /*aux_states*/) override {
    std::thread([=] {
      float* const out = out_data[0].dptr<float>();
      for (size_t i = 0; i < out_data[0].Size(); ++i) {
        out[i] = 0;
        for (const mxnet::TBlob& in : in_data) out[i] += in.dptr<float>()[i];
      }
      ctx.async_on_complete();
    }).detach();
  }
  ExecType exec_type() const override { return kAsync; }
};

class SumProp final : public mxnet::OperatorProperty {
 public:
  void Init(const std::vector<std::pair<std::string, std::string>>& kwargs) override {
    param_.Init(kwargs);
  }
  std::map<std::string, std::string> GetParams() const override { return param_.__DICT__(); }
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names;
    for (int i = 0; i < param_.num_args; ++i) names.push_back("arg" + std::to_string(i));
    return names;
  }
  bool InferShape(std::vector<mxnet::TShape>* in_shape, std::vector<mxnet::TShape>* out_shape,
                  std::vector<mxnet::TShape>* /*aux_shape*/) const override {
    if ((*in_shape)[0].ndim() == 0) return false;
    in_shape->assign(in_shape->size(), mxnet::TShape((*in_shape)[0]));
    out_shape->assign(1, (*in_shape)[0]);
    return true;
  }
  mxnet::OperatorProperty* Copy() const override { return new SumProp(*this); }
  mxnet::Operator* CreateOperator(mxnet::Context /*ctx*/) const override { return new SumOp; }
  std::string TypeString() const override { return "style_sum"; }

 private:
  SumParam param_;
};

MXNET_REGISTER_OP_PROPERTY(style_sum, SumProp)
    .add_argument("data", "NDArray-or-Symbol[]", "The arrays.")
    .add_arguments(SumParam::__FIELDS__())
    .set_key_var_num_args("num_args")
    .add_alias("style_Sum")
    .describe("The sum of arrays.");

}  // namespace

namespace tessera {
namespace {

using base_testing::MessageOf;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pair;

NDArray Array(const std::vector<float>& values, const TShape& shape) {
  return NDArray::FromVector(values, shape);
}

NDArray Vector(const std::vector<float>& values) {
  return Array(values, {static_cast<index_t>(values.size())});
}

void Set(const NDArray& target, const NDArray& value) { CopyFromTo(value, target); }

std::string InitError(std::string_view op, const ParameterMap& parameters) {
  return MessageOf([&] { OperatorRegistry::Get().Create(op, parameters); });
}

const std::vector<float> kRows = {1, 2, 3, 4, 6, 8};

TEST(OperatorsTest, ComputeArrays) {
  const NDArray x = Array(kRows, {2, 3});
  const auto center = [&](ParameterMap parameters) {
    parameters["width"] = "3";
    return Invoke("style_center", {x, Vector({0, 0, 0})}, parameters)[0].ToVector();
  };
  EXPECT_THAT(center({}), ElementsAre(-1, 0, 1, -2, 0, 2));
  EXPECT_THAT(center({{"factor", "2"}, {"repeat", "2"}, {"shift", "0.5"}, {"coefs", "(0.5,)"}}),
              ElementsAre(-1.5, 0.5, 2.5, -3.5, 0.5, 4.5));
  EXPECT_THAT(center({{"mode", "keep"}, {"scale", "3"}, {"limit", "2"}}),
              ElementsAre(2, 4, 6, 8, 12, 16));
}

TEST(OperatorsTest, ComputeOtherTypes) {
  for (const char* const dtype : {"float64", "float16"}) {
    const auto cast = [&](const NDArray& x, const char* to) {
      return Invoke("Cast", {x}, {{"dtype", to}})[0];
    };
    const NDArray y =
        Invoke("style_center", {cast(Array(kRows, {3, 2}), dtype), cast(Vector({0, 0}), dtype)},
               {{"width", "2"}})[0];
    EXPECT_EQ(DTypeName(y.dtype()), dtype);
    EXPECT_THAT(cast(y, "float32").ToVector(), ElementsAre(-0.5, 0.5, -0.5, 0.5, -1, 1));
  }
}

TEST(OperatorsTest, HaveGradientsOnTheTape) {
  NDArray x = Array(kRows, {2, 3}), weight = Vector({1, 2, 3});
  x.AttachGrad();
  weight.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    y = Invoke("style_center", {x, weight, Vector({0, 0, 0})},
               {{"width", "3"}, {"weighted", "True"}, {"factor", "4"}})[0];
  }
  EXPECT_THAT(y.ToVector(), ElementsAre(-4, 0, 12, -8, 0, 24));
  y.Backward(Array({1, 1, 2, 3, 0, 1}, {2, 3}));
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(-8, -4, 12, 4, -8, 4));
  EXPECT_THAT(weight.grad().ToVector(), ElementsAre(-28, 0, 16));
}

TEST(OperatorsTest, RunInGraphs) {
  const Symbol net =
      Symbol::FromJson(Symbol::Apply("style_center", {Symbol::Variable("x") * 1.0f},
                                     {{"width", "3"}, {"weighted", "1"}, {"factor", "4"}}, "center")
                           .ToJson());
  EXPECT_EQ(net.num_outputs(), 1);
  EXPECT_THAT(net.ListArguments(), ElementsAre("x", "center_weight"));
  EXPECT_THAT(net.ListAuxiliaryStates(), ElementsAre("center_running"));
  const auto executor = SimpleBind(net, Device::Cpu(),
                                   {.shapes = {{"x", TShape{2, 3}}},
                                    .grad_requests = {{"x", kAddTo}, {"center_weight", kWriteTo}}});
  Set(executor->arg_dict().at("x"), Array(kRows, {2, 3}));
  Set(executor->arg_dict().at("center_weight"), Vector({1, 2, 3}));
  Set(executor->aux_dict().at("center_running"), Vector({0, 0, 0}));
  Set(executor->grad_dict().at("x"), Array({100, 100, 100, 100, 100, 100}, {2, 3}));
  executor->Forward(/*is_train=*/false);
  EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(-4, 0, 12, -8, 0, 24));
  EXPECT_THAT(executor->aux_dict().at("center_running").ToVector(), Each(0));
  executor->Forward(/*is_train=*/true);
  executor->Backward({Array({1, 1, 2, 3, 0, 1}, {2, 3})});
  EXPECT_THAT(executor->grad_dict().at("x").ToVector(), ElementsAre(92, 96, 112, 104, 92, 104));
  EXPECT_THAT(executor->grad_dict().at("center_weight").ToVector(), ElementsAre(-28, 0, 16));
  EXPECT_THAT(executor->aux_dict().at("center_running").ToVector(), ElementsAre(1.25, 2, 2.75));
}

TEST(OperatorsTest, CallsMayOverlap) {
  std::vector<NDArray> results;
  for (int i = 0; i < 200; ++i) {
    const auto v = static_cast<float>(i);
    results.push_back(Invoke("style_center", {Array({v, 0, 0, -v}, {2, 2}), Vector({0, 0})},
                             {{"width", "2"}, {"factor", "2"}})[0]);
  }
  for (int i = 0; i < 200; ++i) {
    const auto v = static_cast<float>(i);
    EXPECT_THAT(results[static_cast<size_t>(i)].ToVector(), ElementsAre(v, -v, v, -v));
  }
}

TEST(OperatorsTest, AGradientThatIsNotWantedHasMemory) {
  // Both gradients are written, whatever the requests are.
  const Symbol net =
      Symbol::Apply("style_logistic_loss", {Symbol::Variable("x")}, {{"grad_scale", "4"}}, "loss");
  const auto executor = SimpleBind(
      net, Device::Cpu(),
      {.shapes = {{"x", TShape{2, 1}}}, .grad_requests = {{"x", kAddTo}, {"loss_label", kNullOp}}});
  Set(executor->arg_dict().at("x"), Array({0, 0}, {2, 1}));
  Set(executor->arg_dict().at("loss_label"), Array({1, 0}, {2, 1}));
  Set(executor->grad_dict().at("x"), Array({10, 10}, {2, 1}));
  executor->Forward(true);
  EXPECT_THAT(executor->outputs()[0].ToVector(), Each(FloatNear(0.5f, 1e-6f)));
  executor->Backward();  // a loss needs no head gradient
  EXPECT_THAT(executor->grad_dict().at("x").ToVector(),
              ElementsAre(FloatNear(9, 1e-5f), FloatNear(11, 1e-5f)));
}

TEST(OperatorsTest, AreMadeOfFunctions) {
  NDArray x = Vector({-3, -0.5, 0.5, 2});
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    y = Invoke("style_soft_shrink", {x}, {{"scalar", "1"}})[0];
  }
  EXPECT_THAT(y.ToVector(), ElementsAre(-2, 0, 0, 1));
  y.Backward(Vector({1, 2, 3, 4}));
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(1, 0, 0, 4));

  NDArray a = Vector({1, 2}), b = Vector({3, 4, 5});
  a.AttachGrad();
  b.AttachGrad();
  {
    const autograd::Record record;
    y = Invoke("style_outer", {a, b})[0];
  }
  EXPECT_EQ(y.shape(), (TShape{2, 3}));
  EXPECT_THAT(y.ToVector(), ElementsAre(3, 4, 5, 6, 8, 10));
  y.Backward(Array({1, 1, 1, 1, 1, 2}, {2, 3}));
  EXPECT_THAT(a.grad().ToVector(), ElementsAre(12, 17));
  EXPECT_THAT(b.grad().ToVector(), ElementsAre(3, 3, 5));

  const Symbol net =
      Symbol::Apply("style_SoftShrink", {Symbol::Variable("x")}, {{"scalar", "0.25"}}, "shrink");
  const auto executor = SimpleBind(net, Device::Cpu(), {.shapes = {{"x", TShape{2}}}});
  Set(executor->arg_dict().at("x"), Vector({1, -1}));
  executor->Forward(true);
  EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(0.75, -0.75));
  executor->Backward({Vector({5, 7})});
  EXPECT_THAT(executor->grad_dict().at("x").ToVector(), ElementsAre(5, 7));
}

TEST(OperatorsTest, DrawFromTheDevicesSequence) {
  const auto draw = [] {
    return Invoke("style_uniform", std::span<const NDArray>(), {{"size", "5"}})[0].ToVector();
  };
  const auto seed = [] { ResourceManager::Get()->SeedRandom(7); };
  seed();
  const std::vector<float> first = draw(), second = draw();
  EXPECT_THAT(first, Each(AllOf(::testing::Ge(0.0f), ::testing::Lt(1.0f))));
  EXPECT_NE(first, second);
  seed();
  EXPECT_EQ(draw(), first);
  const Symbol net = Symbol::FromJson(
      Symbol::Apply("style_uniform", std::vector<Symbol>(), {{"size", "5"}}, "uniform").ToJson());
  const auto executor = SimpleBind(net, Device::Cpu(), {.grad_req = kNullOp});
  executor->Forward(false);
  EXPECT_EQ(executor->outputs()[0].shape(), TShape{5});
  EXPECT_NE(executor->outputs()[0].ToVector(), first);
  EXPECT_EQ(OperatorRegistry::Get().Create("style_uniform", {})->purity(), Purity::kRandom);
  EXPECT_FALSE(OperatorRegistry::Get().Create("style_uniform", {})->HasGradient());
}

TEST(OperatorsTest, MayFinishLaterAndCountTheirInputs) {
  const Symbol net = Symbol::Apply(
      "style_Sum", {Symbol::Variable("a"), Symbol::Variable("b"), Symbol::Variable("c")}, {}, "s");
  const TShape shape = {2};
  const auto executor =
      SimpleBind(net, Device::Cpu(),
                 {.shapes = {{"a", shape}, {"b", shape}, {"c", shape}}, .grad_req = kNullOp});
  Set(executor->arg_dict().at("a"), Vector({1, 2}));
  Set(executor->arg_dict().at("b"), Vector({10, 20}));
  Set(executor->arg_dict().at("c"), Vector({100, 200}));
  for (int i = 0; i < 20; ++i) {
    executor->Forward(false);
    EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(111, 222));
  }
}

TEST(OperatorsTest, ErrorsOfParametersSayWhatIsExpected) {
  EXPECT_THAT(InitError("style_center", {}),
              AllOf(HasSubstr("style_center"), HasSubstr("required parameter \"width\"")));
  const auto error = [](const char* name, const char* text) {
    return InitError("style_center", {{"width", "3"}, {name, text}});
  };
  EXPECT_THAT(error("factr", "1"), HasSubstr("did you mean \"factor\"?"));
  EXPECT_THAT(error("factor", "101"),
              AllOf(HasSubstr("CenterParam: parameter factor: \"101\" is out of range"),
                    HasSubstr("expected a value of at most 100")));
  EXPECT_THAT(error("factor", "a"), HasSubstr("\"a\" is not a number"));
  EXPECT_THAT(error("repeat", "0"), HasSubstr("expected a value of at least 1"));
  EXPECT_THAT(InitError("style_center", {{"width", "-1"}}),
              HasSubstr("\"-1\" is out of range; expected a value in [0, 4294967295]"));
  EXPECT_THAT(error("most", "1.5"), HasSubstr("\"1.5\" is not an integer"));
  EXPECT_THAT(error("mode", "drop"), AllOf(HasSubstr("drop"), HasSubstr("{subtract, keep}")));
  EXPECT_THAT(error("limit", "9"), HasSubstr("expected a value of at most 8"));
  EXPECT_THAT(error("block", "(1,2,3)"), HasSubstr("expected 2 extents"));
  EXPECT_THAT(error("block", "(0,1)"), HasSubstr("expected extents other than 0"));
  EXPECT_THAT(error("coefs", "(1"), HasSubstr("unbalanced brackets"));
  EXPECT_THAT(error("coefs", "(1,2)"), HasSubstr("coefs has one factor"));
  EXPECT_THAT(error("axis", "0"), HasSubstr("the axis is 1"));
  EXPECT_THAT(InitError("style_soft_shrink", {}), HasSubstr("required parameter \"scalar\""));
  EXPECT_THAT(InitError("style_outer", {{"size", "1"}}),
              AllOf(HasSubstr("style_outer"), HasSubstr("\"size\"")));
}

TEST(OperatorsTest, ParametersHaveTextsAndDocumentation) {
  const auto& registry = OperatorRegistry::Get();
  const auto property = registry.Create(
      "style_center", {{"width", "3"}, {"axis", "1"}, {"limit", "2.5"}, {"block", "(2, 1)"}});
  const ParameterMap texts = property->GetParams();
  EXPECT_THAT(texts,
              ElementsAre(Pair("axis", "1"), Pair("block", "(2,1)"), Pair("coefs", "(1,)"),
                          Pair("factor", "1"), Pair("label", "none"), Pair("limit", "2.5"),
                          Pair("mode", "subtract"), Pair("most", "1000"), Pair("repeat", "1"),
                          Pair("shift", "0"), Pair("weighted", "False"), Pair("width", "3")));
  EXPECT_EQ(registry.Create("style_center", texts)->GetParams(), texts);

  const OperatorEntry& entry = *registry.Find("style_center");
  EXPECT_EQ(entry.description, "Rows without their means.");
  const std::vector<ParameterInfo> infos = entry.describe_parameters();
  ASSERT_EQ(infos.size(), 12u);  // without the inputs
  EXPECT_EQ(infos[1].name, "width");
  EXPECT_TRUE(infos[1].required);
  EXPECT_EQ(infos[7].name, "mode");
  EXPECT_EQ(infos[7].type, "{subtract, keep}");
  EXPECT_EQ(infos[7].default_value, "subtract");
  EXPECT_EQ(infos[8].default_value, "None");
  EXPECT_EQ(infos[10].default_value, "(1,1)");
}

TEST(OperatorsTest, ErrorsOfShapesAndTypesNameOperatorAndArgument) {
  const auto property =
      OperatorRegistry::Get().Create("style_center", {{"width", "3"}, {"weighted", "True"}});
  const auto shapes = [&](const TShape& data, const TShape& weight) {
    return MessageOf([&] {
      std::vector<TShape> in = {data, weight, TShape()}, out(2);
      property->InferShape(&in, &out);
    });
  };
  EXPECT_THAT(shapes({2, 4}, {}), AllOf(HasSubstr("style_center"), HasSubstr("length of a row")));
  EXPECT_THAT(shapes({2, 3}, {4}),
              AllOf(HasSubstr("style_center: weight: the shape is (4,), expected (3,)")));
  EXPECT_THAT(shapes({0, 3}, TShape()), HasSubstr("style_center: data has shape (0,3)"));
  std::vector<TShape> in = {TShape(), TShape(), TShape()}, out(2);
  EXPECT_FALSE(property->InferShape(&in, &out));

  const auto types = [&](DType data, DType weight, DType running) {
    std::vector<DType> in_type = {data, weight, running}, out_type(2, DType::kUnknown);
    return property->InferType(&in_type, &out_type);
  };
  EXPECT_TRUE(types(DType::kFloat64, DType::kUnknown, DType::kUnknown));
  EXPECT_FALSE(types(DType::kUnknown, DType::kFloat32, DType::kUnknown));
  EXPECT_THAT(MessageOf([&] { types(DType::kFloat64, DType::kFloat32, DType::kUnknown); }),
              HasSubstr("style_center: weight: the element type is float32, expected float64"));
  EXPECT_THAT(MessageOf([&] { types(DType::kFloat64, DType::kUnknown, DType::kFloat32); }),
              HasSubstr("style_center: running has element type float32, expected float64"));
  // A property without InferType takes float32 alone.
  std::vector<DType> in_type = {DType::kFloat64, DType::kFloat64}, out_type(1, DType::kUnknown);
  EXPECT_THAT(
      MessageOf([&] {
        OperatorRegistry::Get().Create("style_logistic_loss", {})->InferType(&in_type, &out_type);
      }),
      HasSubstr("style_logistic_loss: data has element type float64, expected float32"));
}

TEST(OperatorsTest, AMissingBackwardIsAnError) {
  NDArray x = Vector({1});
  x.AttachGrad();
  {
    const autograd::Record record;
    Invoke("style_sum", {x}, {{"num_args", "1"}})[0].Backward();
  }
  EXPECT_THAT(MessageOf([&] { x.grad().WaitToRead(); }), HasSubstr("does not implement Backward"));
}

TEST(OperatorsTest, PropertiesAreFoundByName) {
  const std::unique_ptr<::mxnet::OperatorProperty> property(
      ::mxnet::OperatorProperty::Create("style_sum"));
  EXPECT_EQ(property->TypeString(), "style_sum");
  property->Init({{"num_args", "2"}});
  EXPECT_THAT(property->ListArguments(), ElementsAre("arg0", "arg1"));
  EXPECT_THAT(property->BackwardInputs<char>({'g'}, {'a', 'b'}, {'y'}),
              ElementsAre('g', 'a', 'b', 'y'));
  EXPECT_THAT(MessageOf([] { ::mxnet::OperatorProperty::Create("style_none"); }),
              HasSubstr("\"style_none\""));
}

}  // namespace
}  // namespace tessera
