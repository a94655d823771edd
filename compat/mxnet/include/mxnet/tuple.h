#ifndef MXNET_TUPLE_H_
#define MXNET_TUPLE_H_

// Shapes and tuples of numbers whose length is known at run time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dmlc/parameter.h"
#include "mshadow/tensor_blob.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"

namespace mxnet {

/// The type of a shape's extents.
using dim_t = int64_t;

/// A shape. An operator in MXNet's style takes a shape of no dimensions, ndim() == 0, and an extent
/// of 0, for those that are not known yet.
using TShape = mshadow::TShape;
/// The shapes of an operator's inputs, outputs or auxiliary states.
using ShapeVector = std::vector<TShape>;

/// Return whether the number of dimensions, an extent, or all of a shape is known.
inline bool ndim_is_known(int ndim) { return ndim > 0; }
inline bool ndim_is_known(const TShape& shape) { return shape.ndim() > 0; }
inline bool dim_size_is_known(dim_t extent) { return extent > 0; }
inline bool dim_size_is_known(const TShape& shape, int axis) {
  return dim_size_is_known(shape[axis]);
}
inline bool shape_is_known(const TShape& shape) {
  return ndim_is_known(shape) &&
         std::all_of(shape.begin(), shape.end(), [](dim_t d) { return dim_size_is_known(d); });
}
inline bool shape_is_known(const ShapeVector& shapes) {
  return std::all_of(shapes.begin(), shapes.end(),
                     [](const TShape& shape) { return shape_is_known(shape); });
}

/// A tuple of values, mostly numbers, as a field of a parameter struct.
template <typename T>
class Tuple {
 public:
  Tuple() = default;
  Tuple(std::initializer_list<T> values) : values_(values) {}
  /// Constructs a tuple of `ndim` equal values.
  Tuple(int ndim, const T& value) : values_(static_cast<size_t>(ndim), value) {}
  template <typename Iterator>
  requires(!std::is_arithmetic_v<Iterator>) Tuple(Iterator begin, Iterator end)
      : values_(begin, end) {}

  template <typename Iterator>
  void assign(Iterator begin, Iterator end) {
    values_.assign(begin, end);
  }
  int ndim() const { return static_cast<int>(values_.size()); }
  T& operator[](int64_t i) { return values_[static_cast<size_t>(i)]; }
  const T& operator[](int64_t i) const { return values_[static_cast<size_t>(i)]; }
  T* begin() { return values_.data(); }
  T* end() { return values_.data() + values_.size(); }
  const T* begin() const { return values_.data(); }
  const T* end() const { return values_.data() + values_.size(); }

  bool operator==(const Tuple&) const = default;

 private:
  std::vector<T> values_;
};

}  // namespace mxnet

namespace dmlc::parameter {

template <>
struct FieldText<mxnet::TShape> {
  using Text = tessera::ops_internal::ParameterText<tessera::TShape>;
  static constexpr std::string_view kType = Text::kType;
  static mxnet::TShape Parse(std::string_view text) {
    const tessera::TShape shape = Text::Parse(text);
    return shape.rank_known() ? mxnet::TShape(shape) : mxnet::TShape();
  }
  static std::string Print(const mxnet::TShape& shape) { return Text::Print(shape); }
};

/// Returns the texts between the commas of a tuple in brackets, or of a text without brackets.
/// Throws Error(kInvalidArgument) for unbalanced brackets.
std::vector<std::string> TupleElements(std::string_view text);

template <typename T>
struct FieldText<mxnet::Tuple<T>> {
  static constexpr std::string_view kType = "tuple";
  static mxnet::Tuple<T> Parse(std::string_view text) {
    std::vector<T> values;
    for (const std::string& element : TupleElements(text)) {
      values.push_back(FieldText<T>::Parse(element));
    }
    return mxnet::Tuple<T>(values.begin(), values.end());
  }
  static std::string Print(const mxnet::Tuple<T>& tuple) {
    std::string text = "(";
    for (const T& value : tuple) {
      if (text.size() > 1) text += ',';
      text += FieldText<T>::Print(value);
    }
    return text + (tuple.ndim() == 1 ? ",)" : ")");
  }
};

}  // namespace dmlc::parameter

namespace mxnet {

/// Prints "(2,3)", and "(2,)" for a single value.
template <typename T>
std::ostream& operator<<(std::ostream& os, const Tuple<T>& tuple) {
  return os << dmlc::parameter::FieldText<Tuple<T>>::Print(tuple);
}

}  // namespace mxnet

#endif  // MXNET_TUPLE_H_
