#ifndef MSHADOW_TENSOR_H_
#define MSHADOW_TENSOR_H_

// Includes all of mshadow, as in mshadow.
#include "mshadow/base.h"
#include "mshadow/blas_engine.h"
#include "mshadow/complex.h"
#include "mshadow/complex_engine.h"
#include "mshadow/cuda.h"
#include "mshadow/expression.h"
#include "mshadow/extension.h"
#include "mshadow/io.h"
#include "mshadow/packet.h"
#include "mshadow/plan.h"
#include "mshadow/random.h"
#include "mshadow/tensor_base.h"
#include "mshadow/tensor_blob.h"
#include "mshadow/tensor_container.h"

#endif  // MSHADOW_TENSOR_H_
