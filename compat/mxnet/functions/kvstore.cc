// Stores of parameters. Functions of MXNet's C API; see types.h.
#include "tessera/kvstore/kvstore.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {

/// Functions that update a stored value. They free the arrays' handles.
using KVStoreUpdater = void (*)(int key, NDArrayHandle received, NDArrayHandle stored, void* data);
using KVStoreStrUpdater = void (*)(const char* key, NDArrayHandle received, NDArrayHandle stored,
                                   void* data);

namespace {

/// The object behind a store's handle.
struct ApiKVStore {
  std::shared_ptr<KVStore> store;
  std::string type;  ///< as it was asked for
};

Handles<ApiKVStore>& Stores() {
  static auto* const stores = new Handles<ApiKVStore>("a KVStore", 6);
  return *stores;
}

KVStore& StoreOf(KVStoreHandle handle, std::shared_ptr<ApiKVStore>* owner) {
  *owner = Stores().Get(handle);
  return *(*owner)->store;
}

/// Returns whether a store's name is one of many workers. MXNet looks for parts of names.
bool IsOfManyWorkers(const std::string& name) { return name.find("dist") != std::string::npos; }

/// Returns our kind of store for a name of MXNet's. Names of kinds that we do not have stay as they
/// are.
std::string KindOf(const std::string& name) {
  // One process with all of its devices: where the sum is computed is the store's affair.
  if (name == "local" || name == "device" || name == "local_allreduce_cpu" ||
      name == "local_allreduce_device" || name == "local_update_cpu") {
    return "local";
  }
  if (!IsOfManyWorkers(name) || name.find("async") != std::string::npos) return name;
  return name.find("device") != std::string::npos ? "dist_device_sync" : "dist_sync";
}

void Create(const char* type, KVStoreHandle* out) {
  NotNull(out, "out");
  const std::string name = NotNull(type, "type");
  *out = Stores().Add({.store = KVStore::Create(KindOf(name)), .type = name});
}

std::vector<KVKey> KeysOf(const int* keys, uint32_t count) {
  std::vector<KVKey> result;
  for (const int key : ListOf(keys, count, "keys")) result.emplace_back(key);
  return result;
}

std::vector<KVKey> KeysOf(const char** keys, uint32_t count) {
  std::vector<KVKey> result;
  for (std::string& key : TextsOf(keys, count, "keys")) result.emplace_back(std::move(key));
  return result;
}

/// Arrays with one key, which a list may name several times: one for each device.
struct KeyedArrays {
  KVKey key;
  std::vector<NDArray> arrays;
};

std::vector<KeyedArrays> Group(const std::vector<KVKey>& keys, NDArrayHandle* handles) {
  const std::vector<NDArray> arrays = ArraysOf(handles, keys.size(), "vals");
  std::vector<KeyedArrays> groups;
  std::map<KVKey, size_t> group_of;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto [found, is_new] = group_of.emplace(keys[i], groups.size());
    if (is_new) groups.push_back({keys[i], {}});
    groups[found->second].arrays.push_back(arrays[i]);
  }
  return groups;
}

void Init(KVStoreHandle handle, const std::vector<KVKey>& keys, NDArrayHandle* values) {
  std::shared_ptr<ApiKVStore> owner;
  KVStore& store = StoreOf(handle, &owner);
  for (const KeyedArrays& group : Group(keys, values)) store.Init(group.key, group.arrays[0]);
}

void Push(KVStoreHandle handle, const std::vector<KVKey>& keys, NDArrayHandle* values,
          int priority) {
  std::shared_ptr<ApiKVStore> owner;
  KVStore& store = StoreOf(handle, &owner);
  for (const KeyedArrays& group : Group(keys, values)) {
    store.Push(group.key, group.arrays, priority);
  }
}

/// With `ignores_sparse`, arrays that are sparse are left as they are.
void Pull(KVStoreHandle handle, const std::vector<KVKey>& keys, NDArrayHandle* values, int priority,
          bool ignores_sparse = false) {
  std::shared_ptr<ApiKVStore> owner;
  KVStore& store = StoreOf(handle, &owner);
  for (KeyedArrays& group : Group(keys, values)) {
    if (ignores_sparse) {
      std::erase_if(group.arrays, [](const NDArray& array) {
        return !array.is_none() && StorageTypeOf(array) != StorageType::kDefault;
      });
      if (group.arrays.empty()) continue;
    }
    store.Pull(group.key, group.arrays, priority);
  }
}

void PullRows(KVStoreHandle handle, const std::vector<KVKey>& keys, NDArrayHandle* values,
              NDArrayHandle* row_ids) {
  std::shared_ptr<ApiKVStore> owner;
  KVStore& store = StoreOf(handle, &owner);
  const std::vector<NDArray> out = ArraysOf(values, keys.size(), "vals");
  const std::vector<NDArray> rows = ArraysOf(row_ids, keys.size(), "row_ids");
  for (size_t i = 0; i < keys.size(); ++i) {
    if (rows[i].is_none()) throw InvalidArgument("row_ids of key ", ToString(keys[i]), " is none");
    // Numbers of rows have one axis.
    store.PullRows(keys[i], out[i], rows[i].Reshape({-1}));
  }
}

void SetUpdater(KVStoreHandle handle, KVStoreUpdater updater, KVStoreStrUpdater text_updater,
                void* data) {
  NotNull(updater, "updater");
  std::shared_ptr<ApiKVStore> owner;
  StoreOf(handle, &owner)
      .set_updater([updater, text_updater, data](const KVKey& key, const NDArray& received,
                                                 const NDArray& stored) {
        const CallbackScope scope;
        scope.RequireAllowed();
        const int* const number = std::get_if<int>(&key);
        if (number == nullptr && text_updater == nullptr) {
          throw InvalidArgument("the updater takes no keys of text, but key ", ToString(key),
                                " is one");
        }
        const NDArrayHandle handles[] = {Arrays().Add(received), Arrays().Add(stored)};
        if (number != nullptr) {
          updater(*number, handles[0], handles[1], data);
        } else {
          text_updater(std::get<std::string>(key).c_str(), handles[0], handles[1], data);
        }
      });
}

/// Sets the compression of gradients. Stores of type local send no gradients, so there is nothing
/// to compress. Further parameters are ignored, as MXNet does.
void SetGradientCompression(KVStoreHandle handle, uint32_t count, const char** keys,
                            const char** values) {
  const std::string& store = Stores().Get(handle)->type;
  const ParameterMap parameters = ParametersOf(count, keys, values);
  const auto type = parameters.find("type");
  if (type == parameters.end() || type->second != "2bit") {
    throw InvalidArgument("gradient compression: the type is \"",
                          type == parameters.end() ? "" : type->second, "\", expected \"2bit\"");
  }
  const auto given = parameters.find("threshold");
  const float threshold =
      given == parameters.end() ? 0.5f : ops_internal::ParameterText<float>::Parse(given->second);
  if (!(threshold > 0)) {
    throw InvalidArgument("gradient compression: the threshold is ", threshold,
                          ", expected a number above 0");
  }
  if (store.find("device") == std::string::npos && !IsOfManyWorkers(store)) return;
  std::shared_ptr<ApiKVStore> owner;
  StoreOf(handle, &owner).CompressGradients(threshold);
}

/// Stores have no servers. A local one of MXNet's ignores commands; the workers of others rely on
/// them.
void SendCommand(KVStoreHandle handle, int command) {
  const std::string type = Stores().Get(handle)->type;
  if (!IsOfManyWorkers(type)) return;
  throw Unimplemented("command ", command, " to the servers of a KVStore of type ", type,
                      ", which has none; expected an updater, which each worker runs (in Python, "
                      "`import tessera_mxnet` makes set_optimizer set one)");
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXKVStoreCreate(const char* type, KVStoreHandle* out) {
  return ApiCall([&] { Create(type, out); });
}

TESSERA_MXNET_API int MXKVStoreFree(KVStoreHandle handle) {
  return ApiCall([&] { Stores().Remove(handle); });
}

TESSERA_MXNET_API int MXKVStoreGetType(KVStoreHandle handle, const char** type) {
  return ApiCall(
      [&] { *NotNull(type, "type") = Results::OfThread().Keep(Stores().Get(handle)->type); });
}

TESSERA_MXNET_API int MXKVStoreInit(KVStoreHandle handle, uint32_t num, const int* keys,
                                    NDArrayHandle* vals) {
  return ApiCall([&] { Init(handle, KeysOf(keys, num), vals); });
}

TESSERA_MXNET_API int MXKVStoreInitEx(KVStoreHandle handle, uint32_t num, const char** keys,
                                      NDArrayHandle* vals) {
  return ApiCall([&] { Init(handle, KeysOf(keys, num), vals); });
}

TESSERA_MXNET_API int MXKVStorePush(KVStoreHandle handle, uint32_t num, const int* keys,
                                    NDArrayHandle* vals, int priority) {
  return ApiCall([&] { Push(handle, KeysOf(keys, num), vals, priority); });
}

TESSERA_MXNET_API int MXKVStorePushEx(KVStoreHandle handle, uint32_t num, const char** keys,
                                      NDArrayHandle* vals, int priority) {
  return ApiCall([&] { Push(handle, KeysOf(keys, num), vals, priority); });
}

TESSERA_MXNET_API int MXKVStorePull(KVStoreHandle handle, uint32_t num, const int* keys,
                                    NDArrayHandle* vals, int priority) {
  return ApiCall([&] { Pull(handle, KeysOf(keys, num), vals, priority); });
}

TESSERA_MXNET_API int MXKVStorePullEx(KVStoreHandle handle, uint32_t num, const char** keys,
                                      NDArrayHandle* vals, int priority) {
  return ApiCall([&] { Pull(handle, KeysOf(keys, num), vals, priority); });
}

TESSERA_MXNET_API int MXKVStorePullWithSparse(KVStoreHandle handle, uint32_t num, const int* keys,
                                              NDArrayHandle* vals, int priority,
                                              bool ignore_sparse) {
  return ApiCall([&] { Pull(handle, KeysOf(keys, num), vals, priority, ignore_sparse); });
}

TESSERA_MXNET_API int MXKVStorePullWithSparseEx(KVStoreHandle handle, uint32_t num,
                                                const char** keys, NDArrayHandle* vals,
                                                int priority, bool ignore_sparse) {
  return ApiCall([&] { Pull(handle, KeysOf(keys, num), vals, priority, ignore_sparse); });
}

TESSERA_MXNET_API int MXKVStorePullRowSparse(KVStoreHandle handle, uint32_t num, const int* keys,
                                             NDArrayHandle* vals, NDArrayHandle* row_ids,
                                             int /*priority*/) {
  return ApiCall([&] { PullRows(handle, KeysOf(keys, num), vals, row_ids); });
}

TESSERA_MXNET_API int MXKVStorePullRowSparseEx(KVStoreHandle handle, uint32_t num,
                                               const char** keys, NDArrayHandle* vals,
                                               NDArrayHandle* row_ids, int /*priority*/) {
  return ApiCall([&] { PullRows(handle, KeysOf(keys, num), vals, row_ids); });
}

TESSERA_MXNET_API int MXKVStoreBroadcast(KVStoreHandle handle, uint32_t vnum, const int* vkeys,
                                         uint32_t onum, const int* okeys, NDArrayHandle* vals,
                                         NDArrayHandle* outs, int priority) {
  return ApiCall([&] {
    Init(handle, KeysOf(vkeys, vnum), vals);
    Pull(handle, KeysOf(okeys, onum), outs, priority);
  });
}

TESSERA_MXNET_API int MXKVStoreBroadcastEx(KVStoreHandle handle, uint32_t vnum, const char** vkeys,
                                           uint32_t onum, const char** okeys, NDArrayHandle* vals,
                                           NDArrayHandle* outs, int priority) {
  return ApiCall([&] {
    Init(handle, KeysOf(vkeys, vnum), vals);
    Pull(handle, KeysOf(okeys, onum), outs, priority);
  });
}

TESSERA_MXNET_API int MXKVStorePushPull(KVStoreHandle handle, uint32_t vnum, const int* vkeys,
                                        uint32_t onum, const int* okeys, NDArrayHandle* vals,
                                        NDArrayHandle* outs, int priority) {
  return ApiCall([&] {
    Push(handle, KeysOf(vkeys, vnum), vals, priority);
    Pull(handle, KeysOf(okeys, onum), outs, priority);
  });
}

TESSERA_MXNET_API int MXKVStorePushPullEx(KVStoreHandle handle, uint32_t vnum, const char** vkeys,
                                          uint32_t onum, const char** okeys, NDArrayHandle* vals,
                                          NDArrayHandle* outs, int priority) {
  return ApiCall([&] {
    Push(handle, KeysOf(vkeys, vnum), vals, priority);
    Pull(handle, KeysOf(okeys, onum), outs, priority);
  });
}

TESSERA_MXNET_API int MXKVStoreSetUpdater(KVStoreHandle handle, KVStoreUpdater updater,
                                          void* updater_handle) {
  return ApiCall([&] { SetUpdater(handle, updater, nullptr, updater_handle); });
}

TESSERA_MXNET_API int MXKVStoreSetUpdaterEx(KVStoreHandle handle, KVStoreUpdater updater,
                                            KVStoreStrUpdater str_updater, void* updater_handle) {
  return ApiCall([&] { SetUpdater(handle, updater, str_updater, updater_handle); });
}

TESSERA_MXNET_API int MXKVStoreGetRank(KVStoreHandle handle, int* ret) {
  return ApiCall([&] { *NotNull(ret, "ret") = Stores().Get(handle)->store->rank(); });
}

TESSERA_MXNET_API int MXKVStoreGetGroupSize(KVStoreHandle handle, int* ret) {
  return ApiCall([&] { *NotNull(ret, "ret") = Stores().Get(handle)->store->num_workers(); });
}

TESSERA_MXNET_API int MXKVStoreIsWorkerNode(int* ret) {
  return ApiCall([&] { *NotNull(ret, "ret") = 1; });
}

TESSERA_MXNET_API int MXKVStoreIsServerNode(int* ret) {
  return ApiCall([&] { *NotNull(ret, "ret") = 0; });
}

TESSERA_MXNET_API int MXKVStoreIsSchedulerNode(int* ret) {
  return ApiCall([&] { *NotNull(ret, "ret") = 0; });
}

TESSERA_MXNET_API int MXKVStoreBarrier(KVStoreHandle handle) {
  return ApiCall([&] { Stores().Get(handle)->store->Barrier(); });
}

TESSERA_MXNET_API int MXKVStoreSetBarrierBeforeExit(KVStoreHandle handle,
                                                    int /*barrier_before_exit*/) {
  return ApiCall([&] { Stores().Get(handle); });
}

TESSERA_MXNET_API int MXKVStoreSetGradientCompression(KVStoreHandle handle, uint32_t num_params,
                                                      const char** keys, const char** vals) {
  return ApiCall([&] { SetGradientCompression(handle, num_params, keys, vals); });
}

TESSERA_MXNET_API int MXTesseraKVStoreFail(KVStoreHandle handle, const char* cause) {
  return ApiCall([&] { Stores().Get(handle)->store->Fail(NotNull(cause, "cause")); });
}

// MXNet's local stores answer as these functions do.

TESSERA_MXNET_API int MXInitPSEnv(uint32_t num_vars, const char** keys, const char** vals) {
  return ApiCall([&] { ParametersOf(num_vars, keys, vals); });
}

TESSERA_MXNET_API int MXKVStoreRunServer(KVStoreHandle handle,
                                         void (* /*controller*/)(int, const char*, void*),
                                         void* /*controller_handle*/) {
  return ApiCall([&] { Stores().Get(handle); });
}

TESSERA_MXNET_API int MXKVStoreSendCommmandToServers(KVStoreHandle handle, int cmd_id,
                                                     const char* /*cmd_body*/) {
  return ApiCall([&] { SendCommand(handle, cmd_id); });
}

TESSERA_MXNET_API int MXKVStoreGetNumDeadNode(KVStoreHandle handle, int /*node_id*/, int* number,
                                              int /*timeout_sec*/) {
  return ApiCall([&] {
    Stores().Get(handle);
    *NotNull(number, "number") = 0;
  });
}
