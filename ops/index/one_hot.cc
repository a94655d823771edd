// one_hot, _onehot_encode: rows that mark the position that an integer names.
//
//   out[i…][j] = on_value where j == indices[i…], else off_value
//
// Numbers are truncated; a row whose index is outside of it has off_value alone. Shapes: indices
// (i…), out (i…, depth); for _onehot_encode, which writes 1 and 0, out has the shape and type of
// rhs, (rows, depth). Types: indices of any type, out of `dtype`. No gradient: that of indices is
// 0. Runs on the CPU.
#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: positions and registration

struct OneHotParameters {
  int64_t depth = 0;
  Number on_value = 1;
  Number off_value = 0;
  DType dtype = DType::kFloat32;

  static void Declare(ParameterSchema<OneHotParameters>& schema) {
    using P = OneHotParameters;
    auto types = DTypeChoices();
    std::erase_if(types, [](const auto& choice) { return choice.second == DType::kBool; });
    schema.Required("depth", &P::depth, "the length of a row");
    schema.Range(0);
    schema.Optional("on_value", &P::on_value, "the value at the index");
    schema.Optional("off_value", &P::off_value, "the value elsewhere");
    schema.Choice("dtype", &P::dtype, std::move(types), "element type of the output");
  }
};

/// Writes `count` copies of an element of `size` bytes.
void FillElements(const void* element, index_t size, index_t count, void* to) {
  const auto fill = [&](auto value) {
    std::memcpy(&value, element, sizeof(value));
    std::fill_n(static_cast<decltype(value)*>(to), count, value);
  };
  switch (size) {
    case 1:
      return fill(uint8_t());
    case 2:
      return fill(uint16_t());
    case 4:
      return fill(uint32_t());
    default:
      return fill(uint64_t());
  }
}

/// Writes the rows of all indices.
void WriteRows(const TBlob& indices, index_t depth, const Number& on_value, const Number& off_value,
               const TBlob& out) {
  const DType dtype = out.type_flag_;
  const index_t size = DTypeSizeBytes(dtype);
  alignas(8) char on[8], off[8];
  StoreNumber(on_value, dtype, on);
  StoreNumber(off_value, dtype, off);
  const Positions positions(indices, depth, IndexMode::kSkip);
  ParallelFor(positions.count(), StepsPerTask(depth), [&](index_t begin, index_t end) {
    // Blocks of rows whose lines are still in the cache when the indices are marked.
    constexpr index_t kBlock = 256, kElements = 2048;
    const index_t block = std::clamp<index_t>(kElements / std::max<index_t>(depth, 1), 1, kBlock);
    int64_t buffer[kBlock];
    for (index_t first = begin; first < end; first += block) {
      const index_t n = std::min(block, end - first);
      positions.Read(first, n, buffer);
      char* const rows = static_cast<char*>(out.dptr_) + first * depth * size;
      FillElements(off, size, n * depth, rows);
      for (index_t i = 0; i < n; ++i) {
        if (buffer[i] < 0) continue;
        std::memcpy(rows + (i * depth + buffer[i]) * size, on, static_cast<size_t>(size));
      }
    }
  });
}

class OneHotProperty final : public ParameterizedProperty<OneHotParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"indices"}; }
  bool ArgumentHasGradient(int) const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& indices = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (out.rank_known()) {
      if (out.ndim() == 0) {
        throw InvalidArgument(TypeString(), ": output has shape ", out, ", expected (…,",
                              param_.depth, ")");
      }
      MergeShape(*this, "indices", &indices,
                 TShape(std::span<const index_t>(out.begin(), out.end() - 1)));
    }
    if (!indices.rank_known()) return false;
    if (indices.ndim() == TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": indices has shape ", indices, ", expected at most ",
                            TShape::kMaxRank - 1, " dimensions");
    }
    std::vector<index_t> extents(indices.begin(), indices.end());
    extents.push_back(param_.depth);
    MergeShape(*this, "output", &out, TShape(std::span<const index_t>(extents)));
    return indices.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], param_.dtype);
    return (*in_type)[0] != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }
};

class OneHotOperator final : public Operator {
 public:
  explicit OneHotOperator(const OneHotParameters& param) : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    WriteRows(in_data[0], param_.depth, param_.on_value, param_.off_value, out_data[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob>, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    MoveZeros(in_grad[0], req[0], context);
  }

 private:
  const OneHotParameters param_;
};

[[maybe_unused]] const bool kOneHot = RegisterTypedOperator<OneHotProperty, OneHotOperator>(
    TESSERA_TABLE_PLACE, "one_hot", "Rows that mark the position that an integer names.",
    TakenTypes::kAny);

// _onehot_encode.

class OneHotEncodeProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& indices = (*in_shape)[0];
    TShape& rhs = (*in_shape)[1];
    MergeShape(*this, "rhs", &rhs, TShape::OfRank(2));
    MergeEqualShapes(*this, {{"rhs", &rhs}, {"output", &(*out_shape)[0]}});
    MergeShape(*this, "lhs", &indices, {rhs[0]});
    rhs[0] = indices[0];
    (*out_shape)[0] = rhs;
    return rhs.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeType(*this, "output", &(*out_type)[0], (*in_type)[1]);
    MergeType(*this, "rhs", &(*in_type)[1], (*out_type)[0]);
    return (*in_type)[0] != DType::kUnknown && (*in_type)[1] != DType::kUnknown;
  }

  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[1], out_data[0]}};
  }
};

class OneHotEncodeOperator final : public Operator {
 public:
  explicit OneHotEncodeOperator(const NoParameters&) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    WriteRows(in_data[0], out_data[0].shape_[1], 1, 0, out_data[0]);
  }
};

[[maybe_unused]] const bool kOneHotEncode =
    RegisterTypedOperator<OneHotEncodeProperty, OneHotEncodeOperator>(
        TESSERA_TABLE_PLACE, "_onehot_encode",
        "Rows that mark the position that an integer names, in an array like rhs.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera
