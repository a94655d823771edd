// _sample_multinomial: indices of classes, each drawn with its probability.
//
// Shapes: data (k), or (n…, k) with a distribution along the last axis of each row; the output has
// n… followed by `shape`, and (1) if that is nothing. With get_prob there is a second output of its
// shape, the logarithm of the drawn probabilities. Weights that do not sum to 1 are divided by
// their sum for the draw, but not for the logarithm.
//
//   d data[row, c] = sum of d logarithm / data[row, c] over the draws of c
//
// Types: data and logarithm float32, float64, float16, bfloat16; indices `dtype`. The numbers come
// from the device's sequence: one seed gives one result, whatever the number of threads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/philox.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: RegisterTypedOperator

struct MultinomialParameters {
  std::vector<int64_t> shape;
  bool get_prob = false;
  DType dtype = DType::kInt32;

  static void Declare(ParameterSchema<MultinomialParameters>& schema) {
    using P = MultinomialParameters;
    schema.Optional("shape", &P::shape, "the shape of each distribution's draws");
    schema.Optional("get_prob", &P::get_prob, "output the logarithms of the probabilities too");
    schema.Choice("dtype", &P::dtype,
                  {{"uint8", DType::kUint8},
                   {"int32", DType::kInt32},
                   {"int64", DType::kInt64},
                   {"float16", DType::kFloat16},
                   {"float32", DType::kFloat32},
                   {"float64", DType::kFloat64}},
                  "the indices' element type");
  }
};

/// Returns the largest number of classes whose indices a type represents.
index_t MostClasses(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return 256;
    case DType::kFloat16:
      return (index_t{1} << 11) + 1;
    case DType::kFloat32:
      return (index_t{1} << 24) + 1;
    default:
      return index_t{1} << 31;
  }
}

class MultinomialProperty final : public ParameterizedProperty<MultinomialParameters> {
 public:
  std::vector<std::string> ListOutputs() const override {
    if (param_.get_prob) return {"output0", "output1"};
    return {"output"};
  }
  Purity purity() const override { return Purity::kRandom; }
  bool ArgumentHasGradient(int) const override { return param_.get_prob; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape common;
    for (size_t i = 0; i < out_shape->size(); ++i) {
      MergeShape(*this, ListOutputs()[i], &(*out_shape)[i], common);
      common = (*out_shape)[i];
    }
    std::fill(out_shape->begin(), out_shape->end(), common);
    if (!data.rank_known()) return false;
    if (data.ndim() < 1 || data[data.ndim() - 1] == 0) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", expected (…, classes)");
    }
    const index_t classes = data[data.ndim() - 1], most = MostClasses(param_.dtype);
    if (classes > most) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", but dtype ", param_.dtype,
                            " holds the indices of ", most, " classes");
    }
    std::vector<index_t> extents(data.begin(), data.end() - 1);
    extents.insert(extents.end(), param_.shape.begin(), param_.shape.end());
    if (extents.empty()) extents.push_back(1);
    if (extents.size() > TShape::kMaxRank) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, " and parameter shape ",
                            param_.shape.size(), " extents, together more than ", TShape::kMaxRank);
    }
    MergeShape(*this, "output", &common, TShape(std::span<const index_t>(extents)));
    ProductOfExtents(*this, "output", common, 0, common.ndim());
    std::fill(out_shape->begin(), out_shape->end(), common);
    for (int i = 0; i + 1 < data.ndim(); ++i) data[i] = common[i];
    return data.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    const auto merge = [&](const char* what, DType* dtype, DType known) {
      if (*dtype != DType::kUnknown && known != DType::kUnknown && *dtype != known) {
        throw InvalidArgument(TypeString(), ": ", what, " has element type ", *dtype, ", expected ",
                              known);
      }
      if (*dtype == DType::kUnknown) *dtype = known;
    };
    merge("output", &(*out_type)[0], param_.dtype);
    if (param_.get_prob) {
      merge("output1", &(*out_type)[1], (*in_type)[0]);
      merge("data", &(*in_type)[0], (*out_type)[1]);
    }
    return (*in_type)[0] != DType::kUnknown;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    if (!param_.get_prob) return {};
    return {out_grad[1], in_data[0], out_data[0]};
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}, {ResourceRequest::Type::kTempSpace}};
  }

 private:
  void CheckParameters() override {
    for (const int64_t extent : param_.shape) {
      if (extent >= 0) continue;
      throw InvalidArgument(TypeString(), ": parameter shape: extent ", extent, " is negative");
    }
  }
};

class MultinomialOperator final : public Operator {
 public:
  explicit MultinomialOperator(const MultinomialParameters& param) : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[0];
    const bool wants_index = req[0] != kNullOp;
    const bool wants_log = param_.get_prob && req[1] != kNullOp;
    if ((!wants_index && !wants_log) || data.Size() == 0) return;
    const index_t classes = Classes(data), rows = data.Size() / classes;
    const index_t draws = Draws();
    if (draws == 0) return;
    // The sums of each row's weights up to a class.
    const TBlob space = WorkspaceArray<cpu>(context, 1, data.shape_, DType::kFloat64, data.device_);
    auto* const sums = static_cast<double*>(space.dptr_);
    ParallelFor(rows, StepsPerTask(classes), [&](index_t begin, index_t end) {
      for (index_t row = begin; row < end; ++row) {
        double* const sum = sums + row * classes;
        RowReader<double>(data).Copy(row * classes, classes, sum);
        Accumulate(row, classes, sum);
      }
    });
    // Each draw takes half a block: 53 random bits.
    PhiloxState* const state = context.requested[0]->GetRandomState();
    const PhiloxState from = *state;
    const index_t size = rows * draws;
    const uint64_t first = state->Reserve(static_cast<uint64_t>((size + 1) / 2));
    constexpr index_t kCost = 20;  // of a draw
    ParallelFor(size, StepsPerTask(1, kCost), [&](index_t begin, index_t end) {
      constexpr index_t kBlock = 256;
      int64_t index[kBlock];
      double log[kBlock];
      for (index_t i = begin; i < end; i += kBlock) {
        const index_t n = std::min(kBlock, end - i);
        for (index_t j = 0; j < n; ++j) {
          const auto number = static_cast<uint64_t>(i + j);
          const PhiloxWords words = from.Block(first + number / 2);
          const uint64_t high = words.word[2 * (number % 2)];
          const uint64_t bits = high << 32 | words.word[2 * (number % 2) + 1];
          const double uniform = static_cast<double>(bits >> 11) * 0x1p-53;
          const index_t row = (i + j) / draws;
          const double* const sum = sums + row * classes;
          // Below the total, so that the class found has a weight above 0.
          const double target =
              std::min(uniform * sum[classes - 1], std::nextafter(sum[classes - 1], 0.0));
          index[j] = std::upper_bound(sum, sum + classes, target) - sum;
          if (!wants_log) continue;
          log[j] = std::log(RowReader<double>(data)[row * classes + index[j]]);
        }
        if (wants_index) RowWriter<int64_t>(out_data[0], kWriteTo).Write(i, n, index);
        if (wants_log) RowWriter<double>(out_data[1], kWriteTo).Write(i, n, log);
      }
    });
  }

  std::optional<int64_t> ForwardWorkspaceBytes(int, std::span<const TBlob> in_data,
                                               std::span<const OpReqType>,
                                               std::span<const TBlob>) const override {
    return in_data[0].Size() * static_cast<int64_t>(sizeof(double));
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_data[0].Size() == 0) return;
    const TBlob& data = in_data[0];
    const index_t classes = Classes(data), rows = data.Size() / classes;
    const index_t draws = Draws();
    ParallelFor(rows, StepsPerTask(classes + draws), [&](index_t begin, index_t end) {
      std::vector<double> grad(static_cast<size_t>(classes)), p(grad.size());
      std::vector<double> head(static_cast<size_t>(draws));
      std::vector<int64_t> index(head.size());
      for (index_t row = begin; row < end; ++row) {
        RowReader<double>(data).Copy(row * classes, classes, p.data());
        RowReader<double>(out_grad[1]).Copy(row * draws, draws, head.data());
        RowReader<int64_t>(out_data[0]).Copy(row * draws, draws, index.data());
        std::fill(grad.begin(), grad.end(), 0.0);
        for (size_t j = 0; j < head.size(); ++j) {
          const auto c = static_cast<size_t>(std::clamp<int64_t>(index[j], 0, classes - 1));
          grad[c] += head[j] / p[c];
        }
        RowWriter<double>(in_grad[0], kWriteTo).Write(row * classes, classes, grad.data());
      }
    });
  }

 private:
  static index_t Classes(const TBlob& data) { return data.shape_[data.shape_.ndim() - 1]; }
  /// Returns the number of draws of each distribution.
  index_t Draws() const {
    index_t draws = 1;
    for (const int64_t extent : param_.shape) draws *= extent;
    return draws;
  }
  /// Sums the weights up to each class, in place.
  static void Accumulate(index_t row, index_t classes, double* weights) {
    double sum = 0;
    for (index_t c = 0; c < classes; ++c) {
      if (!(weights[c] >= 0)) {
        throw InvalidArgument("data: probability ", weights[c], " of class ", c, " in row ", row,
                              " is not a number of at least 0");
      }
      weights[c] = sum += weights[c];
    }
    if (!(sum > 0) || !std::isfinite(sum)) {
      throw InvalidArgument("data: the probabilities of row ", row, " sum to ", sum,
                            ", expected above 0 and finite");
    }
  }

  const MultinomialParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<MultinomialProperty, MultinomialOperator>(
        TESSERA_TABLE_PLACE, "_sample_multinomial",
        "Indices of classes, drawn with the probabilities in each row.");

}  // namespace
}  // namespace tessera
