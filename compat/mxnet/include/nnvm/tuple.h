#ifndef NNVM_TUPLE_H_
#define NNVM_TUPLE_H_

#include "mxnet/tuple.h"

namespace nnvm {

/// The names of MXNet's shapes and tuples in programs written for MXNet 0.9 to 1.4.
using dim_t = mxnet::dim_t;
using TShape = mxnet::TShape;
template <typename T>
using Tuple = mxnet::Tuple<T>;

}  // namespace nnvm

#endif  // NNVM_TUPLE_H_
