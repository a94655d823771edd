#ifndef TESSERA_COMPAT_MXNET_CORE_FAILED_DRAWS_H_
#define TESSERA_COMPAT_MXNET_CORE_FAILED_DRAWS_H_

#include "tessera/engine/engine.h"

namespace tessera::mxnet {

/// Returns the variable of the process's engine that each draw of a wrong distribution updates. As
/// in MXNet, where the generator carries the error, such draws are one chain until a wait reports
/// it: each output throws the error of the first draw, and the first wait on any of them is the
/// only one that throws. Thread-safe.
Variable* FailedDraws();

/// Lets the next wrong draw begin a chain of its own. Waits that throw call it. Thread-safe.
void EndFailedDraws() noexcept;

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_FAILED_DRAWS_H_
