#include "tessera/train/nn/testing/gluon_values.h"

#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::nn_testing {

GluonValues ReadGluonValues() {
  const std::string path = "train/nn/testing/gluon_values.txt";
  std::ifstream file(path);
  if (!file) throw NotFound(path, ": the file cannot be opened");
  GluonValues all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, kind, array, shape, word;
    words >> name >> kind >> array >> shape;
    Values values = {.shape = TShape::Parse("(" + shape + ",)"), .elements = {}};
    while (words >> word) {
      float value = 0;
      if (std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc()) {
        throw DataLoss(path, ": found ", word, ", expected a number");
      }
      values.elements.push_back(value);
    }
    if (static_cast<index_t>(values.elements.size()) != values.shape.Size()) {
      throw DataLoss(path, ": ", name, " ", kind, " ", array, " has ", values.elements.size(),
                     " elements, expected those of ", values.shape);
    }
    all[name][kind + " " + array] = std::move(values);
  }
  return all;
}

NDArray Fill(const TShape& shape, std::string_view name) {
  int64_t seed = 0;
  for (const char c : name) seed += static_cast<unsigned char>(c);
  std::vector<float> values;
  for (int64_t i = 0; i < shape.Size(); ++i) {
    values.push_back(static_cast<float>((i * 7919 + seed * 104729) % 101 - 50) / 64);
  }
  return NDArray::FromVector(values, shape);
}

}  // namespace tessera::nn_testing
