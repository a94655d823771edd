#ifndef TESSERA_TENSOR_PACKET_ARRAY_OPERAND_H_
#define TESSERA_TENSOR_PACKET_ARRAY_OPERAND_H_

namespace tessera::tensor_internal {

/// One operand of an array kernel that has two. The kernel reads data[i] for its result i, or
/// data[0] for all results. The struct has no functions, since code of several instruction sets
/// shares it.
template <typename T>
struct ArrayOperand {
  const T* data;
  bool repeats = false;  ///< true if data is one number; at most one operand repeats
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_ARRAY_OPERAND_H_
