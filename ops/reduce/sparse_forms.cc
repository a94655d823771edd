// What reductions of all elements do with sparse arrays: the norm and the sum of what is stored.
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

class ReduceAllForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    const bool is_sparse = in[0] == StorageType::kRowSparse || in[0] == StorageType::kCsr;
    if (!is_sparse || !ReducesAll(property)) return std::nullopt;
    return StorageTypes{StorageType::kDefault};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    // Nothing stored counts as one 0.
    double zero = 0;
    TBlob stored = in[0].values, result = out[0].values;
    const bool is_empty = stored.Size() == 0;
    stored.shape_ = TShape{is_empty ? 1 : stored.Size()};
    if (is_empty) stored.dptr_ = &zero;
    result.shape_ = TShape{1};
    property.CreateOperator(Device::Cpu(), {&stored.shape_, 1}, {&stored.type_flag_, 1})
        ->Forward(OpContext(), {&stored, 1}, req, {&result, 1});
  }

 private:
  /// Returns whether no axis is listed.
  static bool ReducesAll(const OperatorProperty& property) {
    const ParameterMap parameters = property.GetParams();
    const std::string& axes = parameters.at("axis");
    const auto exclude = parameters.find("exclude");
    return axes.find_first_of("0123456789") == std::string::npos &&
           (exclude == parameters.end() || exclude->second != "True");
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterSparseForm("norm", std::make_unique<ReduceAllForm>()),
    RegisterSparseForm("sum", std::make_unique<ReduceAllForm>()),
};

}  // namespace
}  // namespace tessera
