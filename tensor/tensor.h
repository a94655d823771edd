#ifndef TESSERA_TENSOR_TENSOR_H_
#define TESSERA_TENSOR_TENSOR_H_

/// Tensor expressions: `dst = F<op::relu>(dot(a, b.T()) …)`, evaluated in one pass, with packets
/// and threads on the CPU and one kernel on a GPU, from the same source. This header is all of it.
#include "tessera/tensor/allocate.h"
#include "tessera/tensor/broadcast.h"
#include "tessera/tensor/copy.h"
#include "tessera/tensor/dense.h"
#include "tessera/tensor/dot.h"
#include "tessera/tensor/parallel.h"
#include "tessera/tensor/patch.h"
#include "tessera/tensor/pool.h"
#include "tessera/tensor/random.h"
#include "tessera/tensor/reduce.h"
#include "tessera/tensor/softmax.h"
#include "tessera/tensor/store.h"
#include "tessera/tensor/stream.h"
#include "tessera/tensor/tblob.h"

#endif  // TESSERA_TENSOR_TENSOR_H_
