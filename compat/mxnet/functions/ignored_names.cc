#include "tessera/compat/mxnet/functions/ignored_names.h"

#include "tessera/base/quote.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {

std::string IgnoredNames::Describe() const {
  if (ignored_.empty()) return "";
  const std::string nearest = NearestName(ignored_[0], inputs_);
  return "; names that are no arguments were ignored: " + ListNames(ignored_) +
         (nearest.empty() ? "" : "; did you mean \"" + Excerpt(nearest) + "\"?");
}

}  // namespace tessera::mxnet
