#ifndef TESSERA_TRAIN_NN_NN_H_
#define TESSERA_TRAIN_NN_NN_H_

// All layers, losses and the trainer. A program that includes single headers, and depends on their
// targets, links only the operators that these use.

#include "tessera/train/nn/activation.h"
#include "tessera/train/nn/attention.h"
#include "tessera/train/nn/convolution.h"
#include "tessera/train/nn/dense.h"
#include "tessera/train/nn/dropout.h"
#include "tessera/train/nn/embedding.h"
#include "tessera/train/nn/layer.h"
#include "tessera/train/nn/loss.h"
#include "tessera/train/nn/norm.h"
#include "tessera/train/nn/parameter.h"
#include "tessera/train/nn/pooling.h"
#include "tessera/train/nn/recurrent.h"
#include "tessera/train/nn/sequential.h"
#include "tessera/train/nn/trainer.h"

#endif  // TESSERA_TRAIN_NN_NN_H_
