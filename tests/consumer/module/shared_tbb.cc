// Succeeds where TBB is a shared object of its own, which several in one process can share.
#include <link.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "tessera/tensor/tensor.h"

using namespace tessera;  // NOLINT

namespace {

int CountTbb(dl_phdr_info* info, std::size_t, void* count) {
  if (std::strstr(info->dlpi_name, "libtbb.so") != nullptr) ++*static_cast<int*>(count);
  return 0;
}

}  // namespace

int main() {
  TensorContainer<cpu, 1> x(Shape1(100000));
  x = 1.0f;  // a loop that TBB may run
  int count = 0;
  dl_iterate_phdr(CountTbb, &count);
  std::printf("%d shared objects with TBB\n", count);
  return count == 1 && x[99999] == 1.0f ? 0 : 1;
}
