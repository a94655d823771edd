#include "tessera/train/nn/activation.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/train/initializer.h"
#include "tessera/train/nn/operator_call.h"

namespace tessera::nn {

using nn_internal::CallOne;
using nn_internal::Text;

namespace {

const std::vector<std::string>& Names() {
  static const std::vector<std::string> names = {"relu",     "sigmoid", "tanh", "softrelu",
                                                 "softsign", "silu",    "gelu", "selu"};
  return names;
}

}  // namespace

Activation::Activation(std::string name) : name_(std::move(name)) {
  if (name_.empty()) throw InvalidArgument("Activation: no name, expected ", ListNames(Names()));
  CheckName(name_);
}

void Activation::CheckName(const std::string& name) {
  if (name.empty() || std::find(Names().begin(), Names().end(), name) != Names().end()) return;
  throw InvalidArgument("Activation: found ", Excerpt(name),
                        ", expected one of: ", ListNames(Names()));
}

NDArray Activation::Apply(const std::string& name, const NDArray& x) {
  if (name.empty()) return x;
  if (name == "silu") return x * CallOne("sigmoid", {x});
  if (name == "gelu" || name == "selu") return CallOne("LeakyReLU", {x}, {{"act_type", name}});
  return CallOne("Activation", {x}, {{"act_type", name}});
}

NDArray LeakyReLU::Forward(const NDArray& x) const {
  return CallOne("LeakyReLU", {x}, {{"act_type", "leaky"}, {"slope", Text(alpha_)}});
}

NDArray ELU::Forward(const NDArray& x) const {
  return CallOne("LeakyReLU", {x}, {{"act_type", "elu"}, {"slope", Text(alpha_)}});
}

PReLU::PReLU(index_t in_channels)
    : in_channels_(in_channels),
      alpha_(AddParameter(
          "alpha", {.shape = {in_channels}, .initializer = std::make_shared<Constant>(0.25f)})) {
  nn_internal::RequireAtLeast("PReLU", "in_channels", in_channels, 1);
}

NDArray PReLU::Forward(const NDArray& x) const {
  return CallOne("LeakyReLU", {x, alpha_.Use(x.device(), {in_channels_})}, {{"act_type", "prelu"}});
}

}  // namespace tessera::nn
