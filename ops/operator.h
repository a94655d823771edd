#ifndef TESSERA_OPS_OPERATOR_H_
#define TESSERA_OPS_OPERATOR_H_

#include <span>

#include "tessera/resource/resource.h"
#include "tessera/tensor/stream.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

/// The treatment of an output's old contents.
enum class OpReqType {
  kNullOp,        ///< the output is not wanted: leave it unchanged
  kWriteTo,       ///< overwrite
  kWriteInplace,  ///< overwrite; the output shares memory with an input that the property named
  kAddTo,         ///< add to the old contents
};
using enum OpReqType;

/// The context of an operator's call.
struct OpContext {
  bool is_train = false;                   ///< whether a gradient will be computed
  void* stream = nullptr;                  ///< Stream<gpu>* on a GPU
  std::span<Resource* const> requested{};  ///< in the order of ForwardResource / BackwardResource

  /// Returns the stream of that kind of device, or null on the CPU.
  template <typename Dev>
  Stream<Dev>* get_stream() const {
    return static_cast<Stream<Dev>*>(stream);
  }
};

/// The computation of one node, created by OperatorProperty::CreateOperator for one device and
/// type.
///
/// Shapes, types and the number of blobs are those that the property inferred. They have been
/// checked, so no call fails because of them. An operator keeps nothing from one call to the next;
/// the values that Backward needs are inputs, outputs and aux states. Threads: calls may overlap.
class Operator {
 public:
  virtual ~Operator() = default;

  /// Computes the outputs. `req` has one entry for each output. Aux states may change if
  /// context.is_train.
  virtual void Forward(const OpContext& context, std::span<const TBlob> in_data,
                       std::span<const OpReqType> req, std::span<const TBlob> out_data,
                       std::span<const TBlob> aux_states) = 0;

  /// Computes the gradients of the inputs. Blobs that DeclareBackwardDependency does not list are
  /// empty. A gradient whose request is kNullOp may be empty too, but at least one request is
  /// another. The default throws Error(kUnimplemented).
  virtual void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                        std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                        std::span<const OpReqType> req, std::span<const TBlob> in_grad,
                        std::span<const TBlob> aux_states);
};

}  // namespace tessera

#endif  // TESSERA_OPS_OPERATOR_H_
