#include "tessera/examples/many_workers/many_workers.h"

#include <cstdio>

#include "tessera/base/error.h"

namespace tessera::many_workers {

Worker Join(const std::string& kvstore) {
  if (kvstore == "none") return {};
  Worker worker{.store = KVStore::Create(kvstore)};
  worker.rank = worker.store->rank();
  worker.num_workers = worker.store->num_workers();
  if (!worker.is_first() && std::freopen("/dev/null", "w", stdout) == nullptr) {
    throw NotFound("/dev/null cannot be opened, expected it for the output of further processes");
  }
  return worker;
}

std::string FolderOf(const Worker& worker, const std::string& path) {
  if (path.empty() || worker.num_workers == 1) return path;
  return path + "/worker-" + std::to_string(worker.rank);
}

}  // namespace tessera::many_workers
