#ifndef TESSERA_TRAIN_NN_TESTING_GLUON_VALUES_H_
#define TESSERA_TRAIN_NN_TESTING_GLUON_VALUES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::nn_testing {

/// The values of an array.
struct Values {
  TShape shape;
  std::vector<float> elements;
};

/// Outputs, gradients and states of each case of gluon_values.txt, by kind and name: "output 0",
/// "gradient weight", "state running_mean".
using GluonValues = std::map<std::string, std::map<std::string, Values>>;

/// Returns the file's values. Throws Error(kDataLoss) for a line that is not one.
GluonValues ReadGluonValues();

/// Returns values from -50/64 to 50/64 that depend on a name, as the program that wrote the file
/// does.
NDArray Fill(const TShape& shape, std::string_view name);

}  // namespace tessera::nn_testing

#endif  // TESSERA_TRAIN_NN_TESTING_GLUON_VALUES_H_
