#ifndef TESSERA_KVSTORE_KVSTORE_LOCAL_H_
#define TESSERA_KVSTORE_KVSTORE_LOCAL_H_

#include <memory>

#include "tessera/kvstore/kvstore.h"

namespace tessera::kvstore_internal {

/// Returns the store of one process, which keeps values and sums in host memory.
std::unique_ptr<KVStore> MakeLocalStore();

}  // namespace tessera::kvstore_internal

#endif  // TESSERA_KVSTORE_KVSTORE_LOCAL_H_
