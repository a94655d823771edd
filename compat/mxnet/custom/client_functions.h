#ifndef TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_FUNCTIONS_H_
#define TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_FUNCTIONS_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"

namespace tessera::mxnet {

/// A call of forward or backward, as a client sees it.
struct ClientCall {
  std::array<std::vector<NDArray>, 5> arrays;  ///< by ArrayTag
  std::vector<OpReqType> requests;
  bool is_train = false;
  NDArray* kept = nullptr;  ///< an array of the client's object

  const std::vector<NDArray>& in_data() const { return arrays[0]; }
  const std::vector<NDArray>& out_data() const { return arrays[1]; }
  const std::vector<NDArray>& in_grad() const { return arrays[2]; }
  const std::vector<NDArray>& out_grad() const { return arrays[3]; }
  const std::vector<NDArray>& aux() const { return arrays[4]; }
};

/// An operator as a client describes it: the functions that Python's package would pass. The first
/// argument determines all shapes and types.
struct ClientOp {
  std::vector<std::string> arguments = {"data"};
  std::vector<std::string> outputs = {"output"};
  std::vector<std::string> aux_states = {};
  /// Return false for a failure. They free no handles.
  std::function<bool(const ClientCall&)> forward = nullptr;
  std::function<bool(const ClientCall&)> backward = nullptr;
  bool backward_reads_out_grad = true;
  bool can_create = true;

  std::atomic<int> descriptions = 0;  ///< made and not deleted
  std::atomic<int> objects = 0;       ///< made and not deleted
  std::atomic<int> num_parameters = 0;

  /// Registers the operator, which must outlive its use.
  void Register(const std::string& op_type);
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_FUNCTIONS_H_
