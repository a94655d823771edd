// What operators that move elements do with sparse arrays: cast_storage, _copy, _copyto, Cast,
// BlockGrad, make_loss, _zeros and zeros_like. Their gradients keep the storage type of the head
// gradient; that of make_loss is dense.
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/error.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using ops_internal::CanCopyParts;
using ops_internal::ClearParts;
using ops_internal::CopyParts;

bool IsSparse(StorageType type) {
  return type == StorageType::kRowSparse || type == StorageType::kCsr;
}

/// Copies of the first input.
class CopyForm : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType> out) const override {
    const StorageType to = out[0] == StorageType::kUndefined ? in[0] : out[0];
    return CanCopyParts(in[0], to) ? std::optional<StorageTypes>({to}) : std::nullopt;
  }
  void Forward(const OperatorProperty&, std::span<SparseBlob> in, std::span<const OpReqType> req,
               std::span<SparseBlob> out) const override {
    CopyParts(in[0], req[0], &out[0]);
  }
  std::optional<StorageTypes> InferBackward(const OperatorProperty&,
                                            const BackwardStorage& types) const override {
    if (!IsSparse(types.out_grad[0])) return std::nullopt;
    return StorageTypes{types.out_grad[0]};
  }
  void Backward(const OperatorProperty&, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    CopyParts(values.out_grad[0], req[0], &in_grad[0]);
  }
};

/// A copy in the storage type that a parameter names.
class CastStorageForm final : public CopyForm {
 public:
  bool MakesSparse(const OperatorProperty& property) const override {
    return TypeOf(property) != StorageType::kDefault;
  }
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    const StorageType to = TypeOf(property);
    return CanCopyParts(in[0], to) ? std::optional<StorageTypes>({to}) : std::nullopt;
  }

 private:
  static StorageType TypeOf(const OperatorProperty& property) {
    const std::string name = property.GetParams().at("stype");
    for (const StorageType type : {StorageType::kRowSparse, StorageType::kCsr}) {
      if (name == StorageTypeName(type)) return type;
    }
    return StorageType::kDefault;
  }
};

/// Zeros in the storage type of the first input, or of the caller's output.
class ZerosForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType> out) const override {
    const StorageType to = out[0] != StorageType::kUndefined || in.empty() ? out[0] : in[0];
    return IsSparse(to) ? std::optional<StorageTypes>({to}) : std::nullopt;
  }
  void Forward(const OperatorProperty&, std::span<SparseBlob>, std::span<const OpReqType> req,
               std::span<SparseBlob> out) const override {
    if (req[0] == kWriteTo || req[0] == kWriteInplace) ClearParts(&out[0]);
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterSparseForm("BlockGrad", std::make_unique<CopyForm>()),
    RegisterSparseForm("_copy", std::make_unique<CopyForm>()),
    RegisterSparseForm("_copyto", std::make_unique<CopyForm>()),
    RegisterSparseForm("Cast", std::make_unique<CopyForm>()),
    RegisterSparseForm("make_loss", std::make_unique<CopyForm>()),
    RegisterSparseForm("cast_storage", std::make_unique<CastStorageForm>()),
    RegisterSparseForm("_zeros", std::make_unique<ZerosForm>()),
    RegisterSparseForm("zeros_like", std::make_unique<ZerosForm>()),
};

}  // namespace
}  // namespace tessera
