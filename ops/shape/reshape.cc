// Operators whose output has the input's elements in their order, mostly in another shape. Their
// gradient is the head gradient in the input's shape. All element types.
#include <algorithm>
#include <optional>
#include <vector>

#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using ops_internal::AxisPosition;
using ops_internal::AxisPositions;
using ops_internal::InferSameShape;
using ops_internal::MoveCall;
using ops_internal::MoveFirst;
using ops_internal::MoveProperty;
using ops_internal::RegisterMove;

template <typename Parameters>
class ReshapingProperty : public MoveProperty<Parameters> {
 public:
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    builder->SetInGrad(0,
                       builder->Apply1("reshape_like", {builder->OutGrad(0), builder->Input(0)}));
    return true;
  }

 protected:
  /// Infers the only unknown extent of the input from the number of elements in the output, and
  /// checks that both have as many. Returns whether both shapes are known.
  bool InferBySize(TShape* data, const TShape& out) const {
    if (!data->rank_known() || !out.known()) return false;
    const index_t size = ProductOfExtents(*this, "output", out, 0, out.ndim());
    int unknown = -1;
    for (int d = 0; d < data->ndim(); ++d) {
      if ((*data)[d] != TShape::kUnknown) continue;
      if (unknown >= 0) return false;
      unknown = d;
    }
    if (unknown >= 0) {
      TShape other_extents = *data;
      other_extents[unknown] = 1;
      const index_t others = ProductOfExtents(*this, "data", other_extents, 0, data->ndim());
      if (others == 0 && size == 0) return false;
      if (others == 0 || size % others != 0) ThrowSizes(*data, out);
      (*data)[unknown] = size / others;
    }
    if (ProductOfExtents(*this, "data", *data, 0, data->ndim()) != size) ThrowSizes(*data, out);
    return true;
  }
  [[noreturn]] void ThrowSizes(const TShape& data, const TShape& out) const {
    throw InvalidArgument(this->TypeString(), ": data has shape ", data,
                          ", whose elements do not fill the output's shape ", out);
  }
};

// Reshape.

struct ReshapeParameters {
  std::vector<int64_t> shape;
  bool reverse = false;
  std::vector<int64_t> target_shape;
  bool keep_highest = false;

  static void Declare(ParameterSchema<ReshapeParameters>& schema) {
    schema.Optional(
        "shape", &ReshapeParameters::shape,
        "extents of the output; 0 copies the input's, -1 is what remains, -2 copies all "
        "that follow, -3 joins two, -4 splits one into the next two numbers");
    schema.Optional("reverse", &ReshapeParameters::reverse, "match extents from the last on");
    schema.Optional("target_shape", &ReshapeParameters::target_shape,
                    "extents of the output in old graphs, where 0 is what remains");
    schema.Optional("keep_highest", &ReshapeParameters::keep_highest,
                    "with target_shape: keep the input's first extent");
  }
};

class ReshapeProperty final : public ReshapingProperty<ReshapeParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (codes_.empty()) return InferBySize(&data, out);
    if (data.rank_known()) {
      MergeShape(*this, "output", &out, Apply(data));
    } else if (std::all_of(codes_.begin(), codes_.end(), [](int64_t code) { return code > 0; })) {
      if (codes_.size() > TShape::kMaxRank) ThrowMismatch(data);
      MergeShape(*this, "output", &out, TShape(std::span<const index_t>(codes_)));
    }
    const bool known = data.known();
    if (!InferBySize(&data, out)) return false;
    // An extent of the input can determine another one of the output; its contradiction is found.
    if (!known) MergeShape(*this, "output", &out, Apply(data));
    return true;
  }

 private:
  void CheckParameters() override {
    codes_ = param_.shape;
    if (codes_.empty()) {
      codes_ = param_.target_shape;
      const int64_t zeros = std::count(codes_.begin(), codes_.end(), 0);
      for (size_t i = 0; i < codes_.size(); ++i) {
        if (i == 0 && param_.keep_highest) {
          codes_[0] = 0;
        } else if (codes_[i] < 0) {
          ThrowCodes("target_shape", param_.target_shape, "a negative extent");
        } else if (codes_[i] == 0) {
          codes_[i] = -1;
        }
      }
      if (zeros > 1 && std::count(codes_.begin(), codes_.end(), -1) > 1) {
        ThrowCodes("target_shape", param_.target_shape, "more than one unknown extent");
      }
      return;
    }
    int64_t remaining = 0;
    if (param_.reverse) std::reverse(codes_.begin(), codes_.end());
    for (size_t i = 0; i < codes_.size(); ++i) {
      if (codes_[i] < -4) ThrowCodes("shape", param_.shape, "a code below -4");
      if (codes_[i] == -1) ++remaining;
      if (codes_[i] != -4) continue;
      if (i + 2 >= codes_.size()) ThrowCodes("shape", param_.shape, "-4 without two extents");
      const bool valid = codes_[i + 1] >= -1 && codes_[i + 2] >= -1 &&
                         !(codes_[i + 1] == -1 && codes_[i + 2] == -1);
      if (!valid) ThrowCodes("shape", param_.shape, "extents after -4 of which none is known");
      i += 2;
    }
    if (remaining > 1) ThrowCodes("shape", param_.shape, "more than one -1");
  }

  [[noreturn]] void ThrowCodes(std::string_view name, const std::vector<int64_t>& given,
                               std::string_view fault) const {
    throw InvalidArgument(TypeString(), ": parameter ", name, ": ",
                          ops_internal::ParameterText<std::vector<int64_t>>::Print(given), " has ",
                          fault);
  }
  [[noreturn]] void ThrowMismatch(const TShape& data) const {
    throw InvalidArgument(TypeString(), ": data has shape ", data, ", which shape ",
                          ops_internal::ParameterText<std::vector<int64_t>>::Print(param_.shape),
                          " does not fit");
  }

  /// Returns the output's shape for an input of known rank.
  TShape Apply(const TShape& data) const {
    std::vector<index_t> in(data.begin(), data.end());
    if (reversed()) std::reverse(in.begin(), in.end());
    std::vector<index_t> out;
    // What -1 stands for is the quotient of the input's and the output's other extents, without
    // those that the output takes over from the input, which may be unknown or 0.
    std::vector<index_t> dividend = in, divisor;
    size_t next = 0;  // of the input's dimensions
    size_t rest = SIZE_MAX;
    const auto take = [&] {
      if (next >= in.size()) ThrowMismatch(data);
      dividend[next] = 1;
      return in[next++];
    };
    for (size_t i = 0; i < codes_.size(); ++i) {
      switch (codes_[i]) {
        case 0:
          out.push_back(take());
          break;
        case -1:
          rest = out.size();
          out.push_back(TShape::kUnknown);
          ++next;
          break;
        case -2:
          while (next < in.size()) out.push_back(take());
          break;
        case -3: {
          const index_t first = take(), second = take();
          out.push_back(ProductOfExtents(*this, "data", TShape({first, second}), 0, 2));
          break;
        }
        case -4: {
          const auto [first, second] = Split(data, take(), codes_[i + 1], codes_[i + 2]);
          out.push_back(first);
          out.push_back(second);
          i += 2;
          break;
        }
        default:
          out.push_back(codes_[i]);
          divisor.push_back(codes_[i]);
          ++next;
          break;
      }
    }
    if (out.size() > TShape::kMaxRank) ThrowMismatch(data);
    if (rest != SIZE_MAX) out[rest] = Quotient(data, dividend, divisor);
    if (reversed()) std::reverse(out.begin(), out.end());
    return TShape(std::span<const index_t>(out));
  }

  /// Returns the two extents of a dimension that code -4 splits, of which one may be -1.
  std::pair<index_t, index_t> Split(const TShape& data, index_t whole, index_t first,
                                    index_t second) const {
    if (whole == TShape::kUnknown) return {first, second};
    index_t& missing = first == -1 ? first : second;
    const index_t given = first == -1 ? second : first;
    if (missing == -1 && given > 0 && whole % given == 0) missing = whole / given;
    if (first < 0 || second < 0 ||
        ProductOfExtents(*this, "output", TShape({first, second}), 0, 2) != whole) {
      ThrowMismatch(data);
    }
    return {first, second};
  }

  index_t Quotient(const TShape& data, const std::vector<index_t>& dividend,
                   const std::vector<index_t>& divisor) const {
    const auto product = [this](const std::vector<index_t>& extents) {
      return ProductOfExtents(*this, "output", TShape(std::span<const index_t>(extents)), 0,
                              static_cast<int>(extents.size()));
    };
    const index_t size = product(dividend), others = product(divisor);
    if (size == TShape::kUnknown) return TShape::kUnknown;
    if (others == 0 || size % others != 0) ThrowMismatch(data);
    return size / others;
  }

  bool reversed() const { return param_.reverse && !param_.shape.empty(); }

  std::vector<int64_t> codes_;  // in the order in which they are matched
};

const bool kReshape = RegisterMove<ReshapeProperty>(
    TESSERA_TABLE_PLACE, "Reshape", "The same elements in another shape.", MoveFirst, MoveFirst);

// Flatten.

class FlattenProperty final : public ReshapingProperty<NoParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    if (!data.rank_known()) return false;
    if (data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least one dimension");
    }
    const TShape out = {data[0], ProductOfExtents(*this, "data", data, 1, data.ndim())};
    MergeShape(*this, "output", &(*out_shape)[0], out);
    data[0] = (*out_shape)[0][0];
    return data.known();
  }
};

const bool kFlatten = RegisterMove<FlattenProperty>(
    TESSERA_TABLE_PLACE, "Flatten", "All dimensions after the first as one.", MoveFirst, MoveFirst);

// expand_dims.

struct ExpandDimsParameters {
  int64_t axis = 0;

  static void Declare(ParameterSchema<ExpandDimsParameters>& schema) {
    schema.Required("axis", &ExpandDimsParameters::axis, "position of the new dimension");
  }
};

class ExpandDimsProperty final : public ReshapingProperty<ExpandDimsParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    const int rank = data.rank_known() ? data.ndim() : out.ndim() - 1;
    if (rank < 0 && !out.rank_known()) return false;
    if (rank < 0 || rank >= TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", output shape ", out,
                            "; expected a rank below ", TShape::kMaxRank);
    }
    const int axis = AxisPosition(*this, "axis", param_.axis, rank + 1);
    TShape longer = TShape::OfRank(rank + 1), shorter = TShape::OfRank(rank);
    longer[axis] = 1;
    if (data.rank_known()) {
      for (int d = 0; d < rank; ++d) longer[d < axis ? d : d + 1] = data[d];
    }
    MergeShape(*this, "output", &out, longer);
    for (int d = 0; d < rank; ++d) shorter[d] = out[d < axis ? d : d + 1];
    MergeShape(*this, "data", &data, shorter);
    return data.known();
  }
};

const bool kExpandDims = RegisterMove<ExpandDimsProperty>(
    TESSERA_TABLE_PLACE, "expand_dims", "data with one more dimension, of extent 1.", MoveFirst,
    MoveFirst);

// squeeze.

struct SqueezeParameters {
  std::optional<std::vector<int64_t>> axis;

  static void Declare(ParameterSchema<SqueezeParameters>& schema) {
    schema.Optional("axis", &SqueezeParameters::axis,
                    "dimensions of extent 1 to leave out; by default all of them");
  }
};

class SqueezeProperty final : public ReshapingProperty<SqueezeParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    if (!data.rank_known()) return false;
    std::array<bool, TShape::kMaxRank> leaves{};
    if (param_.axis) {
      for (const int axis : AxisPositions(*this, "axis", *param_.axis, data.ndim())) {
        if (data[axis] == TShape::kUnknown) data[axis] = 1;
        if (data[axis] != 1) {
          throw InvalidArgument(TypeString(), ": data has shape ", data, ", expected extent 1 of ",
                                "dimension ", axis, ", which parameter axis names");
        }
        leaves[static_cast<size_t>(axis)] = true;
      }
    } else {
      if (!data.known()) return false;
      for (int d = 0; d < data.ndim(); ++d) leaves[static_cast<size_t>(d)] = data[d] == 1;
    }
    std::vector<int> stays;
    for (int d = 0; d < data.ndim(); ++d) {
      if (!leaves[static_cast<size_t>(d)]) stays.push_back(d);
    }
    if (stays.empty()) {  // of an array with one element, one dimension stays
      MergeShape(*this, "output", &out, {1});
      return true;
    }
    const int rank = static_cast<int>(stays.size());
    TShape shorter = TShape::OfRank(rank);
    for (int d = 0; d < rank; ++d) shorter[d] = data[stays[static_cast<size_t>(d)]];
    MergeShape(*this, "output", &out, shorter);
    for (int d = 0; d < rank; ++d) data[stays[static_cast<size_t>(d)]] = out[d];
    return data.known();
  }
};

const bool kSqueeze = RegisterMove<SqueezeProperty>(
    TESSERA_TABLE_PLACE, "squeeze", "data without dimensions of extent 1.", MoveFirst, MoveFirst);

// reshape_like.

struct ReshapeLikeParameters {
  std::optional<int64_t> lhs_begin, lhs_end, rhs_begin, rhs_end;

  static void Declare(ParameterSchema<ReshapeLikeParameters>& schema) {
    using P = ReshapeLikeParameters;
    schema.Optional("lhs_begin", &P::lhs_begin, "first dimension of lhs to replace");
    schema.Optional("lhs_end", &P::lhs_end, "the dimension of lhs after the last to replace");
    schema.Optional("rhs_begin", &P::rhs_begin, "first dimension of rhs to take");
    schema.Optional("rhs_end", &P::rhs_end, "the dimension of rhs after the last to take");
  }
};

class ReshapeLikeProperty final : public ReshapingProperty<ReshapeLikeParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& lhs = (*in_shape)[0];
    TShape& rhs = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    if (!lhs.rank_known() || !rhs.rank_known()) return false;
    const auto [lhs_begin, lhs_end] = Range("lhs", param_.lhs_begin, param_.lhs_end, lhs.ndim());
    const auto [rhs_begin, rhs_end] = Range("rhs", param_.rhs_begin, param_.rhs_end, rhs.ndim());
    std::vector<index_t> extents(lhs.begin(), lhs.begin() + lhs_begin);
    extents.insert(extents.end(), rhs.begin() + rhs_begin, rhs.begin() + rhs_end);
    extents.insert(extents.end(), lhs.begin() + lhs_end, lhs.end());
    if (extents.size() > static_cast<size_t>(TShape::kMaxRank)) {
      throw InvalidArgument(TypeString(), ": lhs of shape ", lhs, " and rhs of shape ", rhs,
                            " give an output of rank ", extents.size(), ", above the limit of ",
                            TShape::kMaxRank);
    }
    MergeShape(*this, "output", &out, TShape(std::span<const index_t>(extents)));
    for (int d = 0; d < lhs_begin; ++d) lhs[d] = out[d];
    for (int d = lhs_end; d < lhs.ndim(); ++d) lhs[d] = out[out.ndim() - lhs.ndim() + d];
    for (int d = rhs_begin; d < rhs_end; ++d) rhs[d] = out[lhs_begin + d - rhs_begin];
    return InferBySize(&lhs, out) && rhs.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    ops_internal::MergeType(*this, "output", &(*out_type)[0], (*in_type)[0]);
    ops_internal::MergeType(*this, "lhs", &(*in_type)[0], (*out_type)[0]);
    if ((*in_type)[1] == DType::kUnknown) (*in_type)[1] = (*in_type)[0];
    return (*in_type)[0] != DType::kUnknown;
  }

 private:
  std::pair<int, int> Range(std::string_view which, std::optional<int64_t> begin,
                            std::optional<int64_t> end, int rank) const {
    const auto position = [&](std::optional<int64_t> given, int64_t absent) {
      const int64_t value = given.value_or(absent);
      return value < 0 ? value + rank : value;
    };
    const int64_t first = position(begin, 0), last = position(end, rank);
    if (first < 0 || last > rank || first > last) {
      throw InvalidArgument(TypeString(), ": parameters ", which, "_begin and ", which,
                            "_end give dimensions [", first, ", ", last,
                            "), which an array of rank ", rank, " does not have");
    }
    return {static_cast<int>(first), static_cast<int>(last)};
  }
};

const bool kReshapeLike = RegisterMove<ReshapeLikeProperty>(
    TESSERA_TABLE_PLACE, "reshape_like",
    "lhs in the shape of rhs, or with some dimensions of rhs in place of its own.", MoveFirst,
    MoveFirst);

// The same elements in the same shape.

template <typename Parameters>
class SameShapeProperty : public ReshapingProperty<Parameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferSameShape(*this, "data", &(*in_shape)[0], &(*out_shape)[0]);
  }
};

class CopyProperty final : public SameShapeProperty<NoParameters> {
 public:
  bool BuildGradient(GradientBuilder* builder) const override {
    builder->SetInGrad(0, builder->Apply1("_copy", {builder->OutGrad(0)}));
    return true;
  }
};

const bool kCopy = RegisterMove<CopyProperty>(
    TESSERA_TABLE_PLACE, "_copy", "The same elements in another array.", MoveFirst, MoveFirst);

class IdentityLikeProperty final : public ReshapingProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"lhs", "rhs"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &lhs = (*in_shape)[0], &rhs = (*in_shape)[1], &out = (*out_shape)[0];
    MergeShape(*this, "rhs", &rhs, lhs);
    MergeShape(*this, "output", &out, rhs);
    MergeShape(*this, "lhs", &lhs, out);
    MergeShape(*this, "rhs", &rhs, out);
    return lhs.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    ops_internal::MergeType(*this, "output", &(*out_type)[0], (*in_type)[0]);
    ops_internal::MergeType(*this, "lhs", &(*in_type)[0], (*out_type)[0]);
    if ((*in_type)[1] == DType::kUnknown) (*in_type)[1] = (*in_type)[0];
    return (*in_type)[0] != DType::kUnknown;
  }
};

const bool kIdentityLike = RegisterMove<IdentityLikeProperty>(
    TESSERA_TABLE_PLACE, "_identity_with_attr_like_rhs",
    "lhs itself, whose shape is that of rhs if it is not known otherwise.", MoveFirst, MoveFirst);

class BlockGradProperty final : public SameShapeProperty<NoParameters> {
 public:
  bool ArgumentHasGradient(int) const override { return false; }
  bool BuildGradient(GradientBuilder*) const override { return false; }
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int>,
                                             std::span<const int>) const override {
    return {};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int>, std::span<const int>,
                                                 std::span<const int>,
                                                 std::span<const int>) const override {
    return {};
  }
};

const bool kBlockGrad = RegisterMove<BlockGradProperty>(
    TESSERA_TABLE_PLACE, "BlockGrad", "data itself, through which no gradient passes.", MoveFirst,
    [](const MoveCall<NoParameters>& call, std::span<const TBlob>, std::span<const OpReqType> req,
       std::span<const TBlob> to) { ops_internal::MoveZeros(to[0], req[0], call.context); });

struct CastStorageParameters {
  StorageType stype = StorageType::kDefault;

  static void Declare(ParameterSchema<CastStorageParameters>& schema) {
    schema.Choice("stype", &CastStorageParameters::stype,
                  {{"csr", StorageType::kCsr},
                   {"default", StorageType::kDefault},
                   {"row_sparse", StorageType::kRowSparse}},
                  "how the output stores its elements", /*required=*/true);
  }
};

class CastStorageProperty final : public SameShapeProperty<CastStorageParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const bool known = SameShapeProperty::InferShape(in_shape, out_shape);
    const TShape& data = (*in_shape)[0];
    const bool fits = param_.stype == StorageType::kCsr ? data.ndim() == 2 : data.ndim() > 0;
    if (data.rank_known() && param_.stype != StorageType::kDefault && !fits) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", which has no storage type ",
                            param_.stype,
                            param_.stype == StorageType::kCsr ? "; expected two axes"
                                                              : "; expected one axis or more");
    }
    return known;
  }
};

const bool kCastStorage = RegisterMove<CastStorageProperty>(
    TESSERA_TABLE_PLACE, "cast_storage", "data itself in a storage type.", MoveFirst, MoveFirst);

}  // namespace
}  // namespace tessera
