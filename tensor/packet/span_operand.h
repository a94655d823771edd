#ifndef TESSERA_TENSOR_PACKET_SPAN_OPERAND_H_
#define TESSERA_TENSOR_PACKET_SPAN_OPERAND_H_

namespace tessera::tensor_internal {

/// What a kernel of two operands reads of one: data[i] for its result i, or data[0] for all. It has
/// no functions, for code of several instruction sets shares it.
template <typename T>
struct SpanOperand {
  const T* data;
  bool repeats = false;  ///< whether data is one number; not of both operands
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_SPAN_OPERAND_H_
