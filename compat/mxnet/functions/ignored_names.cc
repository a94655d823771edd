#include "tessera/compat/mxnet/functions/ignored_names.h"

#include "tessera/base/quote.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {

std::string IgnoredNames::Describe() const {
  if (ignored_.empty()) return "";
  const std::vector<std::string> names(ignored_.begin(), ignored_.end());
  std::string text = "; names that are no arguments were ignored: " + ListNames(names);
  for (const std::string& name : names) {
    const std::string nearest = NearestName(name, inputs_);
    if (!nearest.empty()) return text + "; did you mean \"" + Excerpt(nearest) + "\"?";
  }
  return text;
}

}  // namespace tessera::mxnet
