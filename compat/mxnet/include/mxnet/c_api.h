#ifndef MXNET_C_API_H_
#define MXNET_C_API_H_

/* MXNet's C API, for programs in C and C++. They are linked with libtessera_mxnet.so. */

#include "mxnet/c_array_api.h"
#include "mxnet/c_symbol_api.h"
#include "nnvm/c_api.h"

#endif /* MXNET_C_API_H_ */
