// What reductions do with sparse arrays, from what these store.
//
//   norm          of all elements
//   sum, mean     of all elements; of the rows or columns of a csr matrix
//   _square_sum   of the rows or columns of a row_sparse matrix: d data[i][j] = 2 g data[i][j];
//                 with keepdims, the sums of its rows are a row_sparse matrix (n, 1)
//
// Other results are dense. Floating-point sums along axes are made in double, others in int64; each
// has one order, whatever the number of threads is. Gradients of norm, sum and mean are dense.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/reduce.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/loops/sparse/sparse_pattern.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

using base_internal::At;
using ops_internal::DenseCopy;
using ops_internal::FinishTotal;
using ops_internal::LoadRow;
using ops_internal::ReducedAxes;
using ops_internal::ReduceFinish;
using ops_internal::SparsePattern;
using ops_internal::StoreRow;

/// Elements that are converted at a time.
constexpr index_t kBlock = 256;

bool IsSparse(StorageType type) {
  return type == StorageType::kRowSparse || type == StorageType::kCsr;
}

/// Returns whether no axis is listed, so that all elements are reduced whatever the rank is.
bool ReducesAll(const OperatorProperty& property) {
  const ParameterMap parameters = property.GetParams();
  const std::string& axes = parameters.at("axis");
  const auto exclude = parameters.find("exclude");
  return axes.find_first_of("0123456789") == std::string::npos &&
         (exclude == parameters.end() || exclude->second != "True");
}

/// Returns the axes of a matrix that a call reduces; nothing if a matrix has no such axes.
std::optional<ReducedAxes> AxesOfMatrix(const OperatorProperty& property) {
  const ParameterMap parameters = property.GetParams();
  using Axes = ops_internal::ParameterText<std::optional<std::vector<int>>>;
  const auto axes = Axes::Parse(parameters.at("axis")).value_or(std::vector<int>());
  for (const int axis : axes) {
    if (axis < -2 || axis >= 2) return std::nullopt;
  }
  return ops_internal::FindAxes(property.TypeString(), axes, parameters.at("exclude") == "True", 2);
}

/// Returns the address of element i.
char* Element(const TBlob& blob, index_t i) {
  return static_cast<char*>(blob.dptr_) + i * DTypeSizeBytes(blob.type_flag_);
}

/// Calls visit(k, element k as T) for elements [begin, end), in their order.
template <typename T, typename Visit>
void ForEachElement(const TBlob& values, index_t begin, index_t end, const Visit& visit) {
  T block[kBlock];
  for (index_t first = begin; first < end; first += kBlock) {
    const index_t n = std::min(kBlock, end - first);
    LoadRow(Element(values, first), values.type_flag_, 1, n, block);
    for (index_t k = 0; k < n; ++k) visit(first + k, block[k]);
  }
}

/// Calls function(zero) with a zero of the type in which elements of `dtype` are summed.
template <typename Function>
void WithSumType(DType dtype, const Function& function) {
  IsReal(dtype) ? function(0.0) : function(int64_t{0});
}

/// Computes the operator on all elements that are stored, as one array.
void ReduceStored(const OperatorProperty& property, const SparseBlob& in, OpReqType req,
                  const TBlob& out) {
  // Nothing stored counts as one 0.
  double zero = 0;
  TBlob stored = in.values, result = out;
  const bool is_empty = stored.Size() == 0;
  stored.shape_ = TShape{is_empty ? 1 : stored.Size()};
  if (is_empty) stored.dptr_ = &zero;
  result.shape_ = TShape{1};
  property.CreateOperator(Device::Cpu(), {&stored.shape_, 1}, {&stored.type_flag_, 1})
      ->Forward(OpContext(), {&stored, 1}, {&req, 1}, {&result, 1});
}

class NormForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (!IsSparse(in[0]) || !ReducesAll(property)) return std::nullopt;
    return StorageTypes{StorageType::kDefault};
  }
  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] != kNullOp) ReduceStored(property, in[0], req[0], out[0].values);
  }
};

/// sum and mean.
class SumForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (!IsSparse(in[0])) return std::nullopt;
    const std::optional<ReducedAxes> axes = AxesOfMatrix(property);
    const bool fits =
        in[0] == StorageType::kCsr ? axes && ((*axes)[0] || (*axes)[1]) : ReducesAll(property);
    if (!fits) return std::nullopt;
    return StorageTypes{StorageType::kDefault};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    const SparseBlob& from = in[0];
    const TBlob& to = out[0].values;
    const bool is_mean = property.RegisteredName() == "mean";
    ReducedAxes axes = {true, true};
    if (from.storage == StorageType::kCsr) axes = *AxesOfMatrix(property);
    if (!is_mean && ReducesAll(property)) return ReduceStored(property, from, req[0], to);
    const index_t count = axes[0] && axes[1] ? from.shape.Size() : from.shape[axes[0] ? 0 : 1];
    WithSumType(to.type_flag_, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> sums(At(to.Size()), zero);
      if (axes[0] && axes[1]) {
        ForEachElement<T>(from.values, 0, from.values.Size(),
                          [&sums](index_t, T element) { sums[0] += element; });
      } else if (axes[0]) {
        ForEachElement<T>(from.values, 0, from.count(),
                          [&](index_t k, T element) { sums[At(from.indices[At(k)])] += element; });
      } else {
        const index_t rows = from.shape[0];
        const index_t work = rows == 0 ? 1 : from.count() / rows + 1;
        ParallelFor(rows, StepsPerTask(work), [&](index_t begin, index_t end) {
          for (index_t i = begin; i < end; ++i) {
            ForEachElement<T>(from.values, from.indptr[At(i)], from.indptr[At(i + 1)],
                              [&](index_t, T element) { sums[At(i)] += element; });
          }
        });
      }
      if (is_mean) {
        for (T& sum : sums) sum = FinishTotal(sum, ReduceFinish::kDivide, count);
      }
      StoreRow(sums.data(), to.Size(), req[0] == kAddTo, to.type_flag_, to.dptr_);
    });
  }
};

class SquareSumForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                    std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (in[0] != StorageType::kRowSparse) return std::nullopt;
    return StorageTypes{KeepsRows(property) ? StorageType::kRowSparse : StorageType::kDefault};
  }

  void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
               std::span<const OpReqType> req, std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    const SparseBlob& from = in[0];
    if (!IsOfMatrix(property, from)) return ForwardOnDense(property, from, req[0], &out[0]);
    const ReducedAxes axes = *AxesOfMatrix(property);
    const bool has_rows = out[0].storage == StorageType::kRowSparse;
    if (has_rows) SparsePattern(from).Allocate(&out[0]);
    const TBlob& to = out[0].values;
    const index_t width = from.width();
    WithSumType(to.type_flag_, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> sums(At(to.Size()), zero);
      ForEachElement<T>(from.values, 0, from.values.Size(), [&](index_t k, T element) {
        index_t sum = 0;
        if (!axes[1]) {
          sum = k % width;
        } else if (!axes[0]) {
          sum = has_rows ? k / width : from.indices[At(k / width)];
        }
        sums[At(sum)] += element * element;
      });
      StoreRow(sums.data(), to.Size(), req[0] == kAddTo, to.type_flag_, to.dptr_);
    });
  }

  std::optional<StorageTypes> InferBackward(const OperatorProperty& property,
                                            const BackwardStorage& types) const override {
    const bool takes_head = types.out_grad[0] == StorageType::kDefault ||
                            (types.out_grad[0] == StorageType::kRowSparse && KeepsRows(property));
    if (types.in_data[0] != StorageType::kRowSparse || !takes_head) return std::nullopt;
    return StorageTypes{StorageType::kRowSparse};
  }

  void Backward(const OperatorProperty& property, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    if (req[0] == kNullOp) return;
    const SparseBlob& data = values.in_data[0];
    if (!IsOfMatrix(property, data)) return BackwardOnDense(property, values, &in_grad[0]);
    const ReducedAxes axes = *AxesOfMatrix(property);
    TBlob head = values.out_grad[0].values;
    std::unique_ptr<char[]> memory;
    if (axes[1] && !axes[0]) {
      // One head gradient for each row that is stored.
      SparseBlob rows = data, heads = values.out_grad[0];
      rows.shape = heads.shape = TShape{data.shape[0], 1};
      head = SparsePattern(rows).Pack(heads, &memory);
    }
    SparsePattern(data).Allocate(&in_grad[0]);
    const TBlob& to = in_grad[0].values;
    const index_t width = data.width();
    WithSumType(to.type_flag_, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> heads(At(head.Size()));
      LoadRow(head.dptr_, head.type_flag_, 1, head.Size(), heads.data());
      ParallelFor(to.Size(), StepsPerTask(1), [&](index_t begin, index_t end) {
        T block[kBlock];
        for (index_t first = begin; first < end; first += kBlock) {
          const index_t n = std::min(kBlock, end - first);
          LoadRow(Element(data.values, first), to.type_flag_, 1, n, block);
          for (index_t k = 0; k < n; ++k) {
            const index_t i = !axes[1] ? (first + k) % width : axes[0] ? 0 : (first + k) / width;
            block[k] *= 2 * heads[At(i)];
          }
          StoreRow(block, n, /*add=*/false, to.type_flag_, Element(to, first));
        }
      });
    });
  }

 private:
  /// Returns whether the sums of rows are a row_sparse matrix.
  static bool KeepsRows(const OperatorProperty& property) {
    const std::optional<ReducedAxes> axes = AxesOfMatrix(property);
    return axes && (*axes)[1] && !(*axes)[0] && property.GetParams().at("keepdims") == "True";
  }

  /// Returns whether rows, columns or all elements of a matrix are reduced. Other calls compute on
  /// dense arrays.
  static bool IsOfMatrix(const OperatorProperty& property, const SparseBlob& data) {
    if (data.shape.ndim() != 2) return false;
    const std::optional<ReducedAxes> axes = AxesOfMatrix(property);
    return axes && ((*axes)[0] || (*axes)[1]);
  }

  static void ForwardOnDense(const OperatorProperty& property, const SparseBlob& in, OpReqType req,
                             SparseBlob* out) {
    const DenseCopy data(in), sums(out->shape, out->values.type_flag_);
    const bool is_dense = out->storage == StorageType::kDefault;
    const TBlob& from = data.blob().values;
    const TBlob& to = is_dense ? out->values : sums.blob().values;
    property.CreateOperator(Device::Cpu(), {&from.shape_, 1}, {&from.type_flag_, 1})
        ->Forward(OpContext(), {&from, 1}, {&req, 1}, {&to, 1});
    if (!is_dense) ops_internal::CopyParts(sums.blob(), kWriteTo, out);
  }
  static void BackwardOnDense(const OperatorProperty& property, const BackwardBlobs& values,
                              SparseBlob* gradient) {
    const DenseCopy data(values.in_data[0]), sum(gradient->shape, gradient->values.type_flag_);
    std::vector<DenseCopy> copies;
    const auto dense = [&copies](const SparseBlob& array) {
      if (array.storage == StorageType::kDefault) return array.values;
      copies.emplace_back(array);
      return copies.back().blob().values;
    };
    const TBlob head = dense(values.out_grad[0]), out = dense(values.out_data[0]);
    const TBlob& from = data.blob().values;
    const OpReqType write[] = {kWriteTo};
    property.CreateOperator(Device::Cpu(), {&from.shape_, 1}, {&from.type_flag_, 1})
        ->Backward(OpContext(), {&head, 1}, {&from, 1}, {&out, 1}, write, {&sum.blob().values, 1});
    ops_internal::CopyParts(sum.blob(), kWriteTo, gradient);
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterSparseForm("mean", std::make_unique<SumForm>()),
    RegisterSparseForm("norm", std::make_unique<NormForm>()),
    RegisterSparseForm("sum", std::make_unique<SumForm>()),
    RegisterSparseForm("_square_sum", std::make_unique<SquareSumForm>()),
};

}  // namespace
}  // namespace tessera
