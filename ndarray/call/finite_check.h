#ifndef TESSERA_NDARRAY_CALL_FINITE_CHECK_H_
#define TESSERA_NDARRAY_CALL_FINITE_CHECK_H_

#include <span>
#include <string>
#include <vector>

#include "tessera/tensor/tblob.h"

namespace tessera::ndarray_internal {

/// Returns the setting TESSERA_CHECK_FINITE, which is read at the first call. Throws
/// Error(kInvalidArgument) for a value that is no bool.
bool ChecksFinite();

/// An array of an operator's call, with its name for errors.
struct NamedBlob {
  std::string name;
  TBlob blob;
};

/// Throws Error(kOutOfRange) if an output has an element that is NaN or infinite. The message names
/// the output, the element and the inputs that have such elements too. Inputs whose memory an
/// output has taken are not looked at; integers and empty blobs are finite. Waits for the work on
/// `stream`, which is null for the host's memory.
void CheckFinite(std::span<const NamedBlob> inputs, std::span<const NamedBlob> outputs,
                 void* stream);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_CALL_FINITE_CHECK_H_
