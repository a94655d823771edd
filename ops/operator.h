#ifndef TESSERA_OPS_OPERATOR_H_
#define TESSERA_OPS_OPERATOR_H_

#include <span>

#include "tessera/resource/resource.h"
#include "tessera/tensor/stream.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

/// What an operator does with an output's old contents.
enum class OpReqType {
  kNullOp,        ///< nothing is wanted: leave it alone
  kWriteTo,       ///< overwrite
  kWriteInplace,  ///< overwrite; the output shares memory with an input that the property named
  kAddTo,         ///< add to what is there
};
using enum OpReqType;

/// What an operator's call runs in.
struct OpContext {
  bool is_train = false;                   ///< whether a gradient will be asked for
  void* stream = nullptr;                  ///< Stream<gpu>* when on a GPU
  std::span<Resource* const> requested{};  ///< in the order of ForwardResource / BackwardResource

  /// The stream of that kind of device; null on the CPU.
  template <typename Dev>
  Stream<Dev>* get_stream() const {
    return static_cast<Stream<Dev>*>(stream);
  }
};

/// The arithmetic of one node, made by OperatorProperty::CreateOperator for one device and type.
///
/// Shapes, types and the number of blobs are those that the property inferred; they have been
/// checked, and the calls never fail for them. An operator keeps nothing from one call to the next
/// (what Backward needs is among inputs, outputs and aux states), so calls may overlap.
class Operator {
 public:
  virtual ~Operator() = default;

  /// Computes the outputs. `req` has one entry for each output; aux states may be changed when
  /// context.is_train.
  virtual void Forward(const OpContext& context, std::span<const TBlob> in_data,
                       std::span<const OpReqType> req, std::span<const TBlob> out_data,
                       std::span<const TBlob> aux_states) = 0;

  /// Computes the gradients of the inputs. Blobs that DeclareBackwardDependency does not list are
  /// empty, and so may be gradients whose request is kNullOp; at least one has another. The default
  /// throws Error(kUnimplemented).
  virtual void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                        std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                        std::span<const OpReqType> req, std::span<const TBlob> in_grad,
                        std::span<const TBlob> aux_states);
};

}  // namespace tessera

#endif  // TESSERA_OPS_OPERATOR_H_
