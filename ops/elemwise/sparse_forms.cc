// What element-wise operators do with sparse arrays: functions of one array that keep 0, and sums.
//
// A function that keeps 0 computes on the stored elements; its gradient is computed on dense
// arrays. Sums store the rows or elements of all terms.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/ops/loops/sparse_parts.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using ops_internal::CopyParts;

bool IsSparse(StorageType type) {
  return type == StorageType::kRowSparse || type == StorageType::kCsr;
}

/// A function f of one array, f(0) = 0.
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
    if (req[0] == kNullOp) return;
    // The call may write the array that it reads.
    const SparseBlob from = in[0];
    SparseBlob& to = out[0];
    to.Allocate(from.count());
    std::copy(from.indices.begin(), from.indices.end(), to.indices.begin());
    std::copy(from.indptr.begin(), from.indptr.end(), to.indptr.begin());
    const OpReqType write[] = {kWriteTo};
    property.CreateOperator(Device::Cpu(), {&from.values.shape_, 1}, {&from.values.type_flag_, 1})
        ->Forward(OpContext(), {&from.values, 1}, write, {&to.values, 1});
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
    if (property.RegisteredName() == "clip") return number("a_min") <= 0 && number("a_max") >= 0;
    const double scalar = number("scalar");
    // 0 / 0 and 0 * infinity are no numbers.
    if (property.RegisteredName() == "_div_scalar") return scalar != 0;
    const std::pair<std::string_view, bool> comparisons_of_zero[] = {
        {"_equal_scalar", 0 == scalar},  {"_not_equal_scalar", 0 != scalar},
        {"_greater_scalar", 0 > scalar}, {"_greater_equal_scalar", 0 >= scalar},
        {"_lesser_scalar", 0 < scalar},  {"_lesser_equal_scalar", 0 <= scalar}};
    for (const auto& [name, holds] : comparisons_of_zero) {
      if (property.RegisteredName() == name) return !holds;
    }
    return std::isfinite(scalar);
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
};

bool RegisterForms() {
  for (const char* const name :
       {"_mul_scalar", "_div_scalar", "negative", "abs",   "sign",   "rint",    "ceil",
        "floor",       "trunc",       "fix",      "round", "square", "sqrt",    "cbrt",
        "relu",        "clip",        "sin",      "tan",   "arcsin", "arctan",  "sinh",
        "tanh",        "arcsinh",     "arctanh",  "expm1", "log1p",  "degrees", "radians"}) {
    RegisterSparseForm(name, std::make_unique<MapForm>());
  }
  for (const char* const name :
       {"_equal_scalar", "_not_equal_scalar", "_greater_scalar", "_greater_equal_scalar",
        "_lesser_scalar", "_lesser_equal_scalar"}) {
    RegisterSparseForm(name, std::make_unique<MapForm>());
  }
  for (const char* const name : {"elemwise_add", "add_n"}) {
    RegisterSparseForm(name, std::make_unique<SumForm>());
  }
  return true;
}

[[maybe_unused]] const bool kRegistered = RegisterForms();

}  // namespace
}  // namespace tessera
