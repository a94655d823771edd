#ifndef TESSERA_NDARRAY_SHOW_FLOAT_TEXT_H_
#define TESSERA_NDARRAY_SHOW_FLOAT_TEXT_H_

#include <string>
#include <vector>

#include "tessera/base/float16.h"

namespace tessera::ndarray_internal {

/// Return the numbers as NumPy 1.19 prints those of an array: in one notation, and as texts of one
/// length.
std::vector<std::string> FloatTexts(const std::vector<float>& values);
std::vector<std::string> FloatTexts(const std::vector<double>& values);
std::vector<std::string> FloatTexts(const std::vector<half_t>& values);
std::vector<std::string> FloatTexts(const std::vector<bfloat16_t>& values);

/// Return the number as NumPy prints one alone, with as many digits as its type needs.
std::string FloatText(float value);
std::string FloatText(double value);
std::string FloatText(half_t value);
std::string FloatText(bfloat16_t value);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_SHOW_FLOAT_TEXT_H_
