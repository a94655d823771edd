// _contrib_bipartite_matching: pairs of rows and columns of a matrix, the best ones first.
//
//   output0[i] = the column that row i is matched with, or -1
//   output1[j] = the row that column j is matched with, or -1
//
// Elements above threshold are visited from the largest to the smallest; with is_ascend, elements
// below threshold from the smallest to the largest. Equal elements keep their order. An element
// matches its row with its column if neither is matched yet. With topk > 0 there are at most
// topk + 1 pairs, as in MXNet. NaN matches nothing. Gradients are 0. Shapes: data (…, n, m),
// output0 (…, n), output1 (…, m). Types: float32, float64, float16, bfloat16; the last two are
// compared in float32. Runs on the CPU.
#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/zero_gradient.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: registration

struct BipartiteMatchingParameters {
  bool is_ascend = false;
  float threshold = 0;
  int64_t topk = -1;

  static void Declare(ParameterSchema<BipartiteMatchingParameters>& schema) {
    using P = BipartiteMatchingParameters;
    schema.Optional("is_ascend", &P::is_ascend, "whether small elements match first");
    schema.Required("threshold", &P::threshold,
                    "the bound above which, with is_ascend below which, an element matches");
    schema.Optional("topk", &P::topk,
                    "one less than the largest number of pairs; no limit if not positive");
  }
};

class BipartiteMatchingProperty final : public ZeroGradientProperty<BipartiteMatchingParameters> {
 public:
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &rows = (*out_shape)[0], &columns = (*out_shape)[1];
    for (const TShape& out : *out_shape) {
      if (out.rank_known() && out.ndim() < TShape::kMaxRank) {
        MergeShape(*this, "data", &data, TShape::OfRank(out.ndim() + 1));
      }
    }
    if (!data.rank_known()) return false;
    const int last = data.ndim() - 1;
    if (last < 1) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", expected (..., n, m)");
    }
    MergeShape(*this, "output0", &rows, TShape(std::span<const index_t>(data.begin(), last)));
    std::vector<index_t> extents(data.begin(), data.end());
    extents.erase(extents.end() - 2);
    MergeShape(*this, "output1", &columns, TShape(std::span<const index_t>(extents)));

    TShape known = TShape::OfRank(data.ndim());
    std::copy(rows.begin(), rows.end(), &known[0]);
    known[last] = columns[last - 1];
    MergeShape(*this, "data", &data, known);
    std::copy(columns.begin(), columns.end() - 1, &known[0]);
    known[last - 1] = rows[last - 1];
    MergeShape(*this, "data", &data, known);
    for (int i = 0; i + 1 < last; ++i) rows[i] = columns[i] = data[i];
    return data.known();
  }
};

class BipartiteMatchingOperator final : public Operator {
 public:
  explicit BipartiteMatchingOperator(const BipartiteMatchingParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (out_data[0].shape_.Size() == 0 && out_data[1].shape_.Size() == 0) return;
    const TShape& shape = in_data[0].shape_;
    const index_t n = shape[shape.ndim() - 2], m = shape[shape.ndim() - 1];
    const index_t batch = shape.ProdShape(0, shape.ndim() - 2);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const Elements<T> data(in_data[0]);
      constexpr index_t kCost = 16;  // of sorting
      ParallelFor(batch, StepsPerTask(n * m, kCost), [&](index_t begin, index_t end) {
        for (index_t b = begin; b < end; ++b) {
          const Matches<T> matches = Match(data.data() + b * n * m, n, m);
          StoreLine(matches.of_rows, b, req[0], out_data[0]);
          StoreLine(matches.of_columns, b, req[1], out_data[1]);
        }
      });
    });
  }

 private:
  template <typename T>
  struct Matches {
    std::vector<T> of_rows, of_columns;
  };

  template <typename T>
  Matches<T> Match(const T* data, index_t n, index_t m) const {
    const bool ascend = param_.is_ascend;
    const auto comes_before = [ascend](T a, T b) { return ascend ? a < b : a > b; };
    std::vector<index_t> order;
    for (index_t i = 0; i < n * m; ++i) {
      if (comes_before(data[i], T(param_.threshold))) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](index_t a, index_t b) { return comes_before(data[a], data[b]); });
    Matches<T> matches{std::vector<T>(static_cast<size_t>(n), T(-1)),
                       std::vector<T>(static_cast<size_t>(m), T(-1))};
    int64_t pairs = 0;
    for (const index_t i : order) {
      T& column = matches.of_rows[static_cast<size_t>(i / m)];
      T& row = matches.of_columns[static_cast<size_t>(i % m)];
      if (column >= 0 || row >= 0) continue;
      column = static_cast<T>(i % m);
      row = static_cast<T>(i / m);
      if (++pairs > param_.topk && param_.topk > 0) break;
    }
    return matches;
  }

  const BipartiteMatchingParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<BipartiteMatchingProperty, BipartiteMatchingOperator>(
        TESSERA_TABLE_PLACE, "_contrib_bipartite_matching",
        "Pairs of rows and columns of a matrix, those of the best elements first.");

}  // namespace
}  // namespace tessera
