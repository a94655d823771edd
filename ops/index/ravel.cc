// _ravel_multi_index and _unravel_index: positions in an array as numbers of its elements, and
// back.
//
//   _ravel_multi_index: out[i] = (…(data[0][i] * shape[1] + data[1][i]) * shape[2] + …)
//   _unravel_index:     out[d][i] = data[i] / (shape[d+1] * shape[d+2] …) % shape[d], but
//                       out[0][i] without the remainder
//
// Numbers are truncated, and those outside of `shape` are computed likewise; NaN is an error.
// `shape` is that of the array, m extents of which the first is not read and may be -1. Shapes:
// positions (m, n), numbers (n). Types: any one type, computed in int64. The gradient is 0. Runs on
// the CPU.
#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: movement and registration

struct RavelParameters {
  std::vector<int64_t> shape;

  static void Declare(ParameterSchema<RavelParameters>& schema) {
    schema.Optional("shape", &RavelParameters::shape, "extents of the array; the first may be -1");
  }
};

template <bool kRavel>
class RavelProperty final : public ParameterizedProperty<RavelParameters> {
 public:
  bool ArgumentHasGradient(int) const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    TShape& positions = kRavel ? data : out;
    TShape& numbers = kRavel ? out : data;
    const auto m = static_cast<index_t>(param_.shape.size());
    MergeShape(*this, kRavel ? "output" : "data", &numbers, TShape::OfRank(1));
    MergeShape(*this, kRavel ? "data" : "output", &positions, {m, numbers[0]});
    numbers[0] = positions[1];
    return numbers.known();
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }

 private:
  void CheckParameters() override {
    if (param_.shape.empty()) {
      throw InvalidArgument(TypeString(), ": parameter shape is (), expected at least one extent");
    }
    index_t product = 1;
    for (size_t d = 1; d < param_.shape.size(); ++d) {
      const bool fits =
          param_.shape[d] >= 1 && !__builtin_mul_overflow(product, param_.shape[d], &product);
      if (!fits) {
        throw InvalidArgument(TypeString(), ": parameter shape: extent ", d, " is ",
                              param_.shape[d],
                              ", expected at least 1, and a product of the extents in 63 bits");
      }
    }
  }
};

template <bool kRavel>
class RavelOperator final : public Operator {
 public:
  explicit RavelOperator(const RavelParameters& param) : extents_(param.shape) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const Call call = {static_cast<const char*>(in_data[0].dptr_),
                       static_cast<char*>(out_data[0].dptr_), in_data[0].type_flag_,
                       kRavel ? out_data[0].Size() : in_data[0].Size()};
    ParallelFor(call.n, StepsPerTask(static_cast<int64_t>(extents_.size())),
                [&](index_t begin, index_t end) {
                  for (index_t i = begin; i < end; i += kBlock) {
                    Compute(call, i, std::min(kBlock, end - i));
                  }
                });
  }
  void Backward(const OpContext& context, std::span<const TBlob>, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    MoveZeros(in_grad[0], req[0], context);
  }

 private:
  static constexpr index_t kBlock = 256;

  struct Call {
    const char* in;
    char* out;
    DType dtype;
    index_t n;
  };

  void Compute(const Call& call, index_t first, index_t count) const {
    if constexpr (kRavel) {
      Ravel(call, first, count);
    } else {
      Unravel(call, first, count);
    }
  }
  /// Reads elements [first, first + count). Throws Error(kOutOfRange) for NaN.
  static void ReadNumbers(const Call& call, index_t first, index_t count, int64_t* numbers) {
    LoadIndices(call.in + first * DTypeSizeBytes(call.dtype), call.dtype, count, numbers);
    const int64_t* const found = std::find(numbers, numbers + count, kNanIndex);
    if (found == numbers + count || !IsNanIndex(*found, call.dtype)) return;
    throw OutOfRange("index nan, element ", first + (found - numbers), " of data, is no position");
  }
  /// Computes the numbers of positions [first, first + count). Integers wrap around.
  void Ravel(const Call& call, index_t first, index_t count) const {
    const index_t size = DTypeSizeBytes(call.dtype);
    int64_t row[kBlock];
    uint64_t numbers[kBlock] = {};
    for (size_t d = 0; d < extents_.size(); ++d) {
      ReadNumbers(call, static_cast<index_t>(d) * call.n + first, count, row);
      const uint64_t extent = d == 0 ? 0 : static_cast<uint64_t>(extents_[d]);
      for (index_t i = 0; i < count; ++i) {
        numbers[i] = numbers[i] * extent + static_cast<uint64_t>(row[i]);
      }
    }
    for (index_t i = 0; i < count; ++i) row[i] = static_cast<int64_t>(numbers[i]);
    StoreRow(row, count, /*add=*/false, call.dtype, call.out + first * size);
  }
  /// Computes the positions of numbers [first, first + count).
  void Unravel(const Call& call, index_t first, index_t count) const {
    const index_t size = DTypeSizeBytes(call.dtype);
    int64_t numbers[kBlock], row[kBlock];
    ReadNumbers(call, first, count, numbers);
    for (size_t d = extents_.size(); d-- > 0;) {
      for (index_t i = 0; i < count; ++i) {
        row[i] = d == 0 ? numbers[i] : numbers[i] % extents_[d];
        if (d != 0) numbers[i] /= extents_[d];
      }
      const index_t offset = static_cast<index_t>(d) * call.n + first;
      StoreRow(row, count, /*add=*/false, call.dtype, call.out + offset * size);
    }
  }

  const std::vector<int64_t> extents_;
};

[[maybe_unused]] const bool kRavelled =
    RegisterTypedOperator<RavelProperty<true>, RavelOperator<true>>(
        TESSERA_TABLE_PLACE, "_ravel_multi_index",
        "The numbers of an array's elements at given positions.", TakenTypes::kAny);
[[maybe_unused]] const bool kUnravelled =
    RegisterTypedOperator<RavelProperty<false>, RavelOperator<false>>(
        TESSERA_TABLE_PLACE, "_unravel_index",
        "The positions of an array's elements with given numbers.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
