// Compares Storage with glibc's malloc, tbb::scalable_allocator and jemalloc in the same run. The
// last two are loaded from their shared libraries if these exist. Linking jemalloc would replace
// malloc.

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "tessera/storage/storage.h"
#include "tessera/storage/testing/training_traces.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Bound;
using benchmarking::Variant;
using benchmarking::Variants;

constexpr int64_t kMegabyte = int64_t{1} << 20;

/// An allocator with malloc's interface.
struct Peer {
  std::string name;
  void* (*allocate)(size_t);
  void (*release)(void*);
};

/// Adds the peer if its library exists. Otherwise adds the missing name to the program's context.
void AddFromLibrary(const char* name, const char* library, const char* allocate,
                    const char* release, std::vector<Peer>* peers) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* const allocate_symbol = handle == nullptr ? nullptr : dlsym(handle, allocate);
  void* const release_symbol = handle == nullptr ? nullptr : dlsym(handle, release);
  if (allocate_symbol == nullptr || release_symbol == nullptr) {
    const char* const reason = dlerror();
    benchmark::AddCustomContext(std::string("missing ") + name,
                                reason != nullptr ? reason : std::string(library) + " is another");
    return;
  }
  peers->push_back({name, reinterpret_cast<void* (*)(size_t)>(allocate_symbol),
                    reinterpret_cast<void (*)(void*)>(release_symbol)});
}

const std::vector<Peer>& Peers() {
  static const std::vector<Peer> peers = [] {
    std::vector<Peer> found = {{"malloc", &std::malloc, &std::free}};
    AddFromLibrary("tbb", "libtbbmalloc.so.2", "scalable_malloc", "scalable_free", &found);
    AddFromLibrary("jemalloc", "libjemalloc.so.2", "malloc", "free", &found);
    return found;
  }();
  return peers;
}

/// Storage with the interface of a peer.
struct Ours {
  using Block = Storage::Handle;
  Block Allocate(int64_t size_bytes) const { return storage->Alloc(size_bytes, Device::Cpu()); }
  void Release(const Block& block) const { storage->Free(block); }
  static void* Address(const Block& block) { return block.dptr; }

  Storage* storage = Storage::Get();
};
struct Theirs {
  using Block = void*;
  Block Allocate(int64_t size_bytes) const {
    return peer.allocate(static_cast<size_t>(size_bytes));
  }
  void Release(Block block) const { peer.release(block); }
  static void* Address(Block block) { return block; }

  Peer peer;
};

/// Calls `make(name, allocator)` for Storage and for each peer.
template <typename Make>
Variants ForAll(const Make& make) {
  Variants variants;
  variants.all.push_back(make("ours", Ours()));
  for (const Peer& peer : Peers()) variants.all.push_back(make(peer.name, Theirs{peer}));
  return variants;
}

/// Allocates and frees one block at a time, from the thread's cache or, for large sizes, the pool.
void AddPair(int64_t size_bytes, double limit_seconds) {
  AddCase({.name = "pair/" + std::to_string(size_bytes),
           .items = 1,
           .limit_seconds = limit_seconds,
           .make = [size_bytes] {
             return ForAll([size_bytes](const std::string& name, const auto& allocator) {
               return Variant(name, [size_bytes, allocator] {
                 const auto block = allocator.Allocate(size_bytes);
                 benchmark::DoNotOptimize(block);
                 allocator.Release(block);
               });
             });
           }});
}

/// Lets threads allocate and free blocks of one size on all cores. They together reach at least the
/// rate of one thread alone, because they share no lock and no cache line.
void AddPairsOnThreads(int64_t size_bytes, int num_threads) {
  static constexpr int64_t kPairs = 400000;
  const auto make = [size_bytes, num_threads] {
    const auto pairs = [size_bytes](int64_t count) {
      const Ours ours;
      for (int64_t i = 0; i < count; ++i) {
        const Storage::Handle block = ours.Allocate(size_bytes);
        benchmark::DoNotOptimize(block);
        ours.Release(block);
      }
    };
    const auto together = [pairs, num_threads] {
      std::vector<std::thread> threads;
      for (int t = 0; t < num_threads; ++t) threads.emplace_back(pairs, kPairs / num_threads);
      for (std::thread& thread : threads) thread.join();
    };
    const auto alone = [pairs] { std::thread(pairs, kPairs).join(); };
    return Variants{.all = {Variant("ours", together), Variant("one_thread", alone)}};
  };
  AddCase({.name = "pair_threads_" + std::to_string(num_threads) + "/" + std::to_string(size_bytes),
           .bounds = {{.peer = "one_thread", .at_least = 1}},
           .items = kPairs,
           .make = make});
}

/// Allocates and frees one tagged block at a time.
void AddTaggedPair() {
  AddCase({.name = "tagged_pair/64", .items = 1, .limit_seconds = 25e-9, .make = [] {
             const auto pair = [storage = Storage::Get(), tag = std::string("fc1_weight")] {
               const Storage::Handle block = storage->Alloc(64, Device::Cpu(), tag);
               benchmark::DoNotOptimize(block);
               storage->Free(block);
             };
             return Variants{.all = {Variant("ours", pair)}};
           }});
}

/// Replays a network's setup and then its steps.
template <typename Allocator>
class Training {
 public:
  using Block = typename Allocator::Block;

  Training(const TrainingTrace& trace, Allocator allocator)
      : allocator_(allocator), setup_(trace.setup), step_(trace.step) {
    Run(&setup_);
  }
  ~Training() {
    for (const Block& block : setup_.blocks()) allocator_.Release(block);
  }
  void Step() { Run(&step_); }

 private:
  void Run(TraceReplay<Block>* replay) {
    replay->Run([this](int64_t size_bytes) { return allocator_.Allocate(size_bytes); },
                [this](const Block& block) { allocator_.Release(block); });
  }

  const Allocator allocator_;
  TraceReplay<Block> setup_;
  TraceReplay<Block> step_;
};

void AddTrace(const TrainingTrace& trace) {
  AddCase({.name = std::string("trace/") + trace.name,
           .bounds = {{.peer = Bound::kBest, .at_least = 1}},
           .items = static_cast<double>(trace.step.size()),
           .make = [trace] {
             return ForAll([trace](const std::string& name, const auto& allocator) {
               using Allocator = std::decay_t<decltype(allocator)>;
               const auto training = std::make_shared<Training<Allocator>>(trace, allocator);
               return Variant(name, [training] { training->Step(); });
             });
           }});
}

/// Lets threads train in parallel, a few steps each in one run.
void AddTraceOnThreads(const TrainingTrace& trace, int num_threads) {
  static constexpr int kSteps = 100;
  const auto events = static_cast<double>(kSteps * num_threads * trace.step.size());
  AddCase({.name = "trace_threads_" + std::to_string(num_threads) + "/" + trace.name,
           .bounds = {{.peer = Bound::kBest, .at_least = 1}},
           .items = events,
           .make = [trace, num_threads] {
             return ForAll([=](const std::string& name, const auto& allocator) {
               return Variant(name, [=] {
                 std::vector<std::thread> threads;
                 for (int t = 0; t < num_threads; ++t) {
                   threads.emplace_back([=] {
                     Training training(trace, allocator);
                     for (int i = 0; i < kSteps; ++i) training.Step();
                   });
                 }
                 for (std::thread& thread : threads) thread.join();
               });
             });
           }});
}

/// Allocates a block and writes each page. Fresh memory costs page faults, reused memory does not.
template <typename Allocator>
void TouchPages(const Allocator& allocator, int64_t size_bytes) {
  constexpr int64_t kPageBytes = 4096;
  const auto block = allocator.Allocate(size_bytes);
  auto* const bytes = static_cast<volatile char*>(Allocator::Address(block));
  for (int64_t i = 0; i < size_bytes; i += kPageBytes) bytes[i] = 1;
  allocator.Release(block);
}

/// Allocates fresh memory from the system, like malloc without free memory. Calling malloc would
/// measure the heap that earlier cases left.
struct Fresh {
  struct Block {
    void* ptr;
    int64_t size_bytes;
  };
  Block Allocate(int64_t size_bytes) const {
    return {mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            size_bytes};
  }
  void Release(const Block& block) const {
    munmap(block.ptr, static_cast<size_t>(block.size_bytes));
  }
  static void* Address(const Block& block) { return block.ptr; }
};

void AddReuse(int64_t size_bytes) {
  AddCase({.name = "reuse/" + std::to_string(size_bytes / kMegabyte) + "MiB",
           .bounds = {{.peer = "fresh", .at_least = 20}},
           .make = [size_bytes] {
             const auto ours = [size_bytes, ours = Ours()] { TouchPages(ours, size_bytes); };
             const auto fresh = [size_bytes] { TouchPages(Fresh(), size_bytes); };
             return Variants{.all = {Variant("ours", ours), Variant("fresh", fresh)}};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  Peers();  // names missing peers before anything runs
  // The sizes are a scalar, the largest small block, a feature map, and a batch of images, which no
  // thread's cache keeps.
  AddPair(64, 25e-9);
  AddPair(64 << 10, 25e-9);
  AddPair(kMegabyte, 0);
  AddPair(64 * kMegabyte, 0);
  AddPairsOnThreads(64, 8);
  AddPairsOnThreads(kMegabyte, 8);
  AddTaggedPair();
  for (const TrainingTrace& trace : TrainingTraces()) AddTrace(trace);
  for (const TrainingTrace& trace : TrainingTraces()) AddTraceOnThreads(trace, 8);
  for (const int64_t megabytes : {1, 8, 64}) AddReuse(megabytes * kMegabyte);
  return benchmarking::RunAll(argc, argv);
}
