#ifndef TESSERA_TENSOR_NODE_TEST_UTIL_H_
#define TESSERA_TENSOR_NODE_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/guarded_tensor.h"
#include "tessera/tensor/test_values.h"

namespace tessera {

/// Calls visit(index) for every index into `shape`, in row-major order.
template <int N, typename Visit>
void ForEachIndex(const Shape<N>& shape, const Visit& visit) {
  Shape<N> index{};
  for (index_t i = 0; i < shape.Size(); ++i) {
    index_t rest = i;
    for (int k = N - 1; k >= 0; --k) {
      index[k] = rest % shape[k];
      rest /= shape[k];
    }
    visit(index);
  }
}

/// A tensor of small whole numbers, which every type holds exactly, and the same in double.
template <int N, typename T>
class Sample {
 public:
  explicit Sample(const Shape<N>& shape, GuardedLayout layout = {}, uint64_t stream = 0)
      : Sample(shape,
               RandomValues<int32_t>(shape.Size(), std::is_unsigned_v<T> ? 0 : -9, 9, stream),
               layout) {}
  Sample(const Shape<N>& shape, const std::vector<int32_t>& values, GuardedLayout layout = {})
      : shape_(shape), values_(values.begin(), values.end()), tensor_(shape, layout) {
    Restore();
  }

  Tensor<cpu, N, T>& operator*() { return *tensor_; }
  Tensor<cpu, N, T>* operator->() { return &*tensor_; }
  const Shape<N>& shape() const { return shape_; }

  /// What the element was at first.
  double at(const Shape<N>& index) const {
    index_t i = 0;
    for (int k = 0; k < N; ++k) i = i * shape_[k] + index[k];
    return values_[static_cast<size_t>(i)];
  }
  /// Puts the first values back.
  void Restore() {
    std::vector<T> values;
    for (const double value : values_) values.push_back(static_cast<T>(value));
    tensor_.Set(values);
  }
  /// Expects that each element is now expected(index), to within `relative`.
  void Expect(const std::function<double(const Shape<N>&)>& expected, const std::string& what,
              double relative = 0) const {
    ExpectValues<N, T>(tensor_.values(), shape_, expected, what, relative);
    EXPECT_TRUE(tensor_.GuardsIntact()) << what;
  }

  template <int M, typename V>
  static void ExpectValues(const std::vector<V>& actual, const Shape<M>& shape,
                           const std::function<double(const Shape<M>&)>& expected,
                           const std::string& what, double relative) {
    size_t i = 0;
    bool same = true;
    ForEachIndex(shape, [&](const Shape<M>& index) {
      const double value = static_cast<double>(actual[i++]);
      const double right = expected(index);
      // Equality is asked for apart, since infinities have no difference.
      if (!same || value == right || std::abs(value - right) <= relative * std::abs(right)) return;
      same = std::isnan(value) && std::isnan(right);
      EXPECT_TRUE(same) << what << " element " << index << " is " << value << ", not " << right;
    });
  }

 private:
  Shape<N> shape_;
  std::vector<double> values_;
  GuardedTensor<N, T> tensor_;
};

/// Expects of an expression its shape, and its elements (to within `relative`) in every way in
/// which they can be evaluated: whole rows, packets, single elements; into contiguous and padded
/// memory; alone and inside another expression.
template <int N, typename E>
void ExpectElements(const E& e, const Shape<N>& shape,
                    const std::function<double(const Shape<N>&)>& expected, const std::string& what,
                    double relative = 0) {
  using T = typename E::value_type;
  ASSERT_EQ(e.shape(), shape) << what;
  for (const GuardedLayout& layout :
       {GuardedLayout{}, GuardedLayout{.row_padding = 3, .misalignment = 1}}) {
    Sample<N, T> out(shape, layout, 77);
    *out = e;
    out.Expect(expected, what + ", assigned", relative);
    *out = T(0);
    *out += e;
    out.Expect(expected, what + ", added", relative);
    *out = e * T(1);
    out.Expect(expected, what + ", as an operand", relative);
  }
  // Element by element, whatever the evaluator prefers.
  std::vector<T> elements;
  const Shape<2> flat = shape.FlatTo2D();
  for (index_t y = 0; y < flat[0]; ++y) {
    for (index_t x = 0; x < flat[1]; ++x) elements.push_back(e.Eval(y, x));
  }
  Sample<N, T>::template ExpectValues<N, T>(elements, shape, expected, what + ", Eval", relative);
}

/// The layouts that operands are tried in: contiguous, padded, and padded and misaligned.
inline std::vector<GuardedLayout> OperandLayouts() {
  return {{}, {.row_padding = 3}, {.row_padding = 1, .misalignment = 1}};
}

/// Element types for the tests of nodes that do no arithmetic of their own.
using NodeElementTypes = testing::Types<float, double, half_t, bfloat16_t, int32_t, uint8_t>;

}  // namespace tessera

#endif  // TESSERA_TENSOR_NODE_TEST_UTIL_H_
