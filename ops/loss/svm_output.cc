// SVMOutput: data, with the gradient of a one-against-all hinge loss.
//
//   out = data;  v = margin - out[k] for the label k, margin + out[j] for the others
//   use_linear:  d data[k] = -c if v > 0, d data[j] = c if v > 0;  c = regularization_coefficient
//   else:        d data[k] = -2 c max(v, 0), d data[j] = 2 c max(v, 0)
//
// No head gradient is read. Shapes: data (…, classes), label the leading dimensions. Types:
// float32, float64, float16, bfloat16; the label has data's type and is truncated. Runs on the CPU.
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the drivers

struct SVMOutputParameters {
  float margin = 1;
  float regularization_coefficient = 1;
  bool use_linear = false;

  static void Declare(ParameterSchema<SVMOutputParameters>& schema) {
    using P = SVMOutputParameters;
    schema.Optional("margin", &P::margin, "the distance that costs nothing");
    schema.Optional("regularization_coefficient", &P::regularization_coefficient,
                    "factor of the gradient");
    schema.Optional("use_linear", &P::use_linear, "the hinge loss in place of its square");
  }
};

class SVMOutputProperty final : public ParameterizedProperty<SVMOutputParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "label"}; }
  bool IsLoss() const override { return true; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& label = (*in_shape)[1];
    TShape& out = (*out_shape)[0];
    if (!data.rank_known() && label.rank_known()) data = TShape::OfRank(label.ndim() + 1);
    MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    if (!data.rank_known()) return false;
    if (data.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": data is a scalar, expected at least (classes)");
    }
    const int leading = data.ndim() - 1;
    MergeShape(*this, "label", &label,
               TShape(std::span<const index_t>(data.begin(), data.begin() + leading)));
    for (int i = 0; i < leading; ++i) data[i] = label[i];
    out = data;
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int>, std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    return {in_data[1], out_data[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int>, std::span<const int>,
                                                 std::span<const int> out_data,
                                                 std::span<const int> in_grad) const override {
    return {{out_data[0], in_grad[0]}};
  }
};

const MapFunction kCopy = MakeMapFunction<op::identity, 1>();

class SVMOutputOperator final : public Operator {
 public:
  explicit SVMOutputOperator(const SVMOutputParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0]).Add(in_data[0]).Run(kCopy, context);
  }

  void Backward(const OpContext&, std::span<const TBlob>, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    const TBlob& label = in_data[1];
    const RowLayout rows = RowLayout::Along(out_data[0].shape_, out_data[0].shape_.ndim() - 1);
    const index_t n = rows.Length();
    RowCall call(rows);
    call.Read(out_data[0]).Write(in_grad[0], req[0]);
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const T margin = static_cast<T>(param_.margin);
      const T coefficient = static_cast<T>(param_.regularization_coefficient);
      const bool linear = param_.use_linear;
      call.Run<T>(0, [&](index_t row, const T* const* in, T* const* out) {
        const T* const y = in[0];
        T* const dx = out[0];
        int64_t k;
        ReadIndices(label, row, 1, &k);
        const bool is_class = k >= 0 && k < n;
        const T at_label = is_class ? margin - y[k] : T(0);
        ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
          const T v = margin + y[i];
          const T slope = linear ? T(1) : T(2) * v;
          dx[i] = v > T(0) ? slope * coefficient : T(0);
        });
        if (is_class) {
          const T slope = linear ? T(1) : T(2) * at_label;
          dx[k] = at_label > T(0) ? -slope * coefficient : T(0);
        }
      });
    });
  }

 private:
  const SVMOutputParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<SVMOutputProperty, SVMOutputOperator>(
        TESSERA_TABLE_PLACE, "SVMOutput",
        "data, with the gradient of a one-against-all hinge loss.");

}  // namespace
}  // namespace tessera
