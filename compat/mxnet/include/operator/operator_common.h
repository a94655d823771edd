#ifndef MXNET_OPERATOR_OPERATOR_COMMON_H_
#define MXNET_OPERATOR_OPERATOR_COMMON_H_

// Common parts of MXNet's operators: errors and checks of shapes and types, and dispatch on the
// device.

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "dmlc/logging.h"
#include "dmlc/parameter.h"
#include "mshadow/tensor.h"
#include "mxnet/base.h"
#include "mxnet/infer_error.h"
#include "mxnet/operator.h"
#include "mxnet/operator_util.h"
#include "tessera/base/dtype.h"

namespace mxnet::op {

/// Return whether a shape or a type is not known, or not all of it.
inline bool shape_is_none(const TShape& shape) { return !shape_is_known(shape); }
inline bool type_is_none(int type) { return type == -1; }
/// Returns whether a shape has one extent, of 1.
inline bool shape_is_scalar(const TShape& shape) { return shape.ndim() == 1 && shape.Size() == 1; }

/// Return a shape and a type as text.
inline std::string shape_string(const TShape& shape) { return shape.ToString(); }
inline std::string type_string(int type) {
  return std::string(tessera::DTypeName(static_cast<tessera::DType>(type)));
}

/// Merge what is known of `from` into `*to`, and return false if the two contradict each other.
inline bool shape_assign(TShape* to, const TShape& from) {
  if (to->ndim() == 0) {
    *to = from;
    return true;
  }
  if (from.ndim() == 0) return true;
  if (to->ndim() != from.ndim()) return false;
  for (int i = 0; i < to->ndim(); ++i) {
    if (!dim_size_is_known(*to, i)) {
      (*to)[i] = from[i];
    } else if (dim_size_is_known(from, i) && (*to)[i] != from[i]) {
      return false;
    }
  }
  return true;
}
inline bool type_assign(int* to, int from) {
  if (*to == -1) *to = from;
  return from == -1 || *to == from;
}

/// Assign a shape or a type as the macros below do.
inline void AssignShapeOrThrow(ShapeVector* shapes, size_t index, const TShape& shape) {
  TShape& target = shapes->at(index);
  if (shape_assign(&target, shape)) return;
  std::ostringstream message;
  message << "the shape is " << target << ", expected " << shape;
  throw InferShapeError(message.str(), static_cast<int>(index));
}
inline void AssignTypeOrThrow(std::vector<int>* types, size_t index, int type) {
  int& target = types->at(index);
  if (type_assign(&target, type)) return;
  throw InferTypeError(
      "the element type is " + type_string(target) + ", expected " + type_string(type),
      static_cast<int>(index));
}

}  // namespace mxnet::op

/// Assign a shape, or a type, to an element of a list. Throw InferShapeError, or InferTypeError, if
/// the element is another one already.
#define SHAPE_ASSIGN_CHECK(shape_array, index, shape) \
  ::mxnet::op::AssignShapeOrThrow(&(shape_array), static_cast<size_t>(index), shape)
#define TYPE_ASSIGN_CHECK(type_array, index, type) \
  ::mxnet::op::AssignTypeOrThrow(&(type_array), static_cast<size_t>(index), type)

/// Throws if an argument's type is not the expected one.
#define UNIFORM_TYPE_CHECK(type, expected, arg)                                 \
  {                                                                             \
    CHECK_EQ(type, expected) << "the element type of " << (arg) << " is "       \
                             << ::mxnet::op::type_string(type) << ", expected " \
                             << ::mxnet::op::type_string(expected);             \
  }

/// Treats the array `out` with an expression as the request says.
#define Assign(out, req, ...) ASSIGN_DISPATCH(out, req, __VA_ARGS__)

/// Returns what a function template for the device of `ctx` returns. There is only the CPU's.
#define DO_BIND_DISPATCH(Method, ...)             \
  if (ctx.dev_mask() != ::mxnet::cpu::kDevMask) { \
    LOG(FATAL) << MXNET_GPU_NOT_ENABLED_ERROR;    \
  }                                               \
  return Method<::mxnet::cpu>(__VA_ARGS__)

#endif  // MXNET_OPERATOR_OPERATOR_COMMON_H_
