#ifndef TESSERA_KVSTORE_KVSTORE_DISTRIBUTED_H_
#define TESSERA_KVSTORE_KVSTORE_DISTRIBUTED_H_

#include <memory>
#include <string_view>

#include "tessera/kvstore/communicator.h"
#include "tessera/kvstore/kvstore.h"

namespace tessera::kvstore_internal {

/// Returns whether a type's values are summed over many workers.
bool IsDistributed(std::string_view type);

/// Returns a store of such a type, whose workers are the communicator's ranks. The store ends the
/// use of the communicator.
std::unique_ptr<KVStore> MakeDistributedStore(std::string_view type,
                                              std::shared_ptr<Communicator> communicator);

}  // namespace tessera::kvstore_internal

#endif  // TESSERA_KVSTORE_KVSTORE_DISTRIBUTED_H_
