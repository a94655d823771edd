#ifndef TESSERA_OPS_OPERATOR_H_
#define TESSERA_OPS_OPERATOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/epilogue.h"
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
  bool is_train = false;        ///< whether to behave as in training: drop, use the batch's mean
  bool needs_gradient = false;  ///< whether Backward may be called with this call's values
  void* stream = nullptr;       ///< Stream<gpu>* on a GPU
  std::span<Resource* const> requested{};  ///< in the order of ForwardResource / BackwardResource
  /// For Forward: for each input its prepared form (Operator::InputForm) or null; empty for none.
  std::span<const void* const> prepared{};
  /// For Forward of an operator that RunsEpilogue: what follows; null for nothing.
  const Epilogue* epilogue = nullptr;

  /// Returns the stream of that kind of device, or null on the CPU.
  template <typename Dev>
  Stream<Dev>* get_stream() const {
    return static_cast<Stream<Dev>*>(stream);
  }
  /// Returns the prepared form of an input, or null.
  const void* prepared_input(size_t input) const {
    return prepared.empty() ? nullptr : prepared[input];
  }
};

/// A form of an input that an operator computes from the elements before it uses them: weights that
/// are packed for products, or transformed. It can be made once for many calls.
struct PreparedForm {
  /// All that the form depends on besides the input's shape, type and elements. Inputs with the
  /// same elements share the form of one name.
  std::string name = "";
  int64_t size_bytes = 0;  ///< 0 if there is no such form
  /// Writes the form of an input to `to`, size_bytes bytes on the input's device, aligned to 64
  /// bytes. Of the context, only the stream is set. Must not throw. Threads: calls may overlap.
  std::function<void(const OpContext& context, const TBlob& input, void* to)> make = nullptr;
};

class OperatorProperty;

/// The computation of one node, created by OperatorProperty::CreateOperator for one device, with
/// the inputs' shapes and types.
///
/// Shapes, types and the number of blobs are those that the property inferred, so they need no
/// check. What only values tell, such as an index out of range, throws Error(kOutOfRange) or
/// Error(kInvalidArgument); the caller adds the operator's name and the inputs' shapes. An operator
/// keeps nothing from one call to the next. Threads: calls may overlap.
class Operator {
 public:
  virtual ~Operator() = default;

  /// Computes the outputs. `req` has one entry for each output, then one for each of the property's
  /// MutatedInputs: kWriteInplace to change the input, kNullOp to leave it unchanged. An output
  /// whose request is kNullOp may be an empty blob.
  virtual void Forward(const OpContext& context, std::span<const TBlob> in_data,
                       std::span<const OpReqType> req, std::span<const TBlob> out_data) = 0;

  /// Computes the gradients of the inputs. Blobs that DeclareBackwardDependency does not list are
  /// empty. A gradient whose request is kNullOp may be empty too, but at least one request is
  /// another. The default throws Error(kUnimplemented).
  virtual void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                        std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                        std::span<const OpReqType> req, std::span<const TBlob> in_grad);

  /// Returns the form in which Forward takes an input whose elements stay the same from call to
  /// call, for the device, shapes and types that the operator was created for. Forward then reads
  /// OpContext::prepared in place of the elements, which in_data has as well; its results have the
  /// same bits. By default, there is none. Data, which changes, should have none.
  virtual PreparedForm InputForm(int input, Device device, std::span<const TShape> in_shape,
                                 std::span<const DType> in_type) const;

  /// Return the bytes of workspace (ResourceRequest::Type::kTempSpace) that Forward, or Backward,
  /// requests at most for such arguments, whose blobs have shapes and types but no memory, if each
  /// of its parallel loops has at most `threads` threads (ParallelWidth). The caller can then
  /// provide the workspace. Without a value, which is the default, the need is not known before the
  /// call.
  virtual std::optional<int64_t> ForwardWorkspaceBytes(int threads, std::span<const TBlob> in_data,
                                                       std::span<const OpReqType> req,
                                                       std::span<const TBlob> out_data) const;
  virtual std::optional<int64_t> BackwardWorkspaceBytes(int threads,
                                                        std::span<const TBlob> out_grad,
                                                        std::span<const TBlob> in_data,
                                                        std::span<const TBlob> out_data,
                                                        std::span<const OpReqType> req,
                                                        std::span<const TBlob> in_grad) const;

  /// Returns whether Forward runs OpContext::epilogue, if there is one: once for each element of
  /// the first output unless its request is kNullOp, after the call has written the element, and
  /// before Forward returns. The call does not look at the element again. By default it does not,
  /// and the caller does that work when Forward has returned.
  virtual bool RunsEpilogue() const { return false; }

  /// Returns whether Forward and Backward accept kAddTo. If not, the caller lets them write to a
  /// workspace and adds it.
  virtual bool AcceptsAddTo() const { return true; }

  /// Returns the name of the implementation, if the operator has several on its kind of device.
  /// Empty without a choice.
  const std::string& implementation() const { return implementation_; }

 protected:
  /// Takes the name of the implementation that this operator calls.
  void SetImplementationOf(const Operator& called) { implementation_ = called.implementation_; }

 private:
  friend class OperatorProperty;
  std::string implementation_;
};

}  // namespace tessera

#endif  // TESSERA_OPS_OPERATOR_H_
