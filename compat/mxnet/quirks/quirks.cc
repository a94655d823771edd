#include "tessera/compat/mxnet/quirks/quirks.h"

#include <algorithm>

namespace tessera::mxnet {
namespace {

constexpr std::string_view kDraws[] = {
    "_random_exponential",
    "_random_exponential_like",
    "_random_gamma",
    "_random_gamma_like",
    "_random_generalized_negative_binomial",
    "_random_generalized_negative_binomial_like",
    "_random_negative_binomial",
    "_random_negative_binomial_like",
    "_random_normal",
    "_random_normal_like",
    "_random_poisson",
    "_random_poisson_like",
    "_random_randint",
    "_random_uniform",
    "_random_uniform_like",
};
constexpr std::string_view kExtremes[] = {"max", "min"};
// Operators of no graph, which are registered nowhere: the client's names are all there is.
constexpr std::string_view kMasks[] = {"_contrib_boolean_mask", "_npi_boolean_mask"};
constexpr std::string_view kIndexed[] = {"gather_nd"};
constexpr std::string_view kCasts[] = {"amp_cast", "amp_multicast"};
constexpr std::string_view kWithInputNames[] = {
    "Dropout",   "L2Normalization", "LRN",          "LeakyReLU",       "MakeLoss",
    "Pooling",   "SequenceLast",    "SequenceMask", "SequenceReverse", "_histogram",
    "_split_v2", "depth_to_space",  "diag",         "log_softmax",     "moments",
    "repeat",    "reverse",         "softmax",      "space_to_depth",  "squeeze",
    "tile",
};

constexpr QuirkRow kTable[] = {
    {Quirk::kFailsAtWait,
     "MXNet checks a distribution's numbers while it draws, and its Python expects the error where "
     "it reads the result.",
     kDraws},
    {Quirk::kNeedsElements,
     "The operators return the value with which a comparison begins, and MXNet's clients expect an "
     "error.",
     kExtremes},
    {Quirk::kShapeByValues,
     "The number of rows that a mask keeps is known when its values are, so the call waits for "
     "them.",
     kMasks},
    {Quirk::kIndexError,
     "MXNet begins the error's text with the name of the class that its Python raises.", kIndexed},
    {Quirk::kPrecisionCast,
     "MXSymbolRemoveAmpCast leaves these out, so that the graph is saved without them.", kCasts},
    {Quirk::kNamedDataInput,
     "MXNet has names for the inputs of these operators, and numbers the input of the others.",
     kWithInputNames},
};

}  // namespace

std::span<const QuirkRow> QuirkTable() { return kTable; }

QuirkSet QuirksOf(std::string_view name) {
  QuirkSet quirks;
  for (const QuirkRow& row : kTable) {
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) {
      quirks.Add(row.quirk);
    }
  }
  return quirks;
}

}  // namespace tessera::mxnet
