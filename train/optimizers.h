#ifndef TESSERA_TRAIN_OPTIMIZERS_H_
#define TESSERA_TRAIN_OPTIMIZERS_H_

// All optimizers.

#include "tessera/train/adam.h"       // IWYU pragma: export
#include "tessera/train/adaptive.h"   // IWYU pragma: export
#include "tessera/train/optimizer.h"  // IWYU pragma: export
#include "tessera/train/sgd.h"        // IWYU pragma: export

#endif  // TESSERA_TRAIN_OPTIMIZERS_H_
