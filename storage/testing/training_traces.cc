#include "tessera/storage/testing/training_traces.h"

#include "tessera/storage/testing/traces/training_traces.inc"

namespace tessera {

std::span<const TrainingTrace> TrainingTraces() {
  static constexpr TrainingTrace kTraces[] = {
      {"perceptron", kPerceptronSetup, kPerceptronStep},
      {"convolutional", kConvolutionalSetup, kConvolutionalStep},
      {"recurrent", kRecurrentSetup, kRecurrentStep},
  };
  return kTraces;
}

}  // namespace tessera
