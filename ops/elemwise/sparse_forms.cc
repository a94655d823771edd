// What element-wise operators do with sparse arrays: functions of one array that keep 0, sums,
// products, and other functions of two arrays.
//
// Operators compute on packed elements, the same code as for dense arrays. A function of one array
// computes on what that stores, `_scatter_plus_scalar` and its kin too, which leave the other
// elements 0. A function of two arrays of one storage type with f(0, 0) = 0 computes on what either
// stores, a product on what both store, and a product with a dense array, or
// `_scatter_elemwise_div` of a row_sparse one, on what the sparse one stores. broadcast_mul and
// broadcast_div divide or multiply the elements of a csr array by a dense row, column or number.
//
// Elements that a head gradient does not store have gradient 0. With a dense head gradient, a
// product's gradient by a factor is stored where the other factor is, if a sparse array waits for
// it. Other gradients of dense head gradients are computed on dense arrays, as are all of sqrt and
// cbrt, whose derivative at 0 is infinite.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/loops/sparse/sparse_pattern.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

using ops_internal::CopyParts;
using ops_internal::DenseCopy;
using ops_internal::SparsePattern;

constexpr StorageType kDense = StorageType::kDefault;

bool IsSparse(StorageType type) {
  return type == StorageType::kRowSparse || type == StorageType::kCsr;
}

/// The elements of arrays at a pattern.
class Packed {
 public:
  explicit Packed(const SparsePattern& pattern) : pattern_(pattern) {}

  /// Returns the arrays' elements. A value that the call does not have stays an empty blob.
  std::vector<TBlob> Of(std::span<const SparseBlob> arrays) {
    std::vector<TBlob> packed;
    for (const SparseBlob& array : arrays) {
      memory_.emplace_back();
      const bool is_there = array.values.shape_.rank_known();
      packed.push_back(is_there ? pattern_.Pack(array, &memory_.back()) : TBlob());
    }
    return packed;
  }
  /// Gives a sparse array parts of the pattern and returns their values.
  TBlob Allocate(SparseBlob* to) const {
    pattern_.Allocate(to);
    const TBlob& values = to->values;
    return TBlob(values.dptr_, TShape{pattern_.size()}, values.type_flag_, values.device_);
  }

 private:
  const SparsePattern& pattern_;
  std::vector<std::unique_ptr<char[]>> memory_;
};

/// Creates the operator for `count` inputs of one shape and type.
std::unique_ptr<Operator> Create(const OperatorProperty& property, size_t count,
                                 const TShape& shape, DType dtype) {
  return property.CreateOperator(Device::Cpu(), std::vector<TShape>(count, shape),
                                 std::vector<DType>(count, dtype));
}

/// Computes the output at a pattern.
void PackedForward(const OperatorProperty& property, const SparsePattern& pattern,
                   std::span<const SparseBlob> in, SparseBlob* out) {
  Packed packed(pattern);
  const std::vector<TBlob> inputs = packed.Of(in);
  const TBlob output = packed.Allocate(out);
  const OpReqType write[] = {kWriteTo};
  Create(property, in.size(), output.shape_, output.type_flag_)
      ->Forward(OpContext(), inputs, write, {&output, 1});
}

/// Computes the gradient of input `i` from arrays of one shape.
void CallBackward(const OperatorProperty& property, std::span<const TBlob> out_grad,
                  std::span<const TBlob> in_data, std::span<const TBlob> out_data, size_t i,
                  const TBlob& gradient) {
  std::vector<TBlob> gradients(in_data.size());
  std::vector<OpReqType> requests(in_data.size(), kNullOp);
  gradients[i] = gradient;
  requests[i] = kWriteTo;
  Create(property, in_data.size(), gradient.shape_, gradient.type_flag_)
      ->Backward(OpContext(), out_grad, in_data, out_data, requests, gradients);
}

/// Computes the gradient of input `i` at a pattern.
void PackedBackward(const OperatorProperty& property, const SparsePattern& pattern,
                    const BackwardBlobs& values, size_t i, SparseBlob* gradient) {
  Packed packed(pattern);
  const std::vector<TBlob> out_grad = packed.Of(values.out_grad);
  const std::vector<TBlob> in_data = packed.Of(values.in_data);
  const std::vector<TBlob> out_data = packed.Of(values.out_data);
  CallBackward(property, out_grad, in_data, out_data, i, packed.Allocate(gradient));
}

/// A function f of one array, f(0) = 0, or one that leaves what is not stored 0.
class MapForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (!IsSparse(in[0]) || !KeepsZero(property)) return std::nullopt;
    return StorageTypes{in[0]};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] != kNullOp) PackedForward(property, SparsePattern(in[0]), in, &out[0]);
  }

  std::optional<StorageTypes> InferBackward(const OperatorProperty& property,
                                            const BackwardStorage& types) const override {
    const std::string_view name = property.RegisteredName();
    if (!IsSparse(types.out_grad[0]) || name == "sqrt" || name == "cbrt") return std::nullopt;
    return StorageTypes{types.out_grad[0]};
  }

  void Backward(const OperatorProperty& property, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    if (req[0] == kNullOp) return;
    PackedBackward(property, SparsePattern(values.out_grad[0]), values, 0, &in_grad[0]);
  }

 private:
  /// Returns whether parameters leave 0 where it is.
  static bool KeepsZero(const OperatorProperty& property) {
    const ParameterMap parameters = property.GetParams();
    const auto number = [&parameters](const char* name) {
      double value = 0;
      const auto found = parameters.find(name);
      if (found == parameters.end()) return value;
      const std::string& text = found->second;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    const std::string_view name = property.RegisteredName();
    if (name == "clip") return number("a_min") <= 0 && number("a_max") >= 0;
    if (name == "_contrib_quadratic") return number("c") == 0;
    if (name.starts_with("_scatter_")) return true;
    const double scalar = number("scalar");
    if (name == "_plus_scalar" || name == "_minus_scalar") return scalar == 0;
    // 0 / 0 and 0 * infinity are no numbers.
    if (name == "_div_scalar") return scalar != 0;
    const std::pair<std::string_view, bool> comparisons_of_zero[] = {
        {"_equal_scalar", 0 == scalar},  {"_not_equal_scalar", 0 != scalar},
        {"_greater_scalar", 0 > scalar}, {"_greater_equal_scalar", 0 >= scalar},
        {"_lesser_scalar", 0 < scalar},  {"_lesser_equal_scalar", 0 <= scalar}};
    for (const auto& [comparison, holds] : comparisons_of_zero) {
      if (name == comparison) return !holds;
    }
    return std::isfinite(scalar);
  }
};

/// A function f of two arrays of one storage type, f(0, 0) = 0.
class EitherForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (!IsSparse(in[0]) || in[1] != in[0]) return std::nullopt;
    return StorageTypes{in[0]};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    PackedForward(property, SparsePattern::Union(in[0], in[1]), in, &out[0]);
  }

  std::optional<StorageTypes> InferBackward(const OperatorProperty&,
                                            const BackwardStorage& types) const override {
    if (!IsSparse(types.out_grad[0])) return std::nullopt;
    return StorageTypes(2, types.out_grad[0]);
  }

  void Backward(const OperatorProperty& property, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    const SparsePattern pattern(values.out_grad[0]);
    for (size_t i = 0; i < req.size(); ++i) {
      if (req[i] != kNullOp) PackedBackward(property, pattern, values, i, &in_grad[i]);
    }
  }
};

/// A product of two arrays of one storage type, or of a sparse and a dense one.
class ProductForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    const StorageType sparse = in[0] == kDense ? in[1] : in[0];
    const bool fits = in[0] == in[1] || in[0] == kDense || in[1] == kDense;
    if (!IsSparse(sparse) || !fits) return std::nullopt;
    return StorageTypes{sparse};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    PackedForward(property,
                  in[0].storage == in[1].storage
                      ? SparsePattern::Intersection(in[0], in[1])
                      : SparsePattern(in[0].storage == kDense ? in[1] : in[0]),
                  in, &out[0]);
  }

  std::optional<StorageTypes> InferBackward(const OperatorProperty&,
                                            const BackwardStorage& types) const override {
    StorageTypes gradients(2, types.out_grad[0]);
    for (const size_t i : {0, 1}) {
      const StorageType other = types.in_data[1 - i];
      if (types.out_grad[0] == kDense && IsSparse(types.in_grad[i]) && IsSparse(other)) {
        gradients[i] = other;
      }
    }
    if (!IsSparse(gradients[0]) && !IsSparse(gradients[1])) return std::nullopt;
    return gradients;
  }

  void Backward(const OperatorProperty& property, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    const SparseBlob& head = values.out_grad[0];
    for (const size_t i : {0, 1}) {
      if (req[i] == kNullOp) continue;
      const SparseBlob& other = values.in_data[1 - i];
      if (IsSparse(in_grad[i].storage)) {
        PackedBackward(property, SparsePattern(head.storage == kDense ? other : head), values, i,
                       &in_grad[i]);
        continue;
      }
      // The gradient reads the other factor alone.
      std::optional<DenseCopy> copy;
      if (IsSparse(other.storage)) copy.emplace(other);
      TBlob in_data[2];
      in_data[1 - i] = copy ? copy->blob().values : other.values;
      CallBackward(property, {&head.values, 1}, in_data, {}, i, in_grad[i].values);
    }
  }
};

/// The quotient of a row_sparse array and another one, in the rows that the first stores.
class ScatterDivideForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (in[0] != StorageType::kRowSparse) return std::nullopt;
    return StorageTypes{in[0]};
  }
  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] != kNullOp) PackedForward(property, SparsePattern(in[0]), in, &out[0]);
  }
};

/// A product or quotient of a csr array and a dense one that is broadcast to it.
class BroadcastForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (in[0] != StorageType::kCsr || in[1] != kDense) return std::nullopt;
    return StorageTypes{StorageType::kCsr};
  }
  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    if (out[0].shape == in[0].shape) {
      return PackedForward(property, SparsePattern(in[0]), in, &out[0]);
    }
    // The csr array is broadcast too.
    const DenseCopy lhs(in[0]), product(out[0].shape, out[0].values.type_flag_);
    const TBlob inputs[] = {lhs.blob().values, in[1].values}, outputs[] = {product.blob().values};
    const TShape shapes[] = {in[0].shape, in[1].shape};
    const DType dtypes[] = {inputs[0].type_flag_, inputs[1].type_flag_};
    const OpReqType write[] = {kWriteTo};
    property.CreateOperator(Device::Cpu(), shapes, dtypes)
        ->Forward(OpContext(), inputs, write, outputs);
    CopyParts(product.blob(), kWriteTo, &out[0]);
  }
};

/// A sum of arrays of one storage type.
class SumForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    const auto other =
        std::find_if(in.begin(), in.end(), [&in](StorageType type) { return type != in[0]; });
    if (!IsSparse(in[0]) || other != in.end()) return std::nullopt;
    return StorageTypes{in[0]};
  }
  void Forward(const OperatorProperty&, std::span<SparseBlob> in, std::span<const OpReqType> req,
               std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    // Terms may be the array that the call writes.
    const std::vector<SparseBlob> terms(in.begin(), in.end());
    CopyParts(terms[0], kWriteTo, &out[0]);
    for (size_t i = 1; i < terms.size(); ++i) CopyParts(terms[i], kAddTo, &out[0]);
  }
  std::optional<StorageTypes> InferBackward(const OperatorProperty&,
                                            const BackwardStorage& types) const override {
    if (!IsSparse(types.out_grad[0])) return std::nullopt;
    return StorageTypes(types.in_data.size(), types.out_grad[0]);
  }
  void Backward(const OperatorProperty&, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    for (size_t i = 0; i < req.size(); ++i) CopyParts(values.out_grad[0], req[i], &in_grad[i]);
  }
};

/// Registers a form for each of the operators.
template <typename Form>
void Register(std::span<const char* const> operators) {
  for (const char* const name : operators) RegisterSparseForm(name, std::make_unique<Form>());
}

bool RegisterForms() {
  const char* const maps[] = {"abs",
                              "arcsin",
                              "arcsinh",
                              "arctan",
                              "arctanh",
                              "cbrt",
                              "ceil",
                              "clip",
                              "degrees",
                              "expm1",
                              "fix",
                              "floor",
                              "log1p",
                              "negative",
                              "radians",
                              "relu",
                              "rint",
                              "round",
                              "sign",
                              "sin",
                              "sinh",
                              "sqrt",
                              "square",
                              "tan",
                              "tanh",
                              "trunc",
                              "_contrib_quadratic",
                              "_contrib_round_ste",
                              "_contrib_sign_ste",
                              "_div_scalar",
                              "_equal_scalar",
                              "_greater_equal_scalar",
                              "_greater_scalar",
                              "_lesser_equal_scalar",
                              "_lesser_scalar",
                              "_minus_scalar",
                              "_mul_scalar",
                              "_not_equal_scalar",
                              "_plus_scalar",
                              "_scatter_minus_scalar",
                              "_scatter_plus_scalar"};
  const char* const eithers[] = {"elemwise_sub", "_grad_add", "_hypot", "_maximum", "_minimum"};
  const char *const products[] = {"elemwise_mul"}, *const sums[] = {"elemwise_add", "add_n"};
  const char* const quotients[] = {"_scatter_elemwise_div"};
  const char* const broadcasts[] = {"broadcast_div", "broadcast_mul"};
  Register<MapForm>(maps);
  Register<EitherForm>(eithers);
  Register<ProductForm>(products);
  Register<SumForm>(sums);
  Register<ScatterDivideForm>(quotients);
  Register<BroadcastForm>(broadcasts);
  return true;
}

[[maybe_unused]] const bool kRegistered = RegisterForms();

}  // namespace
}  // namespace tessera
