#include "tessera/kvstore/kvstore.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/kvstore/communicator_library.h"
#include "tessera/kvstore/kvstore_distributed.h"
#include "tessera/kvstore/kvstore_local.h"

namespace tessera {

std::string ToString(const KVKey& key) {
  const int* const number = std::get_if<int>(&key);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(key);
}

std::unique_ptr<KVStore> KVStore::Create(std::string_view type) {
  if (type == "local" || type == "device") return kvstore_internal::MakeLocalStore();
  if (kvstore_internal::IsDistributed(type)) {
    return Create(type, kvstore_internal::MakeMpiCommunicator());
  }
  throw InvalidArgument("KVStore::Create: unknown type '", Excerpt(type),
                        "', expected one of: local, device, dist_sync, dist_device_sync");
}

std::unique_ptr<KVStore> KVStore::Create(std::string_view type,
                                         std::shared_ptr<Communicator> communicator) {
  if (communicator == nullptr) throw InvalidArgument("KVStore::Create: no communicator given");
  if (kvstore_internal::IsDistributed(type)) {
    return kvstore_internal::MakeDistributedStore(type, std::move(communicator));
  }
  throw InvalidArgument("KVStore::Create: type '", Excerpt(type),
                        "' uses no communicator, expected one of: dist_sync, dist_device_sync");
}

}  // namespace tessera
