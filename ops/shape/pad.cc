// Pad: data with a margin of pad_width = (before0, after0, before1, after1, …) elements around it,
// of a constant, of the elements at the edge, or of the elements mirrored at the edge. The gradient
// of an element is the sum of the head gradients of its copies. All element types; on the CPU.
#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/checked_size.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using ops_internal::LoadRow;
using ops_internal::Move;
using ops_internal::MoveCall;
using ops_internal::MoveProperty;
using ops_internal::RegisterMove;
using ops_internal::StoreRow;
using ops_internal::StridedView;

enum class PadMode { kConstant, kEdge, kReflect };

struct PadParameters {
  PadMode mode = PadMode::kConstant;
  std::vector<int64_t> pad_width;
  Number constant_value;

  static void Declare(ParameterSchema<PadParameters>& schema) {
    using P = PadParameters;
    schema.Choice("mode", &P::mode,
                  {{"constant", PadMode::kConstant},
                   {"edge", PadMode::kEdge},
                   {"reflect", PadMode::kReflect}},
                  "contents of the margin: a constant, the nearest element, or a mirror image",
                  /*required=*/true);
    schema.Required("pad_width", &P::pad_width,
                    "elements before and after data along each dimension: (before, after, …)");
    schema.Optional("constant_value", &P::constant_value, "the constant");
  }

  index_t Before(int d) const { return pad_width[static_cast<size_t>(2 * d)]; }
  index_t After(int d) const { return pad_width[static_cast<size_t>(2 * d + 1)]; }
};

class PadProperty final : public MoveProperty<PadParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    const int rank = static_cast<int>(param_.pad_width.size() / 2);
    MergeShape(*this, "data", &data, TShape::OfRank(rank));
    MergeShape(*this, "output", &out, TShape::OfRank(rank));
    for (int d = 0; d < rank; ++d) {
      const index_t before = param_.Before(d), after = param_.After(d);
      if (data[d] == TShape::kUnknown && out[d] != TShape::kUnknown) {
        data[d] = out[d] - before - after;
        if (data[d] < 0) {
          throw InvalidArgument(TypeString(), ": output has shape ", out, ", expected at least ",
                                before + after, " in dimension ", d);
        }
      }
      if (data[d] == TShape::kUnknown) continue;
      const index_t most = param_.mode == PadMode::kReflect ? std::max<index_t>(data[d] - 1, 0)
                           : param_.mode == PadMode::kEdge && data[d] == 0
                               ? 0
                               : std::max(before, after);
      if (before > most || after > most) {
        throw InvalidArgument(TypeString(), ": data has shape ", data, ", of which dimension ", d,
                              " gives a margin of at most ", most, "; parameter pad_width wants ",
                              std::max(before, after));
      }
      const CheckedSize extent = CheckedSize(data[d]) + before + after;
      TShape known = TShape::OfRank(rank);
      known[d] = extent.ValueOrThrow("Pad: the output's extent");
      MergeShape(*this, "output", &out, known);
    }
    return data.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    ParameterMap parameters = GetParams();
    parameters["constant_value"] = ops_internal::NumberText(0);
    return ops_internal::BuildLinearGradient(*this, parameters, builder);
  }

 private:
  void CheckParameters() override {
    const auto& width = param_.pad_width;
    const bool valid = width.size() % 2 == 0 && width.size() <= 2 * TShape::kMaxRank &&
                       std::all_of(width.begin(), width.end(),
                                   [](int64_t w) { return w >= 0 && w < (int64_t{1} << 61); });
    if (!valid) {
      throw InvalidArgument(TypeString(), ": parameter pad_width: ",
                            ops_internal::ParameterText<std::vector<int64_t>>::Print(width),
                            ": expected two numbers for each dimension, none of them negative");
    }
  }
};

/// A part of a dimension of the output and the input's elements that it copies.
struct Segment {
  index_t out_begin, count, in_begin, in_step;
};

std::vector<Segment> SegmentsOf(const PadParameters& param, int d, index_t extent) {
  const index_t before = param.Before(d), after = param.After(d);
  const Segment middle = {before, extent, 0, 1};
  switch (param.mode) {
    case PadMode::kConstant:
      return {middle};
    case PadMode::kEdge:
      return {{0, before, 0, 0}, middle, {before + extent, after, extent - 1, 0}};
    case PadMode::kReflect:
      return {{0, before, before, -1}, middle, {before + extent, after, extent - 2, -1}};
  }
  return {};
}

void PadForward(const MoveCall<PadParameters>& call, std::span<const TBlob> from,
                std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  const StridedView in(from[0]), out(to[0]);
  if (call.param.mode == PadMode::kConstant && req[0] == kAddTo) {
    // The margin alone gets the constant: along each dimension, what lies outside the earlier ones.
    StridedView inside = out;
    for (int d = 0; d < in.num_dims; ++d) {
      const index_t before = call.param.Before(d), extent = call.in_shape[0][d];
      for (const auto& [begin, count] :
           {std::pair(index_t{0}, before), std::pair(before + extent, call.param.After(d))}) {
        StridedView margin = inside;
        margin.Slice(d, begin, 1, count);
        ops_internal::FillOnCpu(margin, call.param.constant_value, req[0], call.context);
      }
      inside.Slice(d, before, 1, extent);
    }
  } else if (call.param.mode == PadMode::kConstant) {
    ops_internal::FillOnCpu(out, call.param.constant_value, req[0], call.context);
  }
  std::vector<std::vector<Segment>> segments;
  std::vector<size_t> position(static_cast<size_t>(in.num_dims), 0);
  for (int d = 0; d < in.num_dims; ++d) {
    segments.push_back(SegmentsOf(call.param, d, call.in_shape[0][d]));
  }
  for (;;) {
    StridedView source = in, target = out;
    for (size_t d = 0; d < position.size(); ++d) {
      const Segment& segment = segments[d][position[d]];
      source.Slice(static_cast<int>(d), segment.in_begin, segment.in_step, segment.count);
      target.Slice(static_cast<int>(d), segment.out_begin, 1, segment.count);
    }
    Move(source, target, req[0], call.context);
    size_t d = position.size();
    while (d > 0 && ++position[d - 1] == segments[d - 1].size()) position[--d] = 0;
    if (d == 0) return;
  }
}

/// Sums of the head gradients of copies, computed in T.
template <typename T>
class PadGradient {
 public:
  PadGradient(const PadParameters& param, const TBlob& grad, const TBlob& in_grad, bool add)
      : grad_(grad), in_grad_(in_grad), add_(add) {
    for (int d = 0; d < in_grad.ndim(); ++d) {
      const index_t extent = in_grad.shape_[d];
      const bool is_last = d + 1 == in_grad.ndim();  // a row, which AddRows adds by its sources
      auto& copies = copies_.emplace_back(static_cast<size_t>(is_last ? 0 : extent));
      auto& sources = sources_.emplace_back(static_cast<size_t>(grad.shape_[d]));
      for (const Segment& segment : SegmentsOf(param, d, extent)) {
        for (index_t k = 0; k < segment.count; ++k) {
          const index_t source = segment.in_begin + k * segment.in_step;
          sources[static_cast<size_t>(segment.out_begin + k)] = source;
          if (!is_last) copies[static_cast<size_t>(source)].push_back(segment.out_begin + k);
        }
      }
    }
  }

  void Run() const {
    const int last = in_grad_.ndim() - 1;
    const index_t width = in_grad_.shape_[last], rows = in_grad_.shape_.ProdShape(0, last);
    ParallelFor(rows, StepsPerTask(2 * width), [this](index_t begin, index_t end) {
      std::vector<T> sums(sources_.back().size()), row(sources_.back().size());
      for (index_t i = begin; i < end; ++i) SumRow(i, sums.data(), row.data());
    });
  }

 private:
  void SumRow(index_t index, T* sums, T* row) const {
    const int last = in_grad_.ndim() - 1;
    const index_t width = in_grad_.shape_[last];
    std::fill_n(sums, width, T(0));
    AddRows(0, index, in_grad_.shape_.ProdShape(0, last), 0, sums, row);
    char* const out =
        static_cast<char*>(in_grad_.dptr_) + index * width * DTypeSizeBytes(in_grad_.type_flag_);
    StoreRow(sums, width, add_, in_grad_.type_flag_, out);
  }

  /// Adds the rows that copy row `index` of the dimensions from d on, which has `rows` rows.
  void AddRows(int d, index_t index, index_t rows, index_t offset, T* sums, T* row) const {
    const index_t out_extent = grad_.shape_[d];
    if (d == in_grad_.ndim() - 1) {
      const char* const from = static_cast<const char*>(grad_.dptr_) +
                               offset * out_extent * DTypeSizeBytes(grad_.type_flag_);
      LoadRow(from, grad_.type_flag_, 1, out_extent, row);
      const auto& sources = sources_.back();
      for (size_t j = 0; j < sources.size(); ++j) sums[sources[j]] += row[j];
      return;
    }
    const index_t below = rows / in_grad_.shape_[d];
    for (const index_t copy : copies_[static_cast<size_t>(d)][static_cast<size_t>(index / below)]) {
      AddRows(d + 1, index % below, below, offset * out_extent + copy, sums, row);
    }
  }

  const TBlob& grad_;
  const TBlob& in_grad_;
  const bool add_;
  std::vector<std::vector<std::vector<index_t>>> copies_;  // positions in the output, by dimension
  std::vector<std::vector<index_t>> sources_;              // positions in the input, by dimension
};

void PadBackward(const MoveCall<PadParameters>& call, std::span<const TBlob> from,
                 std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp || to[0].Size() == 0) return;
  if (call.param.mode == PadMode::kConstant || to[0].ndim() == 0) {
    StridedView source(from[0]);
    for (int d = 0; d < source.num_dims; ++d) {
      source.Slice(d, call.param.Before(d), 1, call.in_shape[0][d]);
    }
    Move(source, StridedView(to[0]), req[0], call.context);
    return;
  }
  const bool add = req[0] == kAddTo;
  switch (to[0].type_flag_) {
    case DType::kFloat64:
      return PadGradient<double>(call.param, from[0], to[0], add).Run();
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return PadGradient<float>(call.param, from[0], to[0], add).Run();
    default:
      return PadGradient<int64_t>(call.param, from[0], to[0], add).Run();
  }
}

#if !defined(TESSERA_XPU_GPU)
const bool kPad = RegisterMove<PadProperty>(
    TESSERA_TABLE_PLACE, "Pad", "data with a margin around it.", PadForward, PadBackward);
#endif

}  // namespace
}  // namespace tessera
