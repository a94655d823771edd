#ifndef MXNET_ENGINE_H_
#define MXNET_ENGINE_H_

#include <functional>
#include <utility>

#include "mxnet/base.h"

namespace mxnet::engine {

/// What an operator calls once its work is done, if its exec_type() is kAsync.
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
