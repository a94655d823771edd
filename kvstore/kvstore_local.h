#ifndef TESSERA_KVSTORE_KVSTORE_LOCAL_H_
#define TESSERA_KVSTORE_KVSTORE_LOCAL_H_

#include <memory>

#include "tessera/kvstore/kvstore.h"

namespace tessera::kvstore_internal {

/// The store of one process: values lie in host memory, and sums are made there.
std::unique_ptr<KVStore> MakeLocalStore();

}  // namespace tessera::kvstore_internal

#endif  // TESSERA_KVSTORE_KVSTORE_LOCAL_H_
