#ifndef TESSERA_TENSOR_TBLOB_H_
#define TESSERA_TENSOR_TBLOB_H_

// A tensor whose rank and type are known at run time.

#include "tessera/tensor/dense/tblob.h"  // IWYU pragma: export

#endif  // TESSERA_TENSOR_TBLOB_H_
