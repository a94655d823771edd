#include "tessera/ops/loops/matrix_product.h"

#include <string>
#include <type_traits>

#include "tessera/base/error.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/loops/gemm_arguments.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

bool IsEmpty(const MatrixBatch& batch) {
  return batch.outer == 0 || batch.rows == 0 || batch.inner == 0 || batch.columns == 0;
}

/// The matrix of a product, whose elements an epilogue takes when they are finished.
struct FinishedMatrix {
  const Epilogue* epilogue;
  index_t first;       ///< the number of its first element in the call's output
  index_t row_stride;  ///< elements from row to row

  void Run(index_t row, index_t rows, index_t column, index_t columns) const {
    epilogue->Run({.first = first + row * row_stride + column,
                   .run = columns,
                   .count = rows,
                   .stride = row_stride});
  }
  /// Returns this as the end of the product, which must not outlive it.
  tensor_internal::ProductEnd End() const {
    if (epilogue == nullptr) return {};
    return {[](const void* context, index_t row, index_t rows, index_t column, index_t columns) {
              static_cast<const FinishedMatrix*>(context)->Run(row, rows, column, columns);
            },
            this};
  }
};

template <typename T>
void MultiplyOnCpu(const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& c, double alpha,
                   bool add, const Epilogue* epilogue) {
  const GemmProducts<T> products = ProductsOf<T>(a, b, c, alpha, add);
  const index_t inner = products.batch.count, count = products.outer.count * inner;
  const index_t grain =
      tensor_internal::ProductsPerTask(products.first.m, products.first.n, products.first.k, count);
  ParallelFor(count, grain, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const tensor_internal::GemmArguments<T> product =
          tensor_internal::ProductOf(products.FirstOf(i / inner), products.batch, i % inner);
      const FinishedMatrix matrix = {epilogue, product.c - static_cast<const T*>(c.data),
                                     product.ldc};
      if constexpr (std::is_same_v<T, float>) {
        tensor_internal::Gemm(product, matrix.End());
      } else {
        tensor_internal::Gemm(product);
        if (epilogue != nullptr) matrix.Run(0, product.m, 0, product.n);
      }
    }
  });
}

}  // namespace

MatrixBatch MatrixBatch::At(const TBlob& blob) const {
  MatrixBatch batch = *this;
  batch.data = blob.dptr_;
  return batch;
}

MatrixBatch MatrixBatch::T() const {
  MatrixBatch batch = *this;
  batch.transposed = !transposed;
  return batch;
}

MatrixBatch MatricesOf(const TShape& shape, int row_axis, bool transposed) {
  const int last = shape.ndim() - 1;
  return {.outer = shape.ProdShape(0, row_axis),
          .rows = shape[row_axis],
          .inner = shape.ProdShape(row_axis + 1, last),
          .columns = shape[last],
          .transposed = transposed};
}

MatrixBatch MatrixOf(const TShape& shape, int split, bool transposed) {
  return {.rows = shape.ProdShape(0, split),
          .columns = shape.ProdShape(split, shape.ndim()),
          .transposed = transposed};
}

void MultiplyMatrices(const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& c,
                      double alpha, DType dtype, OpReqType req, Device device,
                      const OpContext& context) {
  // The number of empty products may be huge.
  if (req == kNullOp || IsEmpty(c)) return;
  if (c.transposed) {
    return MultiplyMatrices(b.T(), a.T(), c.T(), alpha, dtype, req, device, context);
  }
  const bool add = req == kAddTo;
  if (device.type == DeviceType::kGpu) {
    const MultiplyOnGpu multiply = GetMultiplyOnGpu();
    if (multiply == nullptr) {
      throw Unimplemented("a product of matrices on ", device, " is not in this build");
    }
    multiply(a, b, c, alpha, dtype, add, context.get_stream<gpu>());
    return;
  }
  VisitRealDType(dtype, "a product of matrices", [&](auto tag) {
    MultiplyOnCpu<typename decltype(tag)::type>(a, b, c, alpha, add, context.epilogue);
  });
}

MatrixProductOperator::MatrixProductOperator(const MatrixBatch& a, const MatrixBatch& b,
                                             double alpha)
    : a_(a), b_(b), out_(a), alpha_(alpha) {
  out_.rows = a.transposed ? a.columns : a.rows;
  out_.columns = b.transposed ? b.rows : b.columns;
  out_.transposed = false;
}

void MatrixProductOperator::Forward(const OpContext& context, std::span<const TBlob> in_data,
                                    std::span<const OpReqType> req,
                                    std::span<const TBlob> out_data) {
  if (req[0] == kNullOp) return;
  const TBlob& out = out_data[0];
  if (const void* const packed = context.prepared_input(1)) {
    const auto product = ProductsOf<float>(a_.At(in_data[0]), b_.At(in_data[1]), out_.At(out),
                                           alpha_, req[0] == kAddTo)
                             .first;
    const FinishedMatrix matrix = {context.epilogue, 0, product.ldc};
    GemmPackedRight(product, {static_cast<const float*>(packed), RightPacking(product)},
                    matrix.End());
    return;
  }
  MultiplyMatrices(a_.At(in_data[0]), b_.At(in_data[1]), out_.At(out), alpha_, out.type_flag_,
                   req[0], out.device_, context);
}

PreparedForm MatrixProductOperator::InputForm(int input, Device device, std::span<const TShape>,
                                              std::span<const DType> in_type) const {
  if (input != 1 || device.type == DeviceType::kGpu || in_type[1] != DType::kFloat32) return {};
  const GemmProducts<float> products = ProductsOf<float>(a_, b_, out_, alpha_, false);
  const tensor_internal::GemmArguments<float>& product = products.first;
  if (products.batch.count != 1 || products.outer.count != 1 || IsEmpty(out_)) return {};
  const int packing = RightPacking(product);
  if (packing == 0) return {};
  const auto pack = [product, packing](const OpContext&, const TBlob& b, void* to) {
    tensor_internal::GemmArguments<float> of_b = product;
    of_b.b = static_cast<const float*>(b.dptr_);
    PackRight(of_b, packing, static_cast<float*>(to));
  };
  return {.name = std::string(product.transpose_b ? "transposed " : "") + "right operand " +
                  std::to_string(product.k) + " x " + std::to_string(product.n) + ", packed for " +
                  std::to_string(packing),
          .size_bytes = tensor_internal::PackedRightSize(product.n, product.k) *
                        static_cast<index_t>(sizeof(float)),
          .make = pack};
}

void MatrixProductOperator::Backward(const OpContext& context, std::span<const TBlob> out_grad,
                                     std::span<const TBlob> in_data, std::span<const TBlob>,
                                     std::span<const OpReqType> req,
                                     std::span<const TBlob> in_grad) {
  const TBlob& head = out_grad[0];
  const MatrixBatch g = out_.At(head);
  MultiplyMatrices(g, b_.At(in_data[1]).T(), a_.At(in_grad[0]), alpha_, head.type_flag_, req[0],
                   head.device_, context);
  MultiplyMatrices(a_.At(in_data[0]).T(), g, b_.At(in_grad[1]), alpha_, head.type_flag_, req[1],
                   head.device_, context);
}

void MeetExtents(const OperatorProperty& property, const NamedAxis& a, const NamedAxis& b) {
  TShape known = TShape::OfRank(b.shape->ndim());
  known[b.axis] = (*a.shape)[a.axis];
  MergeShape(property, b.name, b.shape, known);
  (*a.shape)[a.axis] = (*b.shape)[b.axis];
}

MultiplyOnGpu& GetMultiplyOnGpu() {
  static MultiplyOnGpu multiply = nullptr;
  return multiply;
}

}  // namespace tessera::ops_internal
