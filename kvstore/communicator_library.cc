#include "tessera/kvstore/communicator_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/environment.h"
#include "tessera/base/error.h"

namespace tessera::kvstore_internal {
namespace {

constexpr const char* kLibrary = "libtessera_mpi.so";

/// Returns the files to try, in their order.
std::vector<std::string> Candidates() {
  const std::string setting = EnvironmentString("TESSERA_MPI_LIBRARY", "");
  if (!setting.empty()) return {setting};
  std::vector<std::string> files;
  Dl_info own;
  if (dladdr(reinterpret_cast<void*>(&MakeMpiCommunicator), &own) != 0) {
    std::error_code ignored;
    const std::filesystem::path path = std::filesystem::absolute(own.dli_fname, ignored);
    const std::filesystem::path beside = path.parent_path() / kLibrary;
    if (std::filesystem::exists(beside, ignored)) files.push_back(beside.string());
  }
  files.emplace_back(kLibrary);
  return files;
}

MakeCommunicatorFunction Load() {
  std::string problems;
  for (const std::string& file : Candidates()) {
    // MPI loads plugins of its own, which look for MPI's functions among the global ones.
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      problems += std::string(problems.empty() ? "" : "; ") + dlerror();
      continue;
    }
    if (void* const function = dlsym(library, kMakeCommunicatorName)) {
      return reinterpret_cast<MakeCommunicatorFunction>(function);
    }
    problems +=
        std::string(problems.empty() ? "" : "; ") + file + " has no " + kMakeCommunicatorName;
  }
  throw NotFound("KVStore::Create: many workers need MPI and ", kLibrary,
                 ", which cannot be loaded: ", problems,
                 "; expected an MPI (Debian: apt-get install openmpi-bin) and ", kLibrary,
                 ", built for it, beside Tessera's library or where TESSERA_MPI_LIBRARY says");
}

}  // namespace

std::shared_ptr<Communicator> MakeMpiCommunicator() {
  static const MakeCommunicatorFunction make = Load();
  char error[1024] = "";
  Communicator* const communicator = make(kCommunicatorInterface, error, sizeof(error));
  if (communicator == nullptr) throw FailedPrecondition("KVStore::Create: ", error);
  return std::shared_ptr<Communicator>(communicator);
}

}  // namespace tessera::kvstore_internal
