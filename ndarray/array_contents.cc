#include "tessera/ndarray/array_contents.h"

#include "tessera/ndarray/array_memory.h"

namespace tessera::ndarray_internal {

ArrayContents::ArrayContents(const NDArray& array)
    : memory_(ArrayAccess::Owner(array)), shape_(array.shape()), dtype_(array.dtype()) {
  const ArrayMemory memory = ArrayAccess::Memory(array);
  var_ = memory.var;
  version_ = memory.var->version();
  begin_ = memory.begin;
}

bool ArrayContents::AreOf(const NDArray& array) const {
  // A new chunk may have the address of one that is gone, but not its control block.
  const std::shared_ptr<const void> owner = ArrayAccess::Owner(array);
  if (memory_.owner_before(owner) || owner.owner_before(memory_)) return false;
  const ArrayMemory memory = ArrayAccess::Memory(array);
  return memory.var == var_ && memory.var->version() == version_ && memory.begin == begin_ &&
         array.dtype() == dtype_ && array.shape() == shape_ &&
         !ArrayAccess::IsWrittenElsewhere(array);
}

}  // namespace tessera::ndarray_internal
