// Asks which implementation an operator has for some calls, and compares the results of two.
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

using namespace tessera;  // NOLINT

namespace {

void PrintChoice(const OperatorProperty& property, const TShape& shape, DType dtype,
                 const char* named = "") {
  try {
    const std::string chosen =
        property.ChosenImplementation(named, Device::Cpu(), {&shape, 1}, {&dtype, 1});
    std::printf("%s: %s\n", shape.ToString().c_str(), chosen.c_str());
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
}

void PrintRow(const OperatorProperty& property, const char* name) {
  const TShape shape = {1, 2};
  const DType dtype = DType::kFloat32;
  const auto op = property.CreateImplementation(name, Device::Cpu(), {&shape, 1}, {&dtype, 1});
  std::vector<float> x = {3, 4}, y(2);
  const std::vector<TBlob> inputs = {TBlob(x.data(), shape, dtype, Device::Cpu())};
  const std::vector<TBlob> outputs = {TBlob(y.data(), shape, dtype, Device::Cpu())};
  const std::vector<OpReqType> req = {kWriteTo};
  op->Forward(OpContext(), inputs, req, outputs);
  std::printf("%s: %.4f %.4f\n", op->implementation().c_str(), static_cast<double>(y[0]),
              static_cast<double>(y[1]));
}

}  // namespace

int main() {
  const auto property = OperatorRegistry::Get().Create("L2Normalization", {});
  PrintChoice(*property, {64, 8}, DType::kFloat32);
  PrintChoice(*property, {64, 8}, DType::kFloat64);
  PrintChoice(*property, {8, 64}, DType::kFloat32);
  PrintChoice(*property, {8, 64}, DType::kFloat32, "short_rows");
  PrintRow(*property, "short_rows");
  PrintRow(*property, "native");
}
