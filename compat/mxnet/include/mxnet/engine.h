#ifndef MXNET_ENGINE_H_
#define MXNET_ENGINE_H_

#include <functional>
#include <utility>

#include "mxnet/base.h"

namespace mxnet::engine {

/// The function that an operator whose exec_type() is kAsync calls once its work is done.
class CallbackOnComplete {
 public:
  CallbackOnComplete() = default;
  explicit CallbackOnComplete(std::function<void()> complete) : complete_(std::move(complete)) {}

  void operator()() const {
    if (complete_ != nullptr) complete_();
  }

 private:
  std::function<void()> complete_;
};

}  // namespace mxnet::engine

#endif  // MXNET_ENGINE_H_
