#ifndef MXNET_INFER_ERROR_H_
#define MXNET_INFER_ERROR_H_

#include <string>

#include "dmlc/logging.h"

namespace mxnet::op {

/// The error of a shape that contradicts another one, with the number of the argument.
struct InferShapeError : public dmlc::Error {
  InferShapeError(const std::string& message, int argument)
      : dmlc::Error(message), msg(message), index(argument) {}
  std::string msg;  ///< what contradicts what
  int index;        ///< of the argument
};

/// The error of an element type that contradicts another one, with the number of the argument.
struct InferTypeError : public dmlc::Error {
  InferTypeError(const std::string& message, int argument)
      : dmlc::Error(message), msg(message), index(argument) {}
  std::string msg;  ///< what contradicts what
  int index;        ///< of the argument
};

}  // namespace mxnet::op

#endif  // MXNET_INFER_ERROR_H_
