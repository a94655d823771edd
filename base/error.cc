#include "tessera/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace tessera::base_internal {

void DcheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant of Tessera: %s\n", file, line, condition);
  std::abort();
}

}  // namespace tessera::base_internal
