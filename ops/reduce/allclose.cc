// _contrib_allclose: whether all elements of two arrays are nearly equal.
//
//   out = 1 if |a - b| <= atol + rtol |b| for all elements, else 0
//
// Infinities are close to themselves alone; NaN is close to NaN with equal_nan, else to nothing.
// There is no gradient. Shapes: a and b alike; out (). Types: a and b of one type, compared in
// float64, int64 and uint64 by their exact difference; out uint8. Runs on the CPU.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct AllcloseParameters {
  float rtol = 1e-5f;
  float atol = 1e-8f;
  bool equal_nan = true;

  static void Declare(ParameterSchema<AllcloseParameters>& schema) {
    using P = AllcloseParameters;
    schema.Optional("rtol", &P::rtol, "the difference allowed, relative to |b|");
    schema.Optional("atol", &P::atol, "the difference allowed besides");
    schema.Optional("equal_nan", &P::equal_nan, "whether NaN counts as equal to NaN");
  }
};

class AllcloseProperty final : public ParameterizedProperty<AllcloseParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"a", "b"}; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeEqualShapes(*this, {{"a", &(*in_shape)[0]}, {"b", &(*in_shape)[1]}});
    MergeShape(*this, "output", &(*out_shape)[0], TShape::OfRank(0));
    return (*in_shape)[0].known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    std::vector<DType> of_inputs;
    OperatorProperty::InferType(in_type, &of_inputs);
    DType& out = (*out_type)[0];
    if (out != DType::kUnknown && out != DType::kUint8) {
      throw InvalidArgument(TypeString(), ": output has element type ", out, ", expected uint8");
    }
    out = DType::kUint8;
    return (*in_type)[0] != DType::kUnknown;
  }
};

class AllcloseOperator final : public Operator {
 public:
  explicit AllcloseOperator(const AllcloseParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    // Integers that double may round are subtracted as they are.
    const TBlob &a = in_data[0], &b = in_data[1];
    const DType dtype = a.type_flag_;
    const bool all_close = dtype == DType::kInt64    ? AllClose<int64_t>(a, b)
                           : dtype == DType::kUint64 ? AllClose<int64_t, uint64_t>(a, b)
                                                     : AllClose<double>(a, b);
    RowWriter<int64_t>(out_data[0], req[0]).Write(0, all_close ? 1 : 0);
  }

 private:
  /// Reads elements as T and compares them as Element, which has the same bits.
  template <typename T, typename Element = T>
  bool AllClose(const TBlob& lhs, const TBlob& rhs) const {
    constexpr index_t kPiece = 512;
    const index_t size = lhs.shape_.Size();
    std::atomic<bool> all_close = true;
    ParallelFor(size, StepsPerTask(1, 4), [&](index_t begin, index_t end) {
      T a[kPiece], b[kPiece];
      // Relaxed: a task that does not see another's result only does work that is not needed.
      for (; begin < end && all_close.load(std::memory_order_relaxed); begin += kPiece) {
        const index_t n = std::min(kPiece, end - begin);
        RowReader<T>(lhs).Copy(begin, n, a);
        RowReader<T>(rhs).Copy(begin, n, b);
        bool close = true;
        for (index_t i = 0; i < n; ++i) {
          close &= IsClose(static_cast<Element>(a[i]), static_cast<Element>(b[i]));
        }
        if (!close) all_close.store(false, std::memory_order_relaxed);
      }
    });
    return all_close;
  }

  template <std::integral Integer>
  bool IsClose(Integer a, Integer b) const {
    const uint64_t difference = a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                                      : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
    return IsWithin(static_cast<double>(difference), static_cast<double>(b));
  }
  bool IsClose(double a, double b) const {
    if (std::isnan(a) || std::isnan(b)) return param_.equal_nan && std::isnan(a) && std::isnan(b);
    if (std::isinf(a) || std::isinf(b)) return a == b;
    return IsWithin(std::abs(a - b), b);
  }
  bool IsWithin(double difference, double b) const {
    return difference <=
           static_cast<double>(param_.atol) + static_cast<double>(param_.rtol) * std::abs(b);
  }

  const AllcloseParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<AllcloseProperty, AllcloseOperator>(
    TESSERA_TABLE_PLACE, "_contrib_allclose", "Whether two arrays are nearly equal.",
    TakenTypes::kAny);

}  // namespace
}  // namespace tessera
