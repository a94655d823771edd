#ifndef TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_OPERATOR_H_
#define TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_OPERATOR_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/compat/mxnet/core/types.h"
#include "tessera/compat/mxnet/custom/client_property.h"
#include "tessera/compat/mxnet/custom/lent_arrays.h"
#include "tessera/ops/operator.h"

namespace tessera::mxnet {

/// The computation of a ClientProperty on arrays, which the client's functions receive in MXNet's
/// order. The functions run on the thread of an engine operation that may block. They may call
/// operators, wait for arrays, and call other operators of clients.
///
/// Unlike other operators, the client's object may keep values from Forward for Backward.
class ClientOperator : public Operator {
 public:
  /// `in_shape` and `in_type` are those of CreateOperator.
  ClientOperator(const ClientProperty& property, Device device, std::span<const TShape> in_shape,
                 std::span<const DType> in_type);

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) final;
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) final;
  /// Clients' functions that ignore requests are common.
  bool AcceptsAddTo() const final { return false; }

 protected:
  /// A call of a client's function.
  struct ClientCall {
    bool is_backward;
    const std::vector<NDArrayHandle>& handles;  ///< which the function frees
    const std::vector<int>& tags;               ///< of the handles, see ArrayTag
    const std::vector<int>& requests;           ///< of outputs, or of the arguments' gradients
    bool is_train;
  };
  /// Calls the client's function. Returns whether it has succeeded. Throws if it was not called.
  virtual bool Call(const ClientCall& call) = 0;

 private:
  void Run(bool is_backward, bool is_train, std::span<const OpReqType> req, LentArrays* arrays);
  /// Adds outputs or gradients. Clients write them all, also those that are not wanted.
  void AddWritten(ArrayTag tag, std::span<const TBlob> blobs, std::span<const OpReqType> req,
                  std::span<const TShape> shapes, std::span<const DType> types,
                  LentArrays* arrays) const;

  const std::string name_;
  const ProfiledNames* const profiled_names_;  // or null
  const Device device_;
  const size_t num_arguments_, num_outputs_;
  std::vector<TShape> in_shape_, out_shape_;
  std::vector<DType> in_type_, out_type_;
  const bool numpy_shape_;  // the setting of the thread that has created the operator
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CUSTOM_CLIENT_OPERATOR_H_
