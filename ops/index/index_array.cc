// _contrib_index_array: the positions of an array's elements.
//
//   out[i…][k] = i[axes[k]]      axes are all of data's unless they are given
//
// Shapes: data (i…), out (i…, number of axes). Types: data any, out int64. Only data's shape is
// read; its gradient is 0. Runs on the CPU.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: movement and registration

struct IndexArrayParameters {
  std::optional<std::vector<int64_t>> axes;

  static void Declare(ParameterSchema<IndexArrayParameters>& schema) {
    schema.Optional("axes", &IndexArrayParameters::axes,
                    "the axes whose positions are wanted; None for all");
  }
};

class IndexArrayProperty final : public ParameterizedProperty<IndexArrayParameters> {
 public:
  bool ArgumentHasGradient(int) const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (out.rank_known()) {
      if (out.ndim() == 0) {
        throw InvalidArgument(TypeString(), ": output has shape ", out,
                              ", expected that of data and the number of axes");
      }
      MergeShape(*this, "data", &data,
                 TShape(std::span<const index_t>(out.begin(), out.end() - 1)));
    }
    if (!data.rank_known()) return false;
    if (data.ndim() == TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", expected at most ",
                            TShape::kMaxRank - 1, " dimensions");
    }
    std::vector<index_t> extents(data.begin(), data.end());
    extents.push_back(data.ndim());
    if (param_.axes) {
      for (const int64_t axis : *param_.axes) AxisPosition(*this, "axes", axis, data.ndim());
      extents.back() = static_cast<index_t>(param_.axes->size());
    }
    MergeShape(*this, "output", &out, TShape(std::span<const index_t>(extents)));
    return data.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], DType::kInt64);
    return (*in_type)[0] != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }
};

class IndexArrayOperator final : public Operator {
 public:
  IndexArrayOperator(const IndexArrayParameters& param, std::span<const TShape> in_shape)
      : shape_(in_shape[0]) {
    if (param.axes) {
      axes_ = AxisPositions(*param.axes, shape_.ndim());
    } else {
      axes_.resize(static_cast<size_t>(shape_.ndim()));
      std::iota(axes_.begin(), axes_.end(), 0);
    }
  }
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob>, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || axes_.empty()) return;
    auto* const out = static_cast<int64_t*>(out_data[0].dptr_);
    const auto width = static_cast<index_t>(axes_.size());
    for (index_t k = 0; k < width; ++k) {
      const int axis = axes_[static_cast<size_t>(k)];
      const index_t extent = shape_[axis], inner = shape_.ProdShape(axis + 1, shape_.ndim());
      ParallelFor(shape_.Size(), StepsPerTask(1), [=](index_t begin, index_t end) {
        for (index_t i = begin; i < end; ++i) out[i * width + k] = i / inner % extent;
      });
    }
  }
  void Backward(const OpContext& context, std::span<const TBlob>, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    MoveZeros(in_grad[0], req[0], context);
  }

 private:
  const TShape shape_;
  std::vector<int> axes_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<IndexArrayProperty, IndexArrayOperator>(
        TESSERA_TABLE_PLACE, "_contrib_index_array", "The positions of an array's elements.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera
