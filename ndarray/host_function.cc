#include "tessera/ndarray/host_function.h"

#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_memory.h"

namespace tessera {
namespace {

using ndarray_internal::ArrayAccess;
using ndarray_internal::ArrayMemory;

void CheckOnHost(std::span<const NDArray> arrays, const char* kind, std::string_view name) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].is_none()) {
      throw InvalidArgument("PushHostFunction ", name, ": ", kind, " ", i,
                            " is none, expected an array");
    }
    if (arrays[i].device().type == DeviceType::kGpu) {
      throw InvalidArgument("PushHostFunction ", name, ": ", kind, " ", i, " lies on ",
                            arrays[i].device(), ", expected host memory");
    }
  }
}

}  // namespace

void PushHostFunction(std::function<void()> function, std::span<const NDArray> reads,
                      std::span<const NDArray> writes, std::string_view name,
                      std::source_location site) {
  CheckOnHost(reads, "read array", name);
  CheckOnHost(writes, "written array", name);
  std::vector<Variable*> read, written, updated;
  for (const NDArray& array : reads) read.push_back(ArrayAccess::Var(array));
  for (const NDArray& array : writes) {
    const ArrayMemory memory = ArrayAccess::Memory(array);
    // The elements beside a part are kept, so an error that they carry is, too.
    (memory.IsPart() ? updated : written).push_back(memory.var);
  }
  Engine::Get()->PushSync([function = std::move(function)](const RunContext&) { function(); },
                          Device::Cpu(), read, written,
                          {.name = name, .updates = updated, .merge_duplicates = true}, site);
}

}  // namespace tessera
