// The library itself: version, features, seeds, settings. Functions of MXNet's C API; see types.h.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/engine/engine.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/storage/storage.h"

using tessera::Engine;
using tessera::ResourceManager;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

/// A feature of the build, as clients read it.
struct LibFeature {
  const char* name;
  bool enabled;
};

namespace {

/// The version of the interface: 1.9.1.
constexpr int kVersion = 10901;

// The names that MXNet 1.9.1 lists, in its order. Clients look their names up.
constexpr LibFeature kFeatures[] = {
    {"CUDA", false},
    {"CUDNN", false},
    {"NCCL", false},
    {"CUDA_RTC", false},
    {"TENSORRT", false},
    {"CPU_SSE", true},
    {"CPU_SSE2", true},
    {"CPU_SSE3", true},
    {"CPU_SSE4_1", false},
    {"CPU_SSE4_2", false},
    {"CPU_SSE4A", false},
    {"CPU_AVX", true},
    {"CPU_AVX2", true},
    {"OPENMP", false},
    {"SSE", false},
    {"F16C", false},
    {"JEMALLOC", false},
    {"BLAS_OPEN", false},
    {"BLAS_ATLAS", false},
    {"BLAS_MKL", false},
    {"BLAS_APPLE", false},
    {"LAPACK", false},
    {"MKLDNN", false},
    {"OPENCV", false},
    {"CAFFE", false},
    {"PROFILER", true},
    {"DIST_KVSTORE", true},
    {"CXX14", true},
    {"INT64_TENSOR_SIZE", false},
    {"SIGNAL_HANDLER", false},
    {"DEBUG", false},
    {"TVM_OP", false},
};

/// Returns when nothing pends. Other threads may push forever, as daemons of Python do until the
/// interpreter ends: the wait then lasts some seconds, and until as many operations are complete as
/// there were at first.
void FinishWork() {
  if (InCallback()) return;  // whose operation would wait for itself
  using Clock = std::chrono::steady_clock;
  const Engine& engine = *Engine::Get();
  const auto pushed_before = engine.counters().pushed;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(3);
  while (true) {
    const tessera::EngineCounters counters = engine.counters();
    const auto completed = counters.run + counters.skipped;
    if (completed >= counters.pushed) return;
    if (completed >= pushed_before && Clock::now() > end) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TESSERA_MXNET_API const char* MXGetLastError() { return Results::OfThread().error().c_str(); }

TESSERA_MXNET_API int MXGetVersion(int* out) {
  return ApiCall([&] { *NotNull(out, "out") = kVersion; });
}

TESSERA_MXNET_API int MXLibInfoFeatures(const LibFeature** libFeature, size_t* size) {
  return ApiCall([&] {
    *NotNull(libFeature, "libFeature") = kFeatures;
    *NotNull(size, "size") = std::size(kFeatures);
  });
}

TESSERA_MXNET_API int MXRandomSeed(int seed) {
  return ApiCall([&] { ResourceManager::Get()->SeedRandom(static_cast<uint64_t>(seed)); });
}

TESSERA_MXNET_API int MXRandomSeedContext(int seed, int dev_type, int dev_id) {
  return ApiCall([&] {
    ResourceManager::Get()->SeedRandom(DeviceOf(dev_type, dev_id), static_cast<uint64_t>(seed));
  });
}

TESSERA_MXNET_API int MXNotifyShutdown() {
  return ApiCall([&] {
    // The functions of the client that operations still call may run.
    FinishWork();
    EndCallbacks();
    FinishWork();
  });
}

TESSERA_MXNET_API int MXIsNumpyShape(int* curr) {
  return ApiCall([&] { *NotNull(curr, "curr") = NumpyShapeMode(); });
}

TESSERA_MXNET_API int MXSetIsNumpyShape(int is_np_shape, int* prev) {
  return ApiCall([&] {
    const int before = SetNumpyShapeMode(is_np_shape);
    if (prev != nullptr) *prev = before;
  });
}

TESSERA_MXNET_API int MXEngineSetBulkSize(int bulk_size, int* prev_bulk_size) {
  return ApiCall([&] {
    // Graphs choose their segments by the work in them.
    thread_local int size = 0;
    if (prev_bulk_size != nullptr) *prev_bulk_size = size;
    size = bulk_size;
  });
}

TESSERA_MXNET_API int MXSetNumOMPThreads(int /*thread_num*/) {
  return ApiCall([] {});  // TESSERA_NUM_THREADS sets the threads
}

TESSERA_MXNET_API int MXGetGPUCount(int* out) {
  return ApiCall([&] { *NotNull(out, "out") = 0; });
}

TESSERA_MXNET_API int MXStorageEmptyCache(int dev_type, int dev_id) {
  return ApiCall([&] { tessera::Storage::Get()->ReleaseAll(DeviceOf(dev_type, dev_id)); });
}

TESSERA_MXNET_API int MXGetEnv(const char* name, const char** value) {
  return ApiCall([&] {
    const char* const found = std::getenv(NotNull(name, "name"));
    // A null pointer stands for a variable that is not set.
    *NotNull(value, "value") =
        found == nullptr ? nullptr : Results::OfThread().Keep(std::string(found));
  });
}

TESSERA_MXNET_API int MXSetEnv(const char* name, const char* value) {
  return ApiCall([&] {
    NotNull(name, "name");
    if ((value == nullptr ? unsetenv(name) : setenv(name, value, 1)) != 0) {
      throw tessera::InvalidArgument("MXSetEnv: \"", name, "\" is not the name of a variable");
    }
  });
}

TESSERA_MXNET_API int MXListFunctions(uint32_t* out_size, FunctionHandle** out_array) {
  return ApiCall([&] {
    // Functions of arrays that are no operators, of which there are none.
    *NotNull(out_size, "out_size") = 0;
    *NotNull(out_array, "out_array") = nullptr;
  });
}

TESSERA_MXNET_API int MXGetFunction(const char* name, FunctionHandle* out) {
  return ApiCall([&] {
    NotNull(name, "name");
    // A null handle stands for a function that is not there.
    *NotNull(out, "out") = nullptr;
  });
}

TESSERA_MXNET_API int MXNetFuncListGlobalNames(int* out_size, const char*** out_array) {
  return ApiCall([&] {
    *NotNull(out_size, "out_size") = 0;
    *NotNull(out_array, "out_array") = nullptr;
  });
}

TESSERA_MXNET_API int MXNetFuncGetGlobal(const char* name, void** out) {
  return ApiCall([&] {
    NotNull(name, "name");
    *NotNull(out, "out") = nullptr;
  });
}
