#ifndef TESSERA_EXAMPLES_MANY_WORKERS_MANY_WORKERS_H_
#define TESSERA_EXAMPLES_MANY_WORKERS_MANY_WORKERS_H_

#include <memory>
#include <string>

#include "tessera/kvstore/kvstore.h"

namespace tessera::many_workers {

/// The place of this process among those that train one network.
struct Worker {
  std::shared_ptr<KVStore> store = nullptr;  ///< null: the process is alone, without a store
  int rank = 0;
  int num_workers = 1;

  bool is_first() const { return rank == 0; }
};

/// Makes the store of a kind, or none for the kind "none". Workers other than the first print
/// nothing from then on. Throws what KVStore::Create throws, and Error(kNotFound) if there is no
/// /dev/null.
Worker Join(const std::string& kvstore);

/// Returns a worker's own folder in that of all. For one worker this is the folder itself. An empty
/// path stays empty.
std::string FolderOf(const Worker& worker, const std::string& path);

}  // namespace tessera::many_workers

#endif  // TESSERA_EXAMPLES_MANY_WORKERS_MANY_WORKERS_H_
