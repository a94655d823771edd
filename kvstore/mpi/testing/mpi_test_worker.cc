// A worker of mpi_test.sh: mpi_test_worker WHAT [FOLDER]. Prints "rank R of N: ok" at the end.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;

NDArray Random(uint32_t seed, index_t size, DType dtype = DType::kFloat32) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> numbers(-100, 100);
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = numbers(random);
  return Vector(values).AsType(dtype);
}

NDArray Pulled(KVStore& store, const KVKey& key, const NDArray& like) {
  NDArray out(like.shape(), Device::Cpu(), like.dtype());
  store.Pull(key, out);
  return out;
}

std::vector<std::byte> Bytes(const NDArray& array) {
  const index_t size = array.shape().Size();
  std::vector<std::byte> bytes(static_cast<size_t>(size * DTypeSizeBytes(array.dtype())));
  array.SyncCopyToCPU(bytes.data(), size);
  return bytes;
}

void RequireEqual(const NDArray& found, const NDArray& expected, const std::string& what) {
  if (Bytes(found) != Bytes(expected)) throw std::runtime_error(what + ": other bits");
}

/// Sums of all workers have the bits of one process that has the values of all.
void Sums(KVStore& store) {
  const int workers = store.num_workers();
  int key = 0;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt32, DType::kInt8}) {
    // Two that are gathered whole, one whose parts differ by an element, and several pieces.
    for (const index_t size : {index_t{1}, index_t{1003}, index_t{140003}, index_t{1100000}}) {
      std::vector<NDArray> values;
      for (int rank = 0; rank < workers; ++rank) {
        values.push_back(Random(static_cast<uint32_t>(100 * key + rank), size, dtype));
      }
      const auto local = KVStore::Create("local");
      local->Init(key, values[0]);
      local->Push(key, values);
      const NDArray& own = values[static_cast<size_t>(store.rank())];
      store.Init(key, own);
      RequireEqual(Pulled(store, key, own), values[0], "the first value of key " + ToString(key));
      store.Push(key, own);
      RequireEqual(Pulled(store, key, own), Pulled(*local, key, own), "key " + ToString(key));
      ++key;
    }
  }
}

KVStore::Updater Momentum(index_t size) {
  const auto states = std::make_shared<std::map<KVKey, NDArray>>();
  return [states, size](const KVKey& key, const NDArray& received, const NDArray& stored) {
    NDArray& state = (*states)[key];
    if (state.is_none()) {
      state = NDArray({size});
      state = 0.0f;
    }
    state *= 0.9f;
    state -= received * 0.1f;
    NDArray weight = stored;
    weight += state;
  };
}

/// Trains several weights on a quadratic loss; workers push their keys in orders of their own.
void Train(KVStore& store, std::chrono::milliseconds pause_of_one) {
  constexpr index_t kSize = 5000;
  constexpr int kKeys = 6, kSteps = 50;
  const auto local = KVStore::Create("local");
  const auto target = [](int key, int rank) {
    return Random(static_cast<uint32_t>(1000 * key + rank), kSize);
  };
  for (KVStore* const each : {&store, local.get()}) {
    each->set_updater(Momentum(kSize));
    for (int key = 0; key < kKeys; ++key) each->Init(key, target(key, 99));
  }
  const NDArray like({kSize});
  for (int step = 0; step < kSteps; ++step) {
    if (store.rank() == 1) std::this_thread::sleep_for(pause_of_one);
    std::vector<NDArray> weights;
    for (int key = 0; key < kKeys; ++key) weights.push_back(Pulled(store, key, like));
    for (int i = 0; i < kKeys; ++i) {
      const int key = (i + store.rank() + step) % kKeys;
      store.Push(key, weights[static_cast<size_t>(key)] - target(key, store.rank()));
    }
    for (int key = 0; key < kKeys; ++key) {
      const NDArray weight = Pulled(*local, key, like);
      std::vector<NDArray> gradients;
      for (int rank = 0; rank < store.num_workers(); ++rank) {
        gradients.push_back(weight - target(key, rank));
      }
      local->Push(key, gradients);
      RequireEqual(Pulled(store, key, like), Pulled(*local, key, like),
                   "step " + std::to_string(step) + ", key " + std::to_string(key));
    }
  }
}

/// Pushes and waits, step by step.
void Steps(KVStore& store, int steps) {
  store.Init("w", Vector({0, 0}));
  for (int step = 0; step < steps; ++step) {
    store.Push("w", Vector({1, 2}));
    Pulled(store, "w", NDArray({2})).WaitToRead();
  }
}

/// Says in the folder that the worker has begun, and goes on until it is killed.
void StepForEver(KVStore& store, const std::string& folder) {
  store.Init("w", Random(1, 300000));
  const NDArray gradient = Random(2, 300000);
  for (int step = 0;; ++step) {
    store.Push("w", gradient);
    Pulled(store, "w", gradient).WaitToRead();
    if (step == 0) std::ofstream(folder + "/" + std::to_string(store.rank())) << getpid() << "\n";
  }
}

/// A second store is made at another place of each worker's program: rank 0 has not yet computed
/// what the others wait for. Both stores are then used in turns.
void TwoStores(KVStore& store) {
  store.Init("w", Vector({0, 0}));
  const NDArray gradient = Vector({1, 2});
  if (store.rank() == 0) {
    Engine::Get()->PushSync(
        [](RunContext) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); },
        Device::Cpu(), {}, {gradient.var()}, {.name = "compute"});
  }
  store.Push("w", gradient);
  if (store.rank() != 0) Pulled(store, "w", gradient).WaitToRead();
  const std::unique_ptr<KVStore> second = KVStore::Create("dist_sync");
  second->Init("w", Vector({0, 0}));
  for (int step = 0; step < 20; ++step) {
    const float factor = static_cast<float>(step);
    store.Push("w", gradient);
    second->Push("w", Vector({factor, factor}));
    const float sum = factor * static_cast<float>(store.num_workers());
    RequireEqual(Pulled(*second, "w", gradient), Vector({sum, sum}), "the second store");
  }
  const float workers = static_cast<float>(store.num_workers());
  RequireEqual(Pulled(store, "w", gradient), Vector({workers, 2 * workers}), "the first store");
}

/// A child of a fork cannot use the store nor make one, and does not disturb its parent.
void Fork(KVStore& store) {
  Steps(store, 2);
  const pid_t child = fork();
  if (child == 0) {
    int refusals = 0;
    for (const auto& use : {std::function<void()>([&] { store.Barrier(); }),
                            std::function<void()>([] { KVStore::Create("dist_sync"); })}) {
      try {
        use();
      } catch (const Error& error) {
        if (error.code() == Error::kFailedPrecondition) ++refusals;
      }
    }
    _exit(refusals == 2 ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
    throw std::runtime_error("the child has used the store");
  }
  store.Barrier();
}

void Run(const std::string& what, const std::string& folder) {
  const std::unique_ptr<KVStore> store = KVStore::Create("dist_sync");
  const int rank = store->rank();
  if (what == "sums") {
    Sums(*store);
  } else if (what == "train") {
    Train(*store, std::chrono::milliseconds(0));
  } else if (what == "slow") {
    Train(*store, std::chrono::milliseconds(50));
  } else if (what == "stores") {
    TwoStores(*store);
  } else if (what == "fork") {
    Fork(*store);
  } else if (what == "uneven") {
    Steps(*store, rank == 1 ? 3 : 4);
  } else if (what == "exit") {
    Steps(*store, 2);
    if (rank == 1) std::exit(0);
    store->Barrier();
  } else if (what == "exception") {
    Steps(*store, 2);
    if (rank == 1) throw std::runtime_error("no such file");
    store->Barrier();
  } else if (what == "fail") {
    if (rank == 1) store->Fail("the disk is full");
    store->Barrier();
  } else if (what == "shapes") {
    store->Init("w", NDArray({rank == 1 ? 3 : 2}));
  } else if (what == "keys") {
    store->Init(rank == 1 ? "v" : "w", NDArray({2}));
  } else if (what == "ever") {
    StepForEver(*store, folder);
  } else {
    throw std::runtime_error("what is " + what + "?");
  }
  std::printf("rank %d of %d: ok\n", rank, store->num_workers());
}

int Main(int argc, char** argv) {
  try {
    Run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
    // A second store of the process, after the first has ended.
    if (KVStore::Create("dist_device_sync")->type() != "dist_device_sync") return 3;
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_test_worker: %s\n", error.what());
    return 3;
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
