// A fuzz target for the predict API: a graph and a file of parameters, with a zero between them,
// make a predictor that runs, or an error. Build with libFuzzer: clang++ -fsanitize=fuzzer,address
// and the libraries of //compat/mxnet/functions.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mxnet/c_predict_api.h"

namespace {

/// Larger outputs are not read.
constexpr uint64_t kMaxElements = 1 << 20;

void Use(PredictorHandle predictor) {
  const std::vector<float> input(6, 0.5f);
  MXPredSetInput(predictor, "data", input.data(), static_cast<uint32_t>(input.size()));
  if (MXPredForward(predictor) != 0) return;
  uint32_t* extents = nullptr;
  uint32_t rank = 0;
  int type = 0;
  for (uint32_t i = 0; MXPredGetOutputShape(predictor, i, &extents, &rank) == 0; ++i) {
    uint64_t size = 1;
    for (uint32_t k = 0; k < rank; ++k) size = std::min(size * extents[k], kMaxElements + 1);
    if (size > kMaxElements || MXPredGetOutputType(predictor, i, &type) != 0) continue;
    // No element is larger than 8 bytes.
    std::vector<double> values(size);
    MXPredGetOutput(predictor, i, reinterpret_cast<float*>(values.data()),
                    static_cast<uint32_t>(size));
  }
}

void UseList(const uint8_t* data, size_t size) {
  NDListHandle list = nullptr;
  uint32_t length = 0;
  const auto* const bytes = reinterpret_cast<const char*>(data);
  if (MXNDListCreate(bytes, static_cast<int>(size), &list, &length) != 0) return;
  for (uint32_t i = 0; i < length; ++i) {
    const char* key = nullptr;
    const float* values = nullptr;
    const uint32_t* extents = nullptr;
    uint32_t rank = 0;
    MXNDListGet(list, i, &key, &values, &extents, &rank);
  }
  MXNDListFree(list);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const uint8_t* const end = std::find(data, data + size, uint8_t{0});
  const std::string json(data, end);
  const uint8_t* const parameters = end == data + size ? end : end + 1;
  const auto parameters_size = static_cast<size_t>(data + size - parameters);
  const char* names[] = {"data"};
  const uint32_t offsets[] = {0, 4}, extents[] = {1, 1, 2, 3};
  PredictorHandle predictor = nullptr;
  if (MXPredCreate(json.c_str(), parameters, static_cast<int>(parameters_size), 1, 0, 1, names,
                   offsets, extents, &predictor) == 0) {
    Use(predictor);
    MXPredFree(predictor);
  }
  UseList(parameters, parameters_size);
  return 0;
}
