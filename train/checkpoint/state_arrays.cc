#include "tessera/train/checkpoint/state_arrays.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::train_internal {
namespace {

constexpr std::string_view kInteger = "integer:", kNumber = "number:", kText = "text:",
                           kArray = "array:";

/// Returns an array of the elements of a vector or a string.
template <typename Elements>
NDArray ArrayOf(const Elements& elements, DType dtype) {
  const auto size = static_cast<index_t>(elements.size());
  NDArray array({size}, Device::Cpu(), dtype);
  if (size > 0) array.SyncCopyFromCPU(elements.data(), size);
  return array;
}

template <typename Elements>
Elements ElementsOf(const NDArray& array) {
  Elements elements;
  elements.resize(static_cast<size_t>(array.shape().Size()));
  if (!elements.empty()) array.SyncCopyToCPU(elements.data(), array.shape().Size());
  return elements;
}

}  // namespace

std::map<std::string, NDArray> ArraysOf(const TrainingState& state) {
  std::map<std::string, NDArray> arrays;
  const auto add = [&arrays](std::string_view kind, const std::string& name, NDArray array) {
    arrays.emplace(std::string(kind) + name, std::move(array));
  };
  for (const auto& [name, values] : state.integers) {
    add(kInteger, name, ArrayOf(values, DType::kInt64));
  }
  for (const auto& [name, values] : state.numbers) {
    add(kNumber, name, ArrayOf(values, DType::kFloat64));
  }
  for (const auto& [name, text] : state.texts) add(kText, name, ArrayOf(text, DType::kUint8));
  for (const auto& [name, array] : state.arrays) add(kArray, name, array);
  return arrays;
}

TrainingState StateOf(const std::string& path, const std::map<std::string, NDArray>& arrays) {
  TrainingState state;
  for (const auto& [key, array] : arrays) {
    const auto is = [&key = key, &array = array](std::string_view kind, DType dtype) {
      return key.starts_with(kind) && !array.is_none() && array.dtype() == dtype &&
             array.shape().ndim() == 1;
    };
    const std::string name = key.substr(std::min(key.find(':'), key.size() - 1) + 1);
    if (is(kInteger, DType::kInt64)) {
      state.integers[name] = ElementsOf<std::vector<int64_t>>(array);
    } else if (is(kNumber, DType::kFloat64)) {
      state.numbers[name] = ElementsOf<std::vector<double>>(array);
    } else if (is(kText, DType::kUint8)) {
      state.texts[name] = ElementsOf<std::string>(array);
    } else if (key.starts_with(kArray) && !array.is_none()) {
      state.arrays[name] = array;
    } else {
      throw DataLoss(path, ": array '", Excerpt(key),
                     "' is no part of a state, expected integer:, number:, text: or array: and a "
                     "name, with its type");
    }
  }
  return state;
}

}  // namespace tessera::train_internal
