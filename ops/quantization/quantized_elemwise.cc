// _contrib_quantized_elemwise_add and _contrib_quantized_elemwise_mul: sums and products of the
// numbers that codes (codes.h) stand for.
//
//   _add  out = round(lhs * s / sl + rhs * s / sr), halves to the even integer
//   _mul  out = lhs * rhs; calibrated: lhs * rhs * s / (sl * sr), cut off towards 0;
//         enable_float_output: lhs * rhs / (sl * sr), without a range
//
// sl, sr and s are the codes of 1 of both inputs and the output: (n + 1/2) / r for 8 bits, where n
// is the largest code and r the range's magnitude; (2^31 - 1) / r for int32. With min_calib_range
// and max_calib_range, the output is int8, or uint8 for a sum of two uint8, is limited to the
// type's range, and has that range. If one addend is uint8 and the other int8, the first is rounded
// to int8 codes of the output before the sum. Other outputs are int32. A sum's range then is rl +
// rr on both sides. A product's code is worth rl / 127 * rr / 127, and its range has the numbers of
// -2^31 and 2^31 - 1.
//
// MXNet leaves the uint8 addend of an int32 sum out if the other is int8, and lets calibrated
// products wrap around. Shapes: all equal; ranges (1,). Types: sums take int8 and uint8, products
// int8; ranges float32. Gradient 0. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/quantization/quantized_property.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: codes and registration

constexpr index_t kBlock = 256;

struct SumParameters {
  std::optional<float> min_calib_range;
  std::optional<float> max_calib_range;

  template <typename Schema>
  static void DeclareShared(Schema& schema) {
    using P = SumParameters;
    schema.template Optional<std::optional<float>>(
        "min_calib_range", &P::min_calib_range,
        "the output's low end, for an output of 8 bits; int32 if either is None");
    schema.template Optional<std::optional<float>>("max_calib_range", &P::max_calib_range,
                                                   "the output's high end");
  }
  static void Declare(ParameterSchema<SumParameters>& schema) { DeclareShared(schema); }

  bool IsCalibrated() const { return min_calib_range && max_calib_range; }
  float Range() const { return Magnitude(*min_calib_range, *max_calib_range); }
};

struct ProductParameters : SumParameters {
  bool enable_float_output = false;

  static void Declare(ParameterSchema<ProductParameters>& schema) {
    DeclareShared(schema);
    schema.Optional("enable_float_output", &ProductParameters::enable_float_output,
                    "give float32 numbers and no range");
  }
};

template <typename Parameters>
class PairProperty : public QuantizedProperty<Parameters> {
  std::unique_ptr<OperatorProperty> CreateBase() const final {
    return OperatorRegistry::Get().Create("elemwise_add", {});
  }
  std::vector<std::string> RangeNames() const final {
    return {"lhs_min", "lhs_max", "rhs_min", "rhs_max"};
  }
};

class SumProperty final : public PairProperty<SumParameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeRangeTypes(in_type, out_type);
    const DType lhs = (*in_type)[0], rhs = (*in_type)[1];
    RequireCodes("lhs", lhs);
    RequireCodes("rhs", rhs);
    const bool known = lhs != DType::kUnknown && rhs != DType::kUnknown;
    if (!param_.IsCalibrated()) {
      MergeType(*this, "output", &(*out_type)[0], DType::kInt32);
    } else if (known) {
      MergeType(*this, "output", &(*out_type)[0], lhs == rhs ? lhs : DType::kInt8);
    }
    return known;
  }
};

class ProductProperty final : public PairProperty<ProductParameters> {
 public:
  std::vector<std::string> ListOutputs() const override {
    if (param_.enable_float_output) return {"output"};
    return PairProperty::ListOutputs();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeRangeTypes(in_type, out_type);
    MergeType(*this, "lhs", &(*in_type)[0], DType::kInt8);
    MergeType(*this, "rhs", &(*in_type)[1], DType::kInt8);
    MergeType(*this, "output", &(*out_type)[0],
              param_.enable_float_output ? DType::kFloat32
              : param_.IsCalibrated()    ? DType::kInt8
                                         : DType::kInt32);
    return true;
  }
};

/// Calls fill(i, n, block) for blocks of n elements from i on, and writes them to `out`: integers
/// cut off towards 0 and limited to their range.
template <typename T, typename Fill>
void StoreBlocks(const TBlob& out, const Fill& fill) {
  const index_t element = DTypeSizeBytes(out.type_flag_);
  ParallelFor(out.shape_.Size(), StepsPerTask(2), [&](index_t begin, index_t end) {
    T block[kBlock];
    for (index_t i = begin; i < end; i += kBlock) {
      const index_t n = std::min(kBlock, end - i);
      fill(i, n, block);
      StoreRow(block, n, /*add=*/false, out.type_flag_,
               static_cast<char*>(out.dptr_) + i * element);
    }
  });
}

/// One input of a sum.
struct Addend {
  const TBlob& codes;
  float factor;         ///< the output's code of the code 1
  bool rounds = false;  ///< to int8 codes of the output

  /// Reads n elements from i on as codes of the output.
  void Read(index_t i, index_t n, float* block) const {
    LoadRow(static_cast<const char*>(codes.dptr_) + i, codes.type_flag_, 1, n, block);
    for (index_t k = 0; k < n; ++k) block[k] *= factor;
    if (!rounds) return;
    for (index_t k = 0; k < n; ++k) {
      block[k] = std::clamp(std::nearbyint(block[k]), -128.0f, 127.0f);
    }
  }
};

class SumOperator final : public Operator {
 public:
  explicit SumOperator(const SumParameters& param) : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const float ranges[] = {Magnitude(in_data[2], in_data[3]), Magnitude(in_data[4], in_data[5])};
    const float sum = ranges[0] + ranges[1];
    if (req[0] != kNullOp) {
      const float one =
          CodeOfOne(out_data[0].type_flag_, param_.IsCalibrated() ? param_.Range() : sum);
      Add(AddendOf(in_data, 0, ranges[0], one), AddendOf(in_data, 1, ranges[1], one), out_data[0]);
    }
    if (param_.IsCalibrated()) {
      StoreRange(*param_.min_calib_range, *param_.max_calib_range, req, out_data);
    } else {
      StoreRange(-sum, sum, req, out_data);
    }
  }

 private:
  Addend AddendOf(std::span<const TBlob> in_data, size_t i, float range, float one) const {
    const TBlob& codes = in_data[i];
    const bool rounds = param_.IsCalibrated() && codes.type_flag_ == DType::kUint8 &&
                        in_data[1 - i].type_flag_ == DType::kInt8;
    return {codes, one / CodeOfOne(codes.type_flag_, range), rounds};
  }

  static void Add(const Addend& lhs, const Addend& rhs, const TBlob& out) {
    StoreBlocks<float>(out, [&](index_t i, index_t n, float* block) {
      float other[kBlock];
      lhs.Read(i, n, block);
      rhs.Read(i, n, other);
      for (index_t k = 0; k < n; ++k) block[k] = std::nearbyint(block[k] + other[k]);
    });
  }

  const SumParameters param_;
};

class ProductOperator final : public Operator {
 public:
  explicit ProductOperator(const ProductParameters& param) : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const auto* const lhs = static_cast<const int8_t*>(in_data[0].dptr_);
    const auto* const rhs = static_cast<const int8_t*>(in_data[1].dptr_);
    const float left = Magnitude(in_data[2], in_data[3]), right = Magnitude(in_data[4], in_data[5]);
    const bool exact = !param_.enable_float_output && !param_.IsCalibrated();
    if (req[0] != kNullOp && exact) {
      StoreBlocks<int32_t>(out_data[0], [&](index_t i, index_t n, int32_t* block) {
        for (index_t k = 0; k < n; ++k) block[k] = lhs[i + k] * rhs[i + k];
      });
    } else if (req[0] != kNullOp) {
      const float factor = Factor(left, right);
      StoreBlocks<float>(out_data[0], [&](index_t i, index_t n, float* block) {
        for (index_t k = 0; k < n; ++k) {
          block[k] = static_cast<float>(lhs[i + k] * rhs[i + k]) * factor;
        }
      });
    }
    if (exact) {
      StoreRangeOfInt32(left / 127 * (right / 127), req, out_data);
    } else if (!param_.enable_float_output) {
      StoreRange(*param_.min_calib_range, *param_.max_calib_range, req, out_data);
    }
  }

 private:
  /// Returns what the product of two codes 1 gives.
  float Factor(float left, float right) const {
    const float ones = CodeOfOne(DType::kInt8, left) * CodeOfOne(DType::kInt8, right);
    return (param_.enable_float_output ? 1 : CodeOfOne(DType::kInt8, param_.Range())) / ones;
  }

  const ProductParameters param_;
};

[[maybe_unused]] const bool kSum = RegisterTypedOperator<SumProperty, SumOperator>(
    TESSERA_TABLE_PLACE, "_contrib_quantized_elemwise_add",
    "Sums of the numbers that integers of 8 bits stand for.", TakenTypes::kAny);
[[maybe_unused]] const bool kProduct = RegisterTypedOperator<ProductProperty, ProductOperator>(
    TESSERA_TABLE_PLACE, "_contrib_quantized_elemwise_mul",
    "Products of the numbers that integers of 8 bits stand for.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
