#ifndef TESSERA_COMPAT_MXNET_CORE_MONITOR_NAMES_H_
#define TESSERA_COMPAT_MXNET_CORE_MONITOR_NAMES_H_

#include "tessera/symbol/monitor_names.h"

namespace tessera::mxnet {

/// Returns MXNet's names for an executor's monitor: "act_input0" for the input of an operator whose
/// inputs have no names there, and "act_output" as everywhere.
MonitorNames ExecutorNames();

/// Returns MXNet's names for a hook of a CachedOp: those of an executor, but "act_0" for the output
/// of an operator whose outputs have no names there.
MonitorNames HookNames();

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_MONITOR_NAMES_H_
