// Steps by numbers are the registered operators' steps, bit for bit.
#include "tessera/ops/optimizer/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/registry.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {
namespace {

using Arrays = std::vector<std::vector<float>>;

/// Returns arrays of these sizes, each `count` times, with numbers in [0.5, 1.5].
Arrays ArraysOf(const std::vector<index_t>& sizes, int count) {
  Arrays arrays;
  for (const index_t size : sizes) {
    for (int k = 0; k < count; ++k) {
      std::vector<float>& array = arrays.emplace_back();
      for (index_t i = 0; i < size; ++i) {
        array.push_back(1 + 0.5f * std::sin(static_cast<float>(i + 7 * k)));
      }
    }
  }
  return arrays;
}

/// Calls a registered operator on arrays, of which every `count` belong to one weight.
void Call(const std::string& op, const ParameterMap& parameters, int count, Arrays* arrays) {
  const auto property = OperatorRegistry::Get().Create(op, parameters);
  std::vector<TBlob> in;
  std::vector<TShape> shapes;
  for (std::vector<float>& array : *arrays) {
    shapes.push_back({static_cast<index_t>(array.size())});
    in.emplace_back(array.data(), shapes.back(), DType::kFloat32, Device::Cpu());
  }
  const std::vector<DType> types(in.size(), DType::kFloat32);
  std::vector<TBlob> out;
  for (size_t i = 0; i < in.size(); i += static_cast<size_t>(count)) out.push_back(in[i]);
  const std::vector<OpReqType> req(out.size() + property->MutatedInputs().size(), kWriteInplace);
  property->CreateOperator(Device::Cpu(), shapes, types)->Forward({}, in, req, out);
}

/// Takes steps by numbers on such arrays.
template <typename Rule>
void Take(const std::vector<Rule>& rules, Arrays* arrays) {
  const size_t count = arrays->size() / rules.size();
  std::vector<StepArguments> arguments;
  for (size_t i = 0; i < arrays->size(); i += count) {
    StepArguments& step = arguments.emplace_back();
    const auto array = [&](size_t k) { return StepArray{(*arrays)[i + k].data()}; };
    step.size = static_cast<index_t>((*arrays)[i].size());
    step.weight = step.out = array(0);
    step.grad = array(1);
    step.req = kWriteInplace;
    for (size_t k = 2; k < count; ++k) {
      step.states[k - 2] = array(k);
      step.keeps[k - 2] = true;
    }
  }
  Update<Rule>(DeviceType::kCpu, rules, arguments, /*master=*/false, {});
}

TEST(UpdateTest, AStepIsTheOperators) {
  Arrays expected = ArraysOf({70001}, 4), actual = expected;
  Call("adam_update", {{"lr", "0.3"}, {"wd", "0.1"}, {"beta1", "0.7"}}, 4, &expected);
  AdamRule rule;
  rule.lr = 0.3f;
  rule.wd = 0.1f;
  rule.beta1 = 0.7f;
  Take<AdamRule>({rule}, &actual);
  EXPECT_EQ(actual, expected);
}

TEST(UpdateTest, EachWeightHasItsNumbers) {
  Arrays expected = ArraysOf({700, 0, 70001}, 3), actual = expected;
  Call("multi_sgd_mom_update",
       {{"lrs", "(0.1,0.2,0.3)"},
        {"wds", "(0,0.5,0.25)"},
        {"momentum", "0.9"},
        {"num_weights", "3"}},
       3, &expected);
  std::vector<MomentumRule> rules(3);
  const float lrs[] = {0.1f, 0.2f, 0.3f}, wds[] = {0, 0.5f, 0.25f};
  for (size_t i = 0; i < 3; ++i) {
    rules[i].lr = lrs[i];
    rules[i].wd = wds[i];
    rules[i].momentum = 0.9f;
  }
  Take(rules, &actual);
  EXPECT_EQ(actual, expected);
}

TEST(UpdateTest, NormsAreThoseOfEachWeight) {
  Arrays expected = ArraysOf({700, 70001}, 4), actual = expected;
  Call("_multi_lamb_update",
       {{"learning_rates", "(0.1,0.2)"},
        {"wds", "(0,0.25)"},
        {"step_count", "(1,9)"},
        {"num_tensors", "2"}},
       4, &expected);
  std::vector<LambRule> rules(2);
  rules[0].lr = 0.1f;
  rules[1].lr = 0.2f;
  rules[1].wd = 0.25f;
  rules[1].t = 9;
  Take(rules, &actual);
  EXPECT_EQ(actual, expected);
}

}  // namespace
}  // namespace tessera::ops_internal
