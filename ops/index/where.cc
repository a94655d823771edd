// where: elements or rows of one of two arrays, chosen by a condition.
//
//   out[i…] = x[i…] where condition[i…] is not 0, else y[i…]      or condition[i], i the first axis
//   d x[i…] = d out[i…] where condition is not 0, else 0; d y[i…] the other way round
//
// NaN is not 0. A csr condition is read where it stores elements. Shapes: x, y and out of one
// shape; condition of that shape too, or (rows) with the extent of the first axis. Types: x, y and
// out of any one type, condition of any type. Runs on the CPU.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/sparse.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: sums and registration
using base_internal::At;

class WhereProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"condition", "x", "y"}; }
  bool ArgumentHasGradient(int argument) const override { return argument > 0; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& condition = (*in_shape)[0];
    TShape& x = (*in_shape)[1];
    TShape& y = (*in_shape)[2];
    TShape& out = (*out_shape)[0];
    // As in MXNet, the condition comes first: its rank decides about the rule.
    if (!condition.known()) return false;
    if (condition.ndim() != 1) {
      MergeEqualShapes(*this, {{"condition", &condition}, {"x", &x}, {"y", &y}, {"output", &out}});
      return true;
    }
    MergeEqualShapes(*this, {{"x", &x}, {"y", &y}, {"output", &out}});
    if (!x.rank_known()) return false;
    if (x.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": condition has shape ", condition,
                            ", but x is a scalar");
    }
    MergeShape(*this, "condition", &condition, {x[0]});
    x[0] = condition[0];
    y = out = x;
    return x.known();
  }

  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    DType& x = (*in_type)[1];
    MergeType(*this, "y", &(*in_type)[2], x);
    MergeType(*this, "output", &(*out_type)[0], (*in_type)[2]);
    MergeType(*this, "x", &x, (*out_type)[0]);
    MergeType(*this, "y", &(*in_type)[2], x);
    return x != DType::kUnknown && (*in_type)[0] != DType::kUnknown;
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[1], out_data[0]}, {in_data[2], out_data[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }
};

/// Computes out[i] = chosen[i] ? x[i] : y[i] for n elements, as unsigned integers of their size. A
/// null pointer stands for zeros.
template <typename T>
void SelectElements(const bool* chosen, const T* x, const T* y, index_t n, T* out) {
  // Masks in place of branches, which a random condition would mispredict.
  const auto mask = [chosen](index_t i) { return static_cast<T>(-static_cast<T>(chosen[i])); };
  if (x == nullptr) {
    for (index_t i = 0; i < n; ++i) out[i] = static_cast<T>(y[i] & static_cast<T>(~mask(i)));
  } else if (y == nullptr) {
    for (index_t i = 0; i < n; ++i) out[i] = static_cast<T>(x[i] & mask(i));
  } else {
    for (index_t i = 0; i < n; ++i) {
      out[i] = static_cast<T>(y[i] ^ ((x[i] ^ y[i]) & mask(i)));
    }
  }
}

/// Writes or adds rows of x where the condition is not 0, else of y; a null pointer stands for
/// zeros. A row has out's elements for one element of the condition.
class Selection {
 public:
  Selection(const TBlob& condition, const void* x, const void* y, const TBlob& out, OpReqType req)
      : condition_(condition),
        x_(static_cast<const char*>(x)),
        y_(static_cast<const char*>(y)),
        out_(out),
        add_(req == kAddTo),
        size_(DTypeSizeBytes(out.type_flag_)) {}

  void Run() const {
    if (out_.shape_.Size() == 0) return;
    const index_t count = condition_.shape_.Size();
    const index_t width = out_.shape_.Size() / count;
    ParallelFor(count, StepsPerTask(width), [&](index_t begin, index_t end) {
      for (index_t first = begin; first < end; first += kBlock) {
        const index_t n = std::min(kBlock, end - first);
        bool chosen[kBlock];
        ReadCondition(first, n, chosen);
        if (width == 1) {
          WriteElements(first, n, chosen);
        } else {
          for (index_t i = 0; i < n; ++i) WriteRow((first + i) * width, width, chosen[i]);
        }
      }
    });
  }

 private:
  static constexpr index_t kBlock = 256;

  void ReadCondition(index_t first, index_t n, bool* chosen) const {
    VisitDType(condition_.type_flag_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* const values = static_cast<const T*>(condition_.dptr_) + first;
      for (index_t i = 0; i < n; ++i) chosen[i] = values[i] != T(0);
    });
  }

  char* Out(index_t i) const { return static_cast<char*>(out_.dptr_) + i * size_; }

  void WriteRow(index_t first, index_t width, bool chosen) const {
    const char* const source = chosen ? x_ : y_;
    const size_t bytes = static_cast<size_t>(width * size_);
    if (source == nullptr) {
      if (!add_) std::memset(Out(first), 0, bytes);
    } else if (add_) {
      AddElements(source + first * size_, out_.type_flag_, width, Out(first));
    } else if (source + first * size_ != Out(first)) {
      std::memcpy(Out(first), source + first * size_, bytes);
    }
  }

  void WriteElements(index_t first, index_t n, const bool* chosen) const {
    switch (size_) {
      case 1:
        return WriteElementsAs<uint8_t>(first, n, chosen);
      case 2:
        return WriteElementsAs<uint16_t>(first, n, chosen);
      case 4:
        return WriteElementsAs<uint32_t>(first, n, chosen);
      default:
        return WriteElementsAs<uint64_t>(first, n, chosen);
    }
  }
  template <typename T>
  void WriteElementsAs(index_t first, index_t n, const bool* chosen) const {
    const auto elements = [first](const char* data) {
      return data == nullptr ? nullptr : reinterpret_cast<const T*>(data) + first;
    };
    T sums[kBlock];
    T* const to = add_ ? sums : reinterpret_cast<T*>(Out(first));
    SelectElements(chosen, elements(x_), elements(y_), n, to);
    if (add_) AddElements(sums, out_.type_flag_, n, Out(first));
  }

  const TBlob condition_;
  const char* const x_;
  const char* const y_;
  const TBlob out_;
  const bool add_;
  const index_t size_;
};

class WhereOperator final : public Operator {
 public:
  explicit WhereOperator(const NoParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    Selection(in_data[0], in_data[1].dptr_, in_data[2].dptr_, out_data[0], req[0]).Run();
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const void* const g = out_grad[0].dptr_;
    if (req[1] != kNullOp) Selection(in_data[0], g, nullptr, in_grad[1], req[1]).Run();
    if (req[2] != kNullOp) Selection(in_data[0], nullptr, g, in_grad[2], req[2]).Run();
  }
};

/// Writes or adds rows of a matrix: the elements of x where a csr condition is not 0, else those of
/// y. A null pointer stands for zeros.
void SelectStored(const SparseBlob& condition, const void* x, const void* y, const TBlob& out,
                  OpReqType req) {
  const index_t rows = condition.shape[0], width = condition.shape[1];
  const index_t element_bytes = DTypeSizeBytes(out.type_flag_), row_bytes = width * element_bytes;
  std::vector<uint8_t> is_chosen(At(condition.count()));
  VisitDType(condition.values.type_flag_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const values = static_cast<const T*>(condition.values.dptr_);
    for (size_t k = 0; k < is_chosen.size(); ++k) is_chosen[k] = values[k] != T(0);
  });
  const auto part = [](const void* elements, index_t first, size_t bytes, char* to) {
    if (elements == nullptr) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, static_cast<const char*>(elements) + first, bytes);
    }
  };
  ParallelFor(rows, StepsPerTask(width), [&](index_t begin, index_t end) {
    std::vector<char> row(At(row_bytes));
    for (index_t i = begin; i < end && row_bytes > 0; ++i) {
      const index_t first = i * row_bytes;
      part(y, first, row.size(), row.data());
      for (int64_t k = condition.indptr[At(i)]; k < condition.indptr[At(i + 1)]; ++k) {
        const index_t column = condition.indices[At(k)] * element_bytes;
        if (is_chosen[At(k)] != 0) {
          part(x, first + column, At(element_bytes), row.data() + column);
        }
      }
      char* const to = static_cast<char*>(out.dptr_) + first;
      if (req == kAddTo) {
        AddElements(row.data(), out.type_flag_, width, to);
      } else {
        std::memcpy(to, row.data(), row.size());
      }
    }
  });
}

/// where with a csr condition.
class WhereForm final : public SparseForm {
 public:
  std::optional<StorageTypes> Infer(const OperatorProperty&, std::span<const StorageType> in,
                                    std::span<const StorageType>) const override {
    if (in[0] != StorageType::kCsr || in[1] != StorageType::kDefault ||
        in[2] != StorageType::kDefault) {
      return std::nullopt;
    }
    return StorageTypes{StorageType::kDefault};
  }
  void Forward(const OperatorProperty&, std::span<SparseBlob> in, std::span<const OpReqType> req,
               std::span<SparseBlob> out) const override {
    if (req[0] == kNullOp) return;
    SelectStored(in[0], in[1].values.dptr_, in[2].values.dptr_, out[0].values, req[0]);
  }
  std::optional<StorageTypes> InferBackward(const OperatorProperty&,
                                            const BackwardStorage& types) const override {
    if (types.in_data[0] != StorageType::kCsr || types.out_grad[0] != StorageType::kDefault) {
      return std::nullopt;
    }
    return StorageTypes(3, StorageType::kDefault);
  }
  void Backward(const OperatorProperty&, const BackwardBlobs& values,
                std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const override {
    const SparseBlob& condition = values.in_data[0];
    const void* const g = values.out_grad[0].values.dptr_;
    if (req[0] != kNullOp) MoveZeros(in_grad[0].values, req[0], OpContext());
    if (req[1] != kNullOp) SelectStored(condition, g, nullptr, in_grad[1].values, req[1]);
    if (req[2] != kNullOp) SelectStored(condition, nullptr, g, in_grad[2].values, req[2]);
  }
};

[[maybe_unused]] const bool kHasForm = RegisterSparseForm("where", std::make_unique<WhereForm>());
[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<WhereProperty, WhereOperator>(
    TESSERA_TABLE_PLACE, "where", "Elements or rows of one of two arrays, chosen by a condition.",
    TakenTypes::kAny);

}  // namespace
}  // namespace tessera
