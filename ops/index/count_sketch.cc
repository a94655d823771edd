// _contrib_count_sketch: rows of `channel` numbers as sums in rows of out_dim numbers.
//
//   out[…, j] = the sum of s[0, c] data[…, c] over the c with h[0, c] == j
//   d data[…, c] = s[0, c] d out[…, h[0, c]]
//
// Products of two rows stay as they are on average if h is random and s is 1 or -1 at random:
// M. Charikar, K. Chen and M. Farach-Colton (2002), Finding frequent items in data streams. Numbers
// of h are truncated; one outside of [0, out_dim) throws Error(kOutOfRange) in Forward. Shapes:
// data (…, channel), h and s (1, channel), out (…, out_dim). h and s have no gradient. Types:
// float32, float64, float16, bfloat16, one type for all; sums in float64. Runs on the CPU.
#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: positions and registration

struct CountSketchParameters {
  int out_dim = 1;
  int processing_batch_size = 32;

  static void Declare(ParameterSchema<CountSketchParameters>& schema) {
    using P = CountSketchParameters;
    schema.Required("out_dim", &P::out_dim, "the length of the output's rows");
    schema.Range(1);
    schema.Optional("processing_batch_size", &P::processing_batch_size,
                    "rows that MXNet computes at once; it changes nothing here");
  }
};

class CountSketchProperty final : public ParameterizedProperty<CountSketchParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "h", "s"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    TShape &h = (*in_shape)[1], &s = (*in_shape)[2];
    MergeShape(*this, "h", &h, {1, TShape::kUnknown});
    MergeEqualShapes(*this, {{"h", &h}, {"s", &s}});
    MergeShape(*this, "data", &data, Resized("output", out, h[1]));
    const TShape known = Resized("data", data, h[1]);
    MergeShape(*this, "data", &data, known);
    if (!data.rank_known()) return false;
    MergeShape(*this, "output", &out, Resized("data", data, param_.out_dim));
    data = Resized("output", out, data[data.ndim() - 1]);
    h[1] = s[1] = data[data.ndim() - 1];
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[1], in_data[2]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }

 private:
  /// Returns a value's shape with another last extent.
  TShape Resized(const char* value, const TShape& shape, index_t last) const {
    if (!shape.rank_known()) return TShape();
    if (shape.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": ", value, " is a scalar, expected at least one axis");
    }
    TShape resized = shape;
    resized[shape.ndim() - 1] = last;
    return resized;
  }
};

class CountSketchOperator final : public Operator {
 public:
  explicit CountSketchOperator(const CountSketchParameters& param) : out_dim_(param.out_dim) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const Sketch sketch(in_data[1], in_data[2], out_dim_);
    const TBlob &data = in_data[0], &out = out_data[0];
    if (req[0] == kNullOp) return;
    ForEachRow(out.Size() / out_dim_, sketch, [&](index_t row, double* x, double* y) {
      RowReader<double>(data).Copy(row * sketch.channels, sketch.channels, x);
      std::fill_n(y, out_dim_, 0.0);
      for (index_t c = 0; c < sketch.channels; ++c) y[sketch.To(c)] += sketch.Sign(c) * x[c];
      RowWriter<double>(out, req[0]).Write(row * out_dim_, out_dim_, y);
    });
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const Sketch sketch(in_data[1], in_data[2], out_dim_);
    const TBlob &g = out_grad[0], &grad = in_grad[0];
    if (req[0] == kNullOp) return;
    ForEachRow(g.Size() / out_dim_, sketch, [&](index_t row, double* x, double* y) {
      RowReader<double>(g).Copy(row * out_dim_, out_dim_, y);
      for (index_t c = 0; c < sketch.channels; ++c) x[c] = sketch.Sign(c) * y[sketch.To(c)];
      RowWriter<double>(grad, req[0]).Write(row * sketch.channels, sketch.channels, x);
    });
  }

 private:
  /// The channels' positions in the output, and their factors.
  struct Sketch {
    index_t channels;
    std::vector<int64_t> to;
    std::vector<double> signs;

    Sketch(const TBlob& h, const TBlob& s, index_t out_dim)
        : channels(h.Size()), to(static_cast<size_t>(channels)), signs(to.size()) {
      Positions(h, out_dim, IndexMode::kRaise).Read(0, channels, to.data());
      RowReader<double>(s).Copy(0, channels, signs.data());
    }
    int64_t To(index_t c) const { return to[static_cast<size_t>(c)]; }
    double Sign(index_t c) const { return signs[static_cast<size_t>(c)]; }
  };

  /// Calls body(row, x, y) for each row, with buffers of a row of data and of the output.
  template <typename Body>
  void ForEachRow(index_t rows, const Sketch& sketch, const Body& body) const {
    ParallelFor(rows, StepsPerTask(sketch.channels + out_dim_), [&](index_t begin, index_t end) {
      std::vector<double> x(sketch.to.size()), y(static_cast<size_t>(out_dim_));
      for (index_t row = begin; row < end; ++row) body(row, x.data(), y.data());
    });
  }

  const index_t out_dim_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<CountSketchProperty, CountSketchOperator>(
        TESSERA_TABLE_PLACE, "_contrib_count_sketch",
        "Rows as sums of their elements, with signs, at positions of shorter rows.");

}  // namespace
}  // namespace tessera
