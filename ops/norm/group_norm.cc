// GroupNorm and InstanceNorm: groups of channels with mean 0 and variance 1, then scaled and
// shifted.
//
//   out = (x - mean) / std * gamma + beta,  std = sqrt(var + eps), over each group of each sample
//   d x = gamma (g - mean(g) - xhat mean(g xhat)) / std,  xhat = (x - mean) / std
//   d gamma = sum of g xhat,  d beta = sum of g
//
// GroupNorm splits the channels into num_groups groups; gamma and beta have one element a group, as
// in MXNet 1.9.1. In InstanceNorm each channel is a group. GroupNorm's outputs mean and std, of
// shape (samples, groups), are shown with output_mean_var. Shapes: data (samples, channels, …).
// Types: float32, float64, float16, bfloat16; computed in float32 or float64. Runs on the CPU.
#include <cmath>

#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/row_statistics.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/norm/norm_gradient.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the row driver

struct GroupNormParameters {
  int64_t num_groups = 1;
  float eps = 1e-5f;
  bool output_mean_var = false;

  static void Declare(ParameterSchema<GroupNormParameters>& schema) {
    using P = GroupNormParameters;
    schema.Optional("num_groups", &P::num_groups, "the number of groups of channels");
    schema.Range(1);
    schema.Optional("eps", &P::eps, "added to the variance");
    schema.Range(0);
    schema.Optional("output_mean_var", &P::output_mean_var, "show the outputs mean and std");
  }
};

struct InstanceNormParameters {
  float eps = 1e-3f;

  static void Declare(ParameterSchema<InstanceNormParameters>& schema) {
    schema.Optional("eps", &InstanceNormParameters::eps, "added to the variance");
    schema.Range(0);
  }
};

template <typename Parameters>
class NormProperty : public ParameterizedProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "gamma", "beta"}; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}};
  }

 protected:
  void CheckRank(const TShape& data) const {
    if (data.rank_known() && data.ndim() < 2) {
      throw InvalidArgument(this->TypeString(), ": data has shape ", data,
                            ", expected at least (samples, channels)");
    }
  }
};

class GroupNormProperty final : public NormProperty<GroupNormParameters> {
 public:
  std::vector<std::string> ListOutputs() const override { return {"output", "mean", "std"}; }
  int NumVisibleOutputs() const override { return param_.output_mean_var ? 3 : 1; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    TShape& mean = (*out_shape)[1];
    TShape& std = (*out_shape)[2];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    CheckRank(data);
    MergeShape(*this, "gamma", &(*in_shape)[1], {param_.num_groups});
    MergeShape(*this, "beta", &(*in_shape)[2], {param_.num_groups});
    TShape rows = {data.rank_known() ? data[0] : TShape::kUnknown, param_.num_groups};
    MergeEqualShapes(*this, {{"data's groups", &rows}, {"mean", &mean}, {"std", &std}});
    if (!data.rank_known()) return false;
    data[0] = rows[0];
    out[0] = rows[0];
    if (data[1] != TShape::kUnknown && data[1] % param_.num_groups != 0) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", whose ", data[1],
                            " channels are no multiple of num_groups, ", param_.num_groups);
    }
    return data.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    BuildGroupNormGradient(builder, "(0, " + std::to_string(param_.num_groups) + ", -1)",
                           static_cast<double>(param_.eps));
    return true;
  }
};

class InstanceNormProperty final : public NormProperty<InstanceNormParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& out = (*out_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    CheckRank(data);
    TShape channels = {data.rank_known() ? data[1] : TShape::kUnknown};
    MergeEqualShapes(
        *this,
        {{"data's channels", &channels}, {"gamma", &(*in_shape)[1]}, {"beta", &(*in_shape)[2]}});
    if (!data.rank_known()) return false;
    data[1] = channels[0];
    out[1] = channels[0];
    return data.known();
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    BuildGroupNormGradient(builder, "(0, 0, -1)", static_cast<double>(param_.eps));
    return true;
  }
};

class NormOperator : public Operator {
 public:
  NormOperator(index_t num_groups, double eps) : num_groups_(num_groups), eps_(eps) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const index_t groups = Groups(in_data[0].shape_);
    const RowLayout rows = Rows(in_data[0].shape_);
    const index_t n = rows.Length();
    if (n == 0 && out_data.size() == 1) return;
    RowCall call(rows);
    call.Read(in_data[0]).Write(out_data[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const RowReader<T> gamma(in_data[1]), beta(in_data[2]);
      call.Run<T>(1, [&](index_t row, const T* const* in, T* const* out) {
        const T* const x = in[0];
        T* const y = out[0];
        const RowStatistics<T> s(x, n, eps_);
        const T mean = s.mean;
        const T scale = gamma[row % groups] * s.inverse;
        const T shift = beta[row % groups];
        ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { y[i] = (x[i] - mean) * scale + shift; });
        if (out_data.size() == 1) return;
        RowWriter<T>(out_data[1], req[1]).Write(row, mean);
        RowWriter<T>(out_data[2], req[2]).Write(row, static_cast<T>(s.std));
      });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const index_t groups = Groups(in_data[0].shape_);
    RowLayout rows = Rows(in_data[0].shape_);
    const index_t n = rows.Length();
    // Rows without elements add nothing to the sums, and may be many.
    if (n == 0) rows = RowLayout::Contiguous(0, 0);
    const index_t num_rows = rows.NumRows();
    RowCall call(rows);
    call.Read(out_grad[0]).Read(in_data[0]).Write(in_grad[0], req[0]);
    // Two sums of each row: of g xhat and of g.
    std::vector<double> sums(static_cast<size_t>(2 * num_rows));
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const RowReader<T> gamma(in_data[1]);
      call.Run<T>(2, [&](index_t row, const T* const* in, T* const* out) {
        const T* const g = in[0];
        const T* const x = in[1];
        const RowStatistics<T> s(x, n, eps_);
        const auto of_row = s.SumsOfGradient(g, x, nullptr, n);
        sums[static_cast<size_t>(2 * row)] = of_row.dot;
        sums[static_cast<size_t>(2 * row + 1)] = of_row.head;
        if (req[0] == kNullOp) return;
        s.Gradient(of_row, g, x, nullptr, gamma[row % groups], n, out[0]);
      });
    });
    for (index_t group = 0; group < groups; ++group) {
      double of_gamma = 0, of_beta = 0;
      for (index_t row = group; row < num_rows; row += groups) {
        of_gamma += sums[static_cast<size_t>(2 * row)];
        of_beta += sums[static_cast<size_t>(2 * row + 1)];
      }
      RowWriter<double>(in_grad[1], req[1]).Write(group, of_gamma);
      RowWriter<double>(in_grad[2], req[2]).Write(group, of_beta);
    }
  }

 private:
  index_t Groups(const TShape& shape) const { return num_groups_ > 0 ? num_groups_ : shape[1]; }
  RowLayout Rows(const TShape& shape) const {
    const index_t groups = Groups(shape);
    const index_t channels = groups > 0 ? shape[1] / groups : 0;
    return RowLayout::Contiguous(shape[0] * groups, channels * shape.ProdShape(2, shape.ndim()));
  }

  const index_t num_groups_;  // 0: as many as channels
  const double eps_;
};

class GroupNormOperator final : public NormOperator {
 public:
  explicit GroupNormOperator(const GroupNormParameters& param)
      : NormOperator(param.num_groups, static_cast<double>(param.eps)) {}
};
class InstanceNormOperator final : public NormOperator {
 public:
  explicit InstanceNormOperator(const InstanceNormParameters& param)
      : NormOperator(0, static_cast<double>(param.eps)) {}
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<GroupNormProperty, GroupNormOperator>(
        TESSERA_TABLE_PLACE, "GroupNorm",
        "Groups of channels with mean 0 and variance 1, then scaled and shifted."),
    RegisterTypedOperator<InstanceNormProperty, InstanceNormOperator>(
        TESSERA_TABLE_PLACE, "InstanceNorm",
        "Each channel of each sample with mean 0 and variance 1, then scaled and shifted."),
};

}  // namespace
}  // namespace tessera
