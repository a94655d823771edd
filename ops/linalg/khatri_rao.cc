// khatri_rao: the column-wise Kronecker product of matrices (Khatri and Rao, 1968).
//
//   out[(i1, …, in)][c] = arg1[i1][c] … argn[in][c]
//   d argk[i][c] = the sum over all rows with ik = i of g times the other factors
//
// Rows of the output are numbered with the last index fastest. Shapes: arg k (rows k, columns), out
// (product of all rows, columns). Types: all; 16-bit types are computed in float32, and integers
// wrap around. Runs on the CPU.
#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct KhatriRaoParameters {
  int num_args = 1;

  static void Declare(ParameterSchema<KhatriRaoParameters>& schema) {
    schema.Required("num_args", &KhatriRaoParameters::num_args, "number of matrices");
    schema.Range(1, 1 << 20);
  }
};

class KhatriRaoProperty final : public ParameterizedProperty<KhatriRaoParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names;
    for (int i = 0; i < param_.num_args; ++i) names.push_back("arg" + std::to_string(i));
    return names;
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& out = (*out_shape)[0];
    // The second pass completes the columns of the first arguments.
    TShape common = TShape::OfRank(2);
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t i = 0; i < in_shape->size(); ++i) {
        MergeShape(*this, "arg" + std::to_string(i), &(*in_shape)[i], common);
        common[1] = (*in_shape)[i][1];
      }
      MergeShape(*this, "output", &out, common);
      common[1] = out[1];
    }
    CheckedSize rows = 1;
    for (size_t i = 0; i < in_shape->size(); ++i) {
      const TShape& shape = (*in_shape)[i];
      if (shape[0] == TShape::kUnknown) return false;
      rows = rows * shape[0];
      if (!rows.valid()) {
        throw InvalidArgument(TypeString(), ": with arg", i, " of shape ", shape,
                              ", the output has more rows than fit in 63 bits");
      }
    }
    MergeShape(*this, "output", &out, {*rows.value(), common[1]});
    return out.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> needed = {out_grad[0]};
    if (in_data.size() > 1) needed.insert(needed.end(), in_data.begin(), in_data.end());
    return needed;
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    std::vector<Term> products = {Term(builder, builder->Input(0))};  // of the first arguments
    for (int i = 1; i + 1 < param_.num_args; ++i) {
      products.push_back(Apply("khatri_rao", {products.back(), {builder, builder->Input(i)}},
                               {{"num_args", "2"}}));
    }
    Term g(builder, builder->OutGrad(0));
    for (int i = param_.num_args - 1; i > 0; --i) {
      // The last product with a dimension for the rows of either factor.
      const Term left = Apply("expand_dims", {products.back()}, {{"axis", "1"}}).Broadcast();
      const Term right =
          Apply("expand_dims", {Term(builder, builder->Input(i))}, {{"axis", "0"}}).Broadcast();
      const Term unfolded = Apply("reshape_like", {g, left * right}).Broadcast();
      SetInGrad(builder, i, Apply("sum", {unfolded * left}, {{"axis", "0"}}));
      g = Apply("sum", {unfolded * right}, {{"axis", "1"}});
      products.pop_back();
    }
    SetInGrad(builder, 0, g);
    return true;
  }
};

/// Calls function(T()) with the type in which arrays of `dtype` are computed.
template <typename Function>
void VisitComputed(DType dtype, const Function& function) {
  if (dtype == DType::kFloat64) {
    function(double());
  } else if (IsReal(dtype)) {
    function(float());
  } else {
    function(int64_t());
  }
}

/// The rows of the output, as tuples of rows of the arguments.
class RowTuples {
 public:
  explicit RowTuples(std::span<const TShape> in_shape) : columns_(in_shape[0][1]) {
    for (const TShape& shape : in_shape) rows_.push_back(shape[0]);
    // Without a row of the output, the number of rows that some arguments have may not fit.
    const bool is_empty = std::find(rows_.begin(), rows_.end(), 0) != rows_.end();
    inner_.assign(rows_.size(), is_empty ? 0 : 1);
    for (size_t k = rows_.size() - 1; k > 0; --k) inner_[k - 1] = inner_[k] * rows_[k];
  }
  index_t columns() const { return columns_; }
  index_t count() const { return inner_[0] * rows_[0]; }
  /// Returns the number of output rows that read one row of argument k.
  index_t ReadersOf(size_t k) const { return count() / rows_[k]; }
  /// Returns the i-th output row that reads row `row` of argument k.
  index_t Reader(size_t k, index_t row, index_t i) const {
    return (i / inner_[k] * rows_[k] + row) * inner_[k] + i % inner_[k];
  }

  /// Multiplies `product` by the factors of an output row, all but argument `skipped`. `factor` is
  /// scratch memory; both have a row's size.
  template <typename T>
  void Multiply(std::span<const TBlob> in, index_t row, size_t skipped, std::vector<T>* factor,
                std::vector<T>* product) const {
    for (size_t k = 0; k < in.size(); ++k) {
      if (k == skipped) continue;
      LoadRowOf(in[k], row / inner_[k] % rows_[k], factor->data());
      T* const to = product->data();
      const T* const from = factor->data();
      for (index_t c = 0; c < columns_; ++c) to[c] *= from[c];
    }
  }
  /// Reads a row of a matrix.
  template <typename T>
  void LoadRowOf(const TBlob& matrix, index_t row, T* to) const {
    RowReader<T>(matrix).Copy(row * columns_, columns_, to);
  }
  /// Writes a row of a matrix, or adds to it.
  template <typename T>
  void StoreRowOf(const T* from, OpReqType req, const TBlob& matrix, index_t row) const {
    RowWriter<T>(matrix, req).Write(row * columns_, columns_, from);
  }

 private:
  const index_t columns_;
  std::vector<index_t> rows_;
  std::vector<index_t> inner_;  // the number of output rows in which an argument's row is the same
};

class KhatriRaoOperator final : public Operator {
 public:
  KhatriRaoOperator(const KhatriRaoParameters&, std::span<const TShape> in_shape)
      : in_shape_(in_shape.begin(), in_shape.end()) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].Size() == 0) return;
    const RowTuples tuples(in_shape_);
    const index_t factors = static_cast<index_t>(in_data.size());
    VisitComputed(out_data[0].type_flag_, [&](auto one) {
      using T = decltype(one);
      ParallelFor(tuples.count(), StepsPerTask(tuples.columns() * factors),
                  [&](index_t begin, index_t end) {
                    std::vector<T> factor(static_cast<size_t>(tuples.columns())), product = factor;
                    for (index_t row = begin; row < end; ++row) {
                      std::fill(product.begin(), product.end(), T(1));
                      tuples.Multiply(in_data, row, in_data.size(), &factor, &product);
                      tuples.StoreRowOf(product.data(), req[0], out_data[0], row);
                    }
                  });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    VisitComputed(out_grad[0].type_flag_, [&](auto one) {
      using T = decltype(one);
      for (size_t k = 0; k < in_grad.size(); ++k) {
        if (req[k] != kNullOp && in_grad[k].Size() > 0) {
          Gradient<T>(k, out_grad[0], in_data, req[k], in_grad[k]);
        }
      }
    });
  }

 private:
  template <typename T>
  void Gradient(size_t k, const TBlob& out_grad, std::span<const TBlob> in_data, OpReqType req,
                const TBlob& in_grad) const {
    const RowTuples tuples(in_shape_);
    const index_t readers = tuples.ReadersOf(k), columns = tuples.columns();
    const index_t steps = readers * columns * static_cast<index_t>(in_shape_.size());
    ParallelFor(in_shape_[k][0], StepsPerTask(steps), [&](index_t begin, index_t end) {
      std::vector<T> factor(static_cast<size_t>(columns)), product = factor, sum = factor;
      for (index_t row = begin; row < end; ++row) {
        std::fill(sum.begin(), sum.end(), T(0));
        for (index_t i = 0; i < readers; ++i) {
          const index_t reader = tuples.Reader(k, row, i);
          tuples.LoadRowOf(out_grad, reader, product.data());
          tuples.Multiply(in_data, reader, k, &factor, &product);
          for (index_t c = 0; c < columns; ++c) {
            sum[static_cast<size_t>(c)] += product[static_cast<size_t>(c)];
          }
        }
        tuples.StoreRowOf(sum.data(), req, in_grad, row);
      }
    });
  }

  const std::vector<TShape> in_shape_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<KhatriRaoProperty, KhatriRaoOperator>(
        TESSERA_TABLE_PLACE, "khatri_rao", "The column-wise Kronecker product of matrices.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera
