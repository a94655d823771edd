// What dot does with sparse arrays.
//
// The product of a csr lhs is dense; with transpose_a it is row_sparse, unless forward_stype is
// default. The gradient of rhs is row_sparse, or dense with transpose_a; that of lhs is dense. rhs
// is dense, or row_sparse without transpose_a. transpose_b has no form.
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/loops/sparse_parts.h"
#include "tessera/ops/loops/sparse_product.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

/// The parameters of a call.
struct Call {
  bool transpose_a, transpose_b, wants_dense;

  explicit Call(const OperatorProperty& property) {
    const ParameterMap parameters = property.GetParams();
    transpose_a = parameters.at("transpose_a") == "True";
    transpose_b = parameters.at("transpose_b") == "True";
    wants_dense = parameters.at("forward_stype") == "default";
  }

  /// Returns whether the form computes with arrays of these storage types.
  bool Takes(std::span<const StorageType> in) const {
    if (transpose_b || in[0] != StorageType::kCsr) return false;
    return in[1] == StorageType::kDefault || (in[1] == StorageType::kRowSparse && !transpose_a);
  }
};

class DotForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    const Call call(property);
    if (!call.Takes(in)) return std::nullopt;
    const bool is_sparse = call.transpose_a && !call.wants_dense;
    return StorageTypes{is_sparse ? StorageType::kRowSparse : StorageType::kDefault};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (Call(property).transpose_a) {
      ops_internal::MultiplyTransposedCsr(in[0], in[1].values, req[0], &out[0]);
    } else {
      ops_internal::MultiplyCsr(in[0], in[1], req[0], out[0].values);
    }
  }

  std::optional<StorageTypes> InferBackward(const OperatorProperty& property,
                                            const BackwardStorage& types) const override {
    const Call call(property);
    if (!call.Takes(types.in_data) || types.out_grad[0] != StorageType::kDefault) {
      return std::nullopt;
    }
    return StorageTypes{StorageType::kDefault,
                        call.transpose_a ? StorageType::kDefault : StorageType::kRowSparse};
  }

  void Backward(const OperatorProperty& property, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    const SparseBlob& lhs = values.in_data[0];
    const TBlob& head = values.out_grad[0].values;
    if (req[1] != kNullOp) {
      if (Call(property).transpose_a) {
        ops_internal::MultiplyCsr(lhs, values.out_grad[0], req[1], in_grad[1].values);
      } else {
        ops_internal::MultiplyTransposedCsr(lhs, head, req[1], &in_grad[1]);
      }
    }
    if (req[0] == kNullOp) return;
    // Of lhs, its gradient reads the shape alone; rhs is to be dense.
    const SparseBlob& rhs = values.in_data[1];
    std::optional<ops_internal::DenseCopy> copy;
    if (rhs.storage != StorageType::kDefault) copy.emplace(rhs);
    const TBlob shape_of_lhs(nullptr, lhs.shape, head.type_flag_, head.device_);
    const TShape shapes[] = {lhs.shape, rhs.shape};
    const DType dtypes[] = {head.type_flag_, head.type_flag_};
    const TBlob in_data[] = {shape_of_lhs, copy ? copy->blob().values : rhs.values},
                gradients[] = {in_grad[0].values, TBlob()};
    const OpReqType requests[] = {req[0], kNullOp};
    property.CreateOperator(Device::Cpu(), shapes, dtypes)
        ->Backward(OpContext(), {&head, 1}, in_data, {}, requests, gradients);
  }
};

[[maybe_unused]] const bool kRegistered = RegisterSparseForm("dot", std::make_unique<DotForm>());

}  // namespace
}  // namespace tessera
