// Diagonals and triangles of square matrices as vectors, and back.
//
//   _linalg_extractdiag   out[i] = A[i][i + offset], or A[i - offset][i] with a negative offset
//   _linalg_makediag      the inverse, with zeros elsewhere
//   _linalg_extracttrian  the elements of a triangle: on the diagonal with that offset and beyond;
//                         below it row by row, above it column by column
//   _linalg_maketrian     the inverse, with zeros elsewhere
//
// A triangle is the upper one if the offset is positive or, with offset 0, if `lower` is False.
// Each operator's gradient is its inverse, applied to the head gradient. Shapes: matrices (b…, n,
// n), diagonals (b…, n - |offset|), triangles (b…, k (k + 1) / 2) with k = n - |offset|, which is
// at least 1 unless n is 0. All element types. Runs on the CPU.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/linalg/factors/matrix_call.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: matrices and registration

struct DiagonalParameters {
  int offset = 0;

  static void Declare(ParameterSchema<DiagonalParameters>& schema) {
    schema.Optional("offset", &DiagonalParameters::offset,
                    "the diagonal: above the main one if positive, below if negative");
  }

  index_t distance() const { return std::abs(index_t{offset}); }
  /// Return the length of the vector for n - |offset| = k, and k for a length, or -1.
  static index_t LengthOf(index_t k) { return k; }
  static index_t ExtentOf(index_t length) { return length; }
  /// Returns the places of the vector's elements in an n x n matrix.
  std::vector<index_t> Places(index_t n) const {
    std::vector<index_t> places;
    const index_t first = offset >= 0 ? distance() : distance() * n;
    for (index_t i = 0; i < n - distance(); ++i) places.push_back(first + i * (n + 1));
    return places;
  }
};

struct TriangleParameters {
  int offset = 0;
  bool lower = true;

  static void Declare(ParameterSchema<TriangleParameters>& schema) {
    schema.Optional("offset", &TriangleParameters::offset,
                    "the diagonal at which the triangle begins");
    schema.Optional("lower", &TriangleParameters::lower,
                    "with offset 0, the lower triangle; False for the upper one");
  }

  index_t distance() const { return std::abs(index_t{offset}); }
  static index_t LengthOf(index_t k) { return k * (k + 1) / 2; }
  static index_t ExtentOf(index_t length) {
    auto k = static_cast<index_t>((std::sqrt(8.0 * static_cast<double>(length) + 1) - 1) / 2);
    while (LengthOf(k) < length) ++k;
    return LengthOf(k) == length ? k : -1;
  }
  std::vector<index_t> Places(index_t n) const {
    const bool is_lower = offset < 0 || (offset == 0 && lower);
    std::vector<index_t> places;
    for (index_t i = distance(); i < n; ++i) {
      for (index_t j = 0; j <= i - distance(); ++j)
        places.push_back(is_lower ? i * n + j : j * n + i);
    }
    return places;
  }
};

/// The largest n of which n * n fits in 63 bits.
constexpr index_t kMaxExtent = 3037000499;

template <typename Parameters, bool kMakesMatrix>
class PackingProperty final : public MoveProperty<Parameters> {
 public:
  static constexpr bool kAcceptsAddTo = false;

  std::vector<std::string> ListArguments() const override { return {"A"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const MatrixValue values[] = {{"A", &(*in_shape)[0], kMakesMatrix ? "k" : "nn"},
                                  {"output", &(*out_shape)[0], kMakesMatrix ? "nn" : "k"}};
    InferMatrices(*this, values);
    const MatrixValue &matrix = values[kMakesMatrix ? 1 : 0],
                      &vector = values[kMakesMatrix ? 0 : 1];
    if (!matrix.shape->rank_known()) return false;
    index_t& n = (*matrix.shape)[matrix.shape->ndim() - 1];
    index_t& length = (*vector.shape)[vector.shape->ndim() - 1];
    if (n != TShape::kUnknown) {
      if (n > kMaxExtent || !Leaves(n - this->param_.distance())) Refuse(matrix);
      TShape known = TShape::OfRank(vector.shape->ndim());
      known[known.ndim() - 1] = Parameters::LengthOf(n - this->param_.distance());
      MergeShape(*this, vector.name, vector.shape, known);
    } else if (length != TShape::kUnknown) {
      const index_t k = length > kMaxExtent * (kMaxExtent / 2) ? -1 : Parameters::ExtentOf(length);
      if (!Leaves(k) || k > kMaxExtent - this->param_.distance()) Refuse(vector);
      n = k + this->param_.distance();
    }
    return InferMatrices(*this, values);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }

 private:
  /// Returns whether the offset leaves enough of a matrix: something, unless there was nothing.
  bool Leaves(index_t k) const { return k >= 1 || (k == 0 && this->param_.distance() == 0); }
  [[noreturn]] void Refuse(const MatrixValue& value) const {
    throw InvalidArgument(this->TypeString(), ": ", value.name, " has shape ", *value.shape,
                          ", of which offset=", this->param_.offset, " leaves no ",
                          value.extents == "nn" ? "element" : "square matrix");
  }
};

/// Copies elements between the matrices of a batch and their vectors.
template <typename T>
void MovePlaces(const std::vector<index_t>& places, index_t batch, index_t matrix_size,
                void* matrices, void* vectors, bool to_matrices) {
  const auto length = static_cast<index_t>(places.size());
  ParallelFor(batch, StepsPerTask(length), [&](index_t begin, index_t end) {
    for (index_t b = begin; b < end; ++b) {
      T* const matrix = static_cast<T*>(matrices) + b * matrix_size;
      T* const vector = static_cast<T*>(vectors) + b * length;
      for (index_t i = 0; i < length; ++i) {
        T& element = matrix[places[static_cast<size_t>(i)]];
        if (to_matrices) {
          element = vector[i];
        } else {
          vector[i] = element;
        }
      }
    }
  });
}

template <typename Parameters>
void MoveVectors(const Parameters& param, const TBlob& matrices, const TBlob& vectors,
                 bool to_matrices) {
  if (vectors.Size() == 0) return;
  const index_t n = matrices.shape_[matrices.shape_.ndim() - 1];
  const index_t batch = BatchSize(matrices.shape_, 2);
  const auto move = [&](auto element) {
    MovePlaces<decltype(element)>(param.Places(n), batch, n * n, matrices.dptr_, vectors.dptr_,
                                  to_matrices);
  };
  switch (DTypeSizeBytes(matrices.type_flag_)) {
    case 1:
      return move(uint8_t());
    case 2:
      return move(uint16_t());
    case 4:
      return move(uint32_t());
    default:
      return move(uint64_t());
  }
}

template <typename Parameters>
void Extract(const MoveCall<Parameters>& call, std::span<const TBlob> from,
             std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  MoveVectors(call.param, from[0], to[0], /*to_matrices=*/false);
}
template <typename Parameters>
void Make(const MoveCall<Parameters>& call, std::span<const TBlob> from,
          std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  MoveZeros(to[0], req[0], call.context);
  MoveVectors(call.param, to[0], from[0], /*to_matrices=*/true);
}

[[maybe_unused]] const bool kRegistered[] = {
    RegisterMove<PackingProperty<DiagonalParameters, false>>(
        TESSERA_TABLE_PLACE, "_linalg_extractdiag", "The diagonals of square matrices as vectors.",
        Extract, Make),
    RegisterMove<PackingProperty<DiagonalParameters, true>>(
        TESSERA_TABLE_PLACE, "_linalg_makediag", "Square matrices with vectors on their diagonals.",
        Make, Extract),
    RegisterMove<PackingProperty<TriangleParameters, false>>(
        TESSERA_TABLE_PLACE, "_linalg_extracttrian", "The triangles of square matrices as vectors.",
        Extract, Make),
    RegisterMove<PackingProperty<TriangleParameters, true>>(
        TESSERA_TABLE_PLACE, "_linalg_maketrian", "Square matrices with vectors as triangles.",
        Make, Extract),
};

}  // namespace
}  // namespace tessera
