#ifndef TESSERA_TENSOR_NN_RECURRENT_H_
#define TESSERA_TENSOR_NN_RECURRENT_H_

#include "tessera/tensor/nn/recurrent_step.h"

/// The cells of recurrent layers, without their products: all that a step does to a unit in one
/// pass, on one thread, with the packets of UsedInstructionSet().
///
/// Accuracy: gates are within 4 ulp, as sigmoid and tanh of packet_math.h. A unit's bits depend on
/// its own elements alone, not on the units and samples beside it. Threads: concurrent calls are
/// safe if their outputs are distinct.
namespace tessera::tensor_internal {

/// Runs a step forward.
void RecurrentForward(RecurrentCell cell, const RecurrentStep<float>& step);
void RecurrentForward(RecurrentCell cell, const RecurrentStep<double>& step);

/// Runs a step backward.
void RecurrentBackward(RecurrentCell cell, const RecurrentGradient<float>& step);
void RecurrentBackward(RecurrentCell cell, const RecurrentGradient<double>& step);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_NN_RECURRENT_H_
