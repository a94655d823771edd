#include "tessera/kvstore/kvstore.h"

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/kvstore/kvstore_local.h"

namespace tessera {

std::string ToString(const KVKey& key) {
  const int* const number = std::get_if<int>(&key);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(key);
}

std::unique_ptr<KVStore> KVStore::Create(std::string_view type) {
  if (type == "local" || type == "device") return kvstore_internal::MakeLocalStore();
  throw InvalidArgument("KVStore::Create: unknown type '", Excerpt(type),
                        "', expected one of: local, device");
}

}  // namespace tessera
