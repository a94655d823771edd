#ifndef TESSERA_TENSOR_TESTING_NODE_TEST_UTIL_H_
#define TESSERA_TENSOR_TESTING_NODE_TEST_UTIL_H_

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

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

/// Returns `count` integers in [low, 9], as RandomValues draws them.
std::vector<double> RandomWholeNumbers(index_t count, int low, uint64_t stream);

/// Expects that `actual`, in row-major order, equals expected(index) at each index into `shape`, to
/// within `relative`. It is compiled once for all types.
void ExpectValues(std::span<const index_t> shape, const std::vector<double>& actual,
                  const std::function<double(const index_t*)>& expected, const std::string& what,
                  const char* how, double relative);

/// Expects that `actual` equals expected(index) at each index into a Shape, to within `relative`,
/// for elements of any type.
template <int N, typename T>
void ExpectValues(const Shape<N>& shape, const std::vector<T>& actual,
                  const std::function<double(const Shape<N>&)>& expected, const std::string& what,
                  const char* how, double relative) {
  std::vector<double> values;
  for (const T value : actual) values.push_back(static_cast<double>(value));
  const auto expected_at = [&expected](const index_t* numbers) {
    Shape<N> index{};
    std::copy_n(numbers, N, &index[0]);
    return expected(index);
  };
  ExpectValues(std::span<const index_t>(&shape[0], N), values, expected_at, what, how, relative);
}

/// A tensor of small integers, which every type represents exactly, with a copy in double.
template <int N, typename T>
class Sample {
 public:
  explicit Sample(const Shape<N>& shape, GuardedLayout layout = {}, uint64_t stream = 0)
      : Sample(RandomWholeNumbers(shape.Size(), std::is_unsigned_v<T> ? 0 : -9, stream), shape,
               layout) {}
  Sample(const Shape<N>& shape, const std::vector<int32_t>& values, GuardedLayout layout = {})
      : Sample(std::vector<double>(values.begin(), values.end()), shape, layout) {}

  Tensor<cpu, N, T>& operator*() { return *tensor_; }
  Tensor<cpu, N, T>* operator->() { return &*tensor_; }
  const Shape<N>& shape() const { return shape_; }

  /// Returns the initial value of an element.
  double at(const Shape<N>& index) const {
    index_t i = 0;
    for (int k = 0; k < N; ++k) i = i * shape_[k] + index[k];
    return values_[static_cast<size_t>(i)];
  }
  /// Restores the initial values.
  void Restore() {
    std::vector<T> values;
    for (const double value : values_) values.push_back(static_cast<T>(value));
    tensor_.Set(values);
  }
  /// Expects that each element now equals expected(index), to within `relative`.
  void Expect(const std::function<double(const Shape<N>&)>& expected, const std::string& what,
              double relative = 0, const char* how = "") const {
    ExpectValues<N, T>(shape_, tensor_.values(), expected, what, how, relative);
    EXPECT_TRUE(tensor_.GuardsIntact()) << what << how;
  }

 private:
  Sample(std::vector<double> values, const Shape<N>& shape, GuardedLayout layout)
      : shape_(shape), values_(std::move(values)), tensor_(shape, layout) {
    Restore();
  }

  Shape<N> shape_;
  std::vector<double> values_;
  GuardedTensor<N, T> tensor_;
};

/// Expects of an expression its shape, and its elements (to within `relative`) in every way in
/// which they can be evaluated: whole rows, packets, single elements; into contiguous and padded
/// memory; alone and, if they are floats, added inside another expression.
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
    out.Expect(expected, what, relative, ", assigned");
    // Combining expressions does not depend on the type and takes long to compile, so one type
    // suffices.
    if constexpr (std::is_same_v<T, float>) {
      *out = T(0);
      *out += e * T(1);
      out.Expect(expected, what, relative, ", added as an operand");
    }
  }
  // The elements are also evaluated one by one, regardless of the evaluator's choice.
  std::vector<T> elements;
  const Shape<2> flat = shape.FlatTo2D();
  for (index_t y = 0; y < flat[0]; ++y) {
    for (index_t x = 0; x < flat[1]; ++x) elements.push_back(e.Eval(y, x));
  }
  ExpectValues<N, T>(shape, elements, expected, what, ", Eval", relative);
}

/// Returns the layouts that operands are tested in: contiguous, padded, and padded and misaligned.
inline std::vector<GuardedLayout> OperandLayouts() {
  return {{}, {.row_padding = 3}, {.row_padding = 1, .misalignment = 1}};
}

/// Element types for the tests of nodes that do no arithmetic of their own: with packets, and with
/// packets that convert.
using NodeElementTypes = TestedTypes<float, half_t>;

/// Element types for the tests of nodes whose loops depend on an element's size or on whether its
/// type has packets: one of each size, the last without packets.
using SizedElementTypes = TestedTypes<float, half_t, double, uint8_t>;

}  // namespace tessera

#endif  // TESSERA_TENSOR_TESTING_NODE_TEST_UTIL_H_
