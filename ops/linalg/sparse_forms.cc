// What dot does with sparse arrays.
//
// The result of a csr lhs is dense; with transpose_a alone and a dense or row_sparse rhs it is
// row_sparse. That of a dense lhs and a csr rhs without transpose_a is csr. Others are dense.
// forward_stype names another storage type for any of them. These compute from what is stored:
//
//   csr * dense, csr * row_sparse        to dense
//   csr^T * dense, csr^T * row_sparse    to row_sparse and dense
//   dense * csr                          to csr
//
// Others with a sparse result compute on dense copies. The gradient of the rhs of a csr lhs is
// row_sparse, or dense with transpose_a; that of lhs is dense.
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tessera/base/at.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/loops/sparse/sparse_product.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

using base_internal::At;
using ops_internal::DenseCopy;

constexpr StorageType kDense = StorageType::kDefault;

/// The parameters of a call.
struct Call {
  bool transpose_a, transpose_b;
  std::string forward_stype;

  explicit Call(const OperatorProperty& property) {
    const ParameterMap parameters = property.GetParams();
    transpose_a = parameters.at("transpose_a") == "True";
    transpose_b = parameters.at("transpose_b") == "True";
    forward_stype = parameters.at("forward_stype");
  }

  /// Returns whether the call reads a csr lhs by what it stores.
  bool ReadsCsr(StorageType lhs, StorageType rhs) const {
    return lhs == StorageType::kCsr && rhs != StorageType::kCsr && !transpose_b;
  }

  /// Returns the storage type of the result.
  StorageType Result(StorageType lhs, StorageType rhs) const {
    for (const StorageType type : {kDense, StorageType::kRowSparse, StorageType::kCsr}) {
      if (forward_stype == StorageTypeName(type)) return type;
    }
    if (transpose_a) return ReadsCsr(lhs, rhs) ? StorageType::kRowSparse : kDense;
    return lhs == kDense && rhs == StorageType::kCsr ? StorageType::kCsr : kDense;
  }
};

/// Computes the product of dense copies.
void MultiplyCopies(const OperatorProperty& property, std::span<const SparseBlob> in,
                    SparseBlob* out) {
  std::optional<DenseCopy> copies[2];
  TBlob values[2];
  TShape shapes[2];
  DType dtypes[2];
  for (int i = 0; i < 2; ++i) {
    if (in[At(i)].storage != kDense) copies[i].emplace(in[At(i)]);
    values[i] = copies[i] ? copies[i]->blob().values : in[At(i)].values;
    shapes[i] = in[At(i)].shape;
    dtypes[i] = values[i].type_flag_;
  }
  const DenseCopy product(out->shape, dtypes[0]);
  const OpReqType write = kWriteTo;
  property.CreateOperator(Device::Cpu(), shapes, dtypes)
      ->Forward(OpContext(), values, {&write, 1}, {&product.blob().values, 1});
  ops_internal::CopyParts(product.blob(), kWriteTo, out);
}

class DotForm final : public SparseForm {
 public:
  bool MakesSparse(const OperatorProperty& property) const override {
    return Call(property).Result(kDense, kDense) != kDense;
  }

  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    const Call call(property);
    const StorageType result = call.Result(in[0], in[1]);
    if (result == kDense && !call.ReadsCsr(in[0], in[1])) return std::nullopt;
    return StorageTypes{result};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    const Call call(property);
    const StorageType result = out[0].storage;
    if (call.ReadsCsr(in[0].storage, in[1].storage)) {
      if (!call.transpose_a && result == kDense) {
        return ops_internal::MultiplyCsr(in[0], in[1], req[0], out[0].values);
      }
      if (call.transpose_a && result != StorageType::kCsr) {
        return ops_internal::MultiplyTransposedCsr(in[0], in[1], req[0], &out[0]);
      }
    }
    if (in[0].storage == kDense && in[1].storage == StorageType::kCsr && !call.transpose_a &&
        !call.transpose_b && result == StorageType::kCsr) {
      return ops_internal::MultiplyByCsr(in[0].values, in[1], &out[0]);
    }
    MultiplyCopies(property, in, &out[0]);
  }

  std::optional<StorageTypes> InferBackward(const OperatorProperty& property,
                                            const BackwardStorage& types) const override {
    const Call call(property);
    if (!call.ReadsCsr(types.in_data[0], types.in_data[1]) ||
        types.out_grad[0] == StorageType::kCsr ||
        (types.out_grad[0] == StorageType::kRowSparse && !call.transpose_a)) {
      return std::nullopt;
    }
    return StorageTypes{kDense, call.transpose_a ? kDense : StorageType::kRowSparse};
  }

  void Backward(const OperatorProperty& property, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    const SparseBlob& lhs = values.in_data[0];
    const SparseBlob& head = values.out_grad[0];
    if (req[1] != kNullOp) {
      if (Call(property).transpose_a) {
        ops_internal::MultiplyCsr(lhs, head, req[1], in_grad[1].values);
      } else {
        ops_internal::MultiplyTransposedCsr(lhs, head, req[1], &in_grad[1]);
      }
    }
    if (req[0] == kNullOp) return;
    // The gradient of lhs reads no more of lhs than the shape; the others are to be dense.
    const SparseBlob& rhs = values.in_data[1];
    std::optional<DenseCopy> rhs_copy, head_copy;
    if (rhs.storage != kDense) rhs_copy.emplace(rhs);
    if (head.storage != kDense) head_copy.emplace(head);
    const TBlob dense_head = head_copy ? head_copy->blob().values : head.values;
    const DType dtype = dense_head.type_flag_;
    const TBlob shape_of_lhs(nullptr, lhs.shape, dtype, dense_head.device_);
    const TShape shapes[] = {lhs.shape, rhs.shape};
    const DType dtypes[] = {dtype, dtype};
    const TBlob in_data[] = {shape_of_lhs, rhs_copy ? rhs_copy->blob().values : rhs.values},
                gradients[] = {in_grad[0].values, TBlob()};
    const OpReqType requests[] = {req[0], kNullOp};
    property.CreateOperator(Device::Cpu(), shapes, dtypes)
        ->Backward(OpContext(), {&dense_head, 1}, in_data, {}, requests, gradients);
  }
};

[[maybe_unused]] const bool kRegistered = RegisterSparseForm("dot", std::make_unique<DotForm>());

}  // namespace
}  // namespace tessera
