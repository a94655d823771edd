#ifndef TESSERA_COMPAT_MXNET_DMLC_LOGGING_H_
#define TESSERA_COMPAT_MXNET_DMLC_LOGGING_H_

// CHECK, LOG and dmlc::Error, which mshadow's header has. DMLC_LOGGING_H_ is that header's guard.

#include "mshadow/logging.h"  // IWYU pragma: export

#endif  // TESSERA_COMPAT_MXNET_DMLC_LOGGING_H_
