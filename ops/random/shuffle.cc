// _shuffle: the rows of data, its parts along the first axis, in an order that is uniform among all
// orders. Shapes: any; out like data. Types: all. The order comes from the device's sequence. There
// is no gradient.

#include <cstring>
#include <numeric>
#include <vector>

#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: RegisterTypedOperator

class ShuffleProperty final : public ParameterizedProperty<NoParameters> {
 public:
  Purity purity() const override { return Purity::kRandom; }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    MergeEqualShapes(*this, {{"data", &(*in_shape)[0]}, {"output", &(*out_shape)[0]}});
    return (*in_shape)[0].known();
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}};
  }
};

class ShuffleOperator final : public Operator {
 public:
  explicit ShuffleOperator(const NoParameters&) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[0];
    if (req[0] == kNullOp || data.Size() == 0) return;
    const index_t rows = data.shape_.ndim() == 0 ? 1 : data.shape_[0];
    std::vector<index_t> order(static_cast<size_t>(rows));
    std::iota(order.begin(), order.end(), index_t{0});
    context.requested[0]->get_random<cpu>(nullptr).Shuffle(std::span<index_t>(order));
    const index_t row_bytes = data.Size() / rows * DTypeSizeBytes(data.type_flag_);
    const auto* const from = static_cast<const char*>(data.dptr_);
    auto* const to = static_cast<char*>(out_data[0].dptr_);
    ParallelFor(rows, StepsPerTask(row_bytes / 4, 4), [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        std::memcpy(to + i * row_bytes, from + order[static_cast<size_t>(i)] * row_bytes,
                    static_cast<size_t>(row_bytes));
      }
    });
  }
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<ShuffleProperty, ShuffleOperator>(
    TESSERA_TABLE_PLACE, "_shuffle", "The rows of data in a random order.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
