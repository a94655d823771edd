// _contrib_quantized_fully_connected: FullyConnected of codes (codes.h), out = data * weight^T +
// bias.
//
//   out[i][j] = sum_k data[i][k] * weight[j][k] + bias[j]
//
// An output is an int32 code worth Rd / n * Rw / 127, where Rd and Rw are the ranges' magnitudes
// and n is 127 for data of int8, 255 for uint8: min_output and max_output are the numbers of -2^31
// and 2^31 - 1. The bias is first converted to the codes' unit as MXNet does, with n + 1/2 in place
// of n, and cut off towards 0. Sums of products wrap around; the bias is added with saturation.
// Shapes: those of FullyConnected; ranges (1,). Types: data int8 or uint8; weight and bias int8;
// out int32; ranges float32. Gradient 0. Runs on the CPU.
#include <cstdint>
#include <vector>

#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/quantization/quantized_property.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: codes and registration

struct QuantizedFullyConnectedParameters {
  int64_t num_hidden = 0;
  bool no_bias = false;
  bool flatten = true;

  static void Declare(ParameterSchema<QuantizedFullyConnectedParameters>& schema) {
    using P = QuantizedFullyConnectedParameters;
    schema.Required("num_hidden", &P::num_hidden, "number of outputs for each row");
    schema.Range(1);
    schema.Optional("no_bias", &P::no_bias, "leave the bias out");
    schema.Optional("flatten", &P::flatten, "treat all dimensions after the first as one");
  }
};

class QuantizedFullyConnectedProperty final
    : public QuantizedProductProperty<QuantizedFullyConnectedParameters> {
  std::unique_ptr<OperatorProperty> CreateBase() const override {
    return OperatorRegistry::Get().Create("FullyConnected", GetParams());
  }
};

class QuantizedFullyConnectedOperator final : public Operator {
 public:
  explicit QuantizedFullyConnectedOperator(const QuantizedFullyConnectedParameters& param)
      : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const ProductInputs in(in_data, param_.no_bias);
    if (req[0] != kNullOp) Multiply(in, out_data[0]);
    const float n = LargestCode(in.data.type_flag_);
    StoreRangeOfInt32(in.DataRange() / n * (in.WeightRange() / 127), req, out_data);
  }

 private:
  void Multiply(const ProductInputs& in, const TBlob& out) const {
    const index_t columns = in.weight.shape_[1], hidden = param_.num_hidden;
    const auto* const weight = static_cast<const int8_t*>(in.weight.dptr_);
    auto* const sums = static_cast<int32_t*>(out.dptr_);
    const std::vector<int32_t> bias = in.bias == nullptr ? std::vector<int32_t>() : in.Bias();
    VisitCodes(in.data.type_flag_, [&](auto code) {
      const auto* const data = static_cast<const decltype(code)*>(in.data.dptr_);
      ParallelFor(out.shape_.Size(), StepsPerTask(columns), [&](index_t begin, index_t end) {
        for (index_t i = begin; i < end; ++i) {
          const auto* const row = data + i / hidden * columns;
          const int8_t* const weights = weight + i % hidden * columns;
          int32_t sum = 0;
          for (index_t k = 0; k < columns; ++k) sum += int32_t{row[k]} * weights[k];
          sums[i] = bias.empty() ? sum : SaturatedSum(sum, bias[static_cast<size_t>(i % hidden)]);
        }
      });
    });
  }

  const QuantizedFullyConnectedParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<QuantizedFullyConnectedProperty, QuantizedFullyConnectedOperator>(
        TESSERA_TABLE_PLACE, "_contrib_quantized_fully_connected",
        "A dense layer of integers of 8 bits.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
