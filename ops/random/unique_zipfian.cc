// _sample_unique_zipfian: rows of distinct classes, by a distribution that is almost Zipf's.
//
//   P(class) = log((class + 2) / (class + 1)) / log(range_max + 1), class = 0 … range_max - 1
//
// A row's classes are drawn one after the other; those that the row has already are drawn again. A
// class is floor(exp(u log(range_max + 1))) - 1 of a u that is uniform on [0, 1), which inverts the
// distribution's sum, log(class + 2) / log(range_max + 1).
//
// Shapes: output0 (rows, classes) has the classes; output1 (rows) the number of draws of each row.
// Types: int64. The numbers come from the device's sequence. There are no inputs. Runs on the CPU,
// in one thread, since a row's first number depends on the draws of the row before.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/philox.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: RegisterTypedOperator

struct UniqueZipfianParameters {
  int range_max = 1;
  std::vector<int64_t> shape;

  static void Declare(ParameterSchema<UniqueZipfianParameters>& schema) {
    using P = UniqueZipfianParameters;
    schema.Required("range_max", &P::range_max, "the number of classes");
    schema.Range(1);
    schema.Optional("shape", &P::shape, "the number of rows, and that of each row's classes");
  }
};

class UniqueZipfianProperty final : public ParameterizedProperty<UniqueZipfianParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {}; }
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }
  Purity purity() const override { return Purity::kRandom; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>*, std::vector<TShape>* out_shape) const override {
    MergeShape(*this, "output0", &(*out_shape)[0], {param_.shape[0], param_.shape[1]});
    MergeShape(*this, "output1", &(*out_shape)[1], {param_.shape[0]});
    return true;
  }
  bool InferType(std::vector<DType>*, std::vector<DType>* out_type) const override {
    for (size_t i = 0; i < out_type->size(); ++i) {
      DType& type = (*out_type)[i];
      if (type == DType::kUnknown) type = DType::kInt64;
      if (type == DType::kInt64) continue;
      throw InvalidArgument(TypeString(), ": output", i, " has element type ", type,
                            ", expected int64");
    }
    return true;
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}};
  }

 private:
  void CheckParameters() override {
    const std::vector<int64_t>& shape = param_.shape;
    if (shape.size() != 2) {
      throw InvalidArgument(TypeString(), ": parameter shape has ", shape.size(),
                            " extents, expected 2: rows, and the classes of each");
    }
    if (shape[0] < 0 || shape[1] < 0) {
      throw InvalidArgument(TypeString(), ": parameter shape: extent ",
                            std::min(shape[0], shape[1]), " is negative");
    }
    if (shape[1] > param_.range_max) {
      throw InvalidArgument(TypeString(), ": parameter shape: ", shape[1],
                            " distinct classes of a row exceed range_max=", param_.range_max);
    }
    ProductOfExtents(*this, "output0", {shape[0], shape[1]}, 0, 2);
  }
};

/// Numbers that are uniform on [0, 1), in steps of 2^-53.
class Uniform {
 public:
  explicit Uniform(PhiloxState* state) : state_(state) {}

  double operator()() {
    if (next_ == 4) {
      words_ = state_->Block(state_->Reserve(1));
      next_ = 0;
    }
    const uint64_t high = words_.word[next_], low = words_.word[next_ + 1];
    next_ += 2;
    return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
  }

 private:
  PhiloxState* const state_;
  PhiloxWords words_{};
  int next_ = 4;  // words_ has no number left
};

class UniqueZipfianOperator final : public Operator {
 public:
  explicit UniqueZipfianOperator(const UniqueZipfianParameters& param)
      : classes_(param.range_max), rows_(param.shape[0]), each_(param.shape[1]) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob>, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    Uniform uniform(context.requested[0]->GetRandomState());
    std::unordered_set<int64_t> seen;
    for (index_t row = 0; row < rows_; ++row) {
      seen.clear();
      int64_t draws = 0;
      for (index_t i = 0; i < each_; ++draws) {
        const int64_t drawn = Class(uniform());
        if (!seen.insert(drawn).second) continue;
        if (req[0] != kNullOp) static_cast<int64_t*>(out_data[0].dptr_)[row * each_ + i] = drawn;
        ++i;
      }
      if (req[1] != kNullOp) static_cast<int64_t*>(out_data[1].dptr_)[row] = draws;
    }
  }

 private:
  int64_t Class(double uniform) const {
    const double end = std::exp(uniform * std::log1p(static_cast<double>(classes_)));
    // Rounding may leave the range.
    return std::clamp<int64_t>(static_cast<int64_t>(end) - 1, 0, classes_ - 1);
  }

  const int64_t classes_;
  const index_t rows_, each_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<UniqueZipfianProperty, UniqueZipfianOperator>(
        TESSERA_TABLE_PLACE, "_sample_unique_zipfian",
        "Rows of distinct classes, drawn by a distribution that is almost Zipf's.");

}  // namespace
}  // namespace tessera
