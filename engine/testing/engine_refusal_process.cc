// A process to which the system gives no threads, or no memory: engine_refusal_test starts it with
// the name of what to do, and looks at its exit status.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tbb/parallel_for.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/schedule.h"
#include "tessera/engine/testing/child_process.h"
#include "tessera/engine/testing/refused_threads.h"
#include "tessera/engine/testing/thread_sleep.h"

namespace tessera {
namespace {

using engine_internal::AllowThreads;
using engine_internal::AwaitSleep;
using engine_internal::BeginDelayedThread;
using engine_internal::DelayThreadAfter;
using engine_internal::HasDelayedThread;
using engine_internal::RefuseThreadsAfter;
using engine_internal::StatusOfChild;
using engine_internal::ThisThread;

constexpr Device kCpu = Device::Cpu();

std::unique_ptr<Engine> Make(int workers, int64_t max_pending = 0) {
  return Engine::Create(
      {.kind = EngineKind::kThreaded, .workers = workers, .max_pending = max_pending});
}

/// Pushes an operation on `variable` that somebody has to complete.
OnComplete PushOpen(Engine& engine, Variable* variable) {
  std::promise<OnComplete> handle;
  engine.PushAsync([&](RunContext, OnComplete done) { handle.set_value(std::move(done)); }, kCpu,
                   {}, {variable});
  return handle.get_future().get();
}

/// Leaves a function that returns 0 where all is well.
#define TESSERA_EXPECT(condition)                                                  \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                    \
    }                                                                              \
  } while (false)

/// Operations in a chain, beside each other, asynchronous ones and such as push and wait.
int UseEngine(Engine& engine) {
  Variable *const chain = engine.NewVariable(), *const inner = engine.NewVariable();
  int value = 0;
  std::atomic<int> others{0};
  for (int i = 0; i < 100; ++i) {
    engine.PushSync([&](RunContext) { ++value; }, kCpu, {}, {chain});
    engine.PushSync([&](RunContext) { ++others; }, kCpu, {}, {});
    engine.PushAsync([&](RunContext, OnComplete done) { ++others, done(); }, kCpu, {}, {});
  }
  int seen = 0;
  engine.PushSync(
      [&](RunContext context) {
        context.engine->PushSync([&](RunContext) { seen = 1; }, kCpu, {}, {inner});
        context.engine->WaitForVar(inner);
        seen *= value;
      },
      kCpu, {chain}, {});
  engine.WaitForVar(chain);
  TESSERA_EXPECT(value == 100);
  engine.WaitForAll();
  TESSERA_EXPECT(others == 200);
  TESSERA_EXPECT(seen == 100);
  for (Variable* const variable : {chain, inner}) engine.DeleteVariable(variable);
  engine.WaitForAll();
  return 0;
}

int Push(int workers) {
  const auto engine = Make(workers);
  if (UseEngine(*engine) != 0) return 1;
  AllowThreads();
  if (UseEngine(*engine) != 0) return 2;
  engine->Shutdown();
  return 0;
}

/// The destructor finishes what was pushed.
int Own(int workers) {
  std::atomic<int> runs{0};
  {
    const auto engine = Make(workers);
    for (int i = 0; i < 1000; ++i) engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {});
  }
  TESSERA_EXPECT(runs == 1000);
  return 0;
}

int Exit(int) {
  Engine* const engine = Engine::Get();
  static Variable* const variable = engine->NewVariable();
  for (int i = 0; i < 100; ++i) engine->PushSync([](RunContext) {}, kCpu, {}, {variable});
  return 0;
}

int Stop(int workers) {
  const auto engine = Make(workers);
  int runs = 0;
  Variable* const variable = engine->NewVariable();
  for (int i = 0; i < 10; ++i) {
    engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    engine->Stop();
    engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    engine->Start();
  }
  engine->WaitForVar(variable);
  TESSERA_EXPECT(runs == 20);
  return 0;
}

/// A push that waits for room.
int PushMany(int workers) {
  const auto engine = Make(workers, /*max_pending=*/4);
  int runs = 0;
  Variable* const variable = engine->NewVariable();
  for (int i = 0; i < 1000; ++i) {
    engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
  }
  engine->WaitForVar(variable);
  TESSERA_EXPECT(runs == 1000);
  return 0;
}

int Replay(int workers) {
  const auto engine = Make(workers);
  std::vector<Variable*> variables;
  for (int i = 0; i < 10; ++i) variables.push_back(engine->NewVariable());
  int64_t sum = 0;
  const auto schedule = engine->Record([&] {
    for (size_t i = 1; i < variables.size(); ++i) {
      engine->PushSync([](RunContext) {}, kCpu, {}, {variables[i]});
    }
    for (size_t i = 1; i < variables.size(); ++i) {
      engine->PushSync([&](RunContext) { ++sum; }, kCpu, {variables[i]}, {variables[0]});
    }
  });
  for (int i = 0; i < 100; ++i) schedule->Replay();
  engine->WaitForVar(variables[0]);
  TESSERA_EXPECT(sum == 900);
  return 0;
}

/// Operations may use loops, which then run in one thread.
int Loop(int workers) {
  const auto engine = Make(workers);
  Variable* const variable = engine->NewVariable();
  int pieces = 0;
  for (int i = 0; i < 3; ++i) {
    engine->PushSync([&](RunContext) { tbb::parallel_for(0, 100, [&](int) { ++pieces; }); }, kCpu,
                     {}, {variable});
    engine->WaitForVar(variable);
  }
  TESSERA_EXPECT(pieces == 300);
  return 0;
}

/// A wait for a variable runs nothing that it does not need: that may need what follows the wait.
int OnlyWhatItNeeds(int workers) {
  const auto engine = Make(workers);
  Variable *const first = engine->NewVariable(), *const second = engine->NewVariable();
  Variable* const unneeded = engine->NewVariable();
  bool after = false, ran_before = false, ran = false;
  engine->PushSync([&](RunContext) { ran = true, ran_before = !after; }, kCpu, {}, {unneeded},
                   {.priority = 1});
  int value = 0;
  engine->PushSync([&](RunContext) { value = 1; }, kCpu, {}, {first});
  engine->PushSync([&](RunContext) { value += 1; }, kCpu, {first}, {second});
  engine->WaitForVar(second);
  TESSERA_EXPECT(value == 2);
  after = true;
  engine->WaitForAll();
  TESSERA_EXPECT(ran && !ran_before);
  return 0;
}

/// The first operation that one wait runs blocks until another wait's has run; before that one
/// stands all else that the first wait needs.
int BehindOthers(int workers) {
  constexpr size_t kParts = 1000;
  for (const size_t first : {size_t{0}, kParts - 1}) {  // a wait begins at one end
    const auto engine = Make(workers);
    Variable *const all = engine->NewVariable(), *const released = engine->NewVariable();
    std::vector<Variable*> parts;
    for (size_t i = 0; i < kParts; ++i) parts.push_back(engine->NewVariable());
    std::sort(parts.begin(), parts.end());
    std::latch pushed(1), blocks(1), goes_on(1);
    AllowThreads();
    std::thread waiter([&] {
      pushed.wait();
      engine->WaitForVar(all);
    });
    RefuseThreadsAfter(0);
    const auto block = [&](RunContext) { blocks.count_down(), goes_on.wait(); };
    engine->PushSync(block, kCpu, {}, {parts[first]}, {.property = FnProperty::kAsync});
    for (Variable* const part : parts) {
      if (part != parts[first]) engine->PushSync([](RunContext) {}, kCpu, {}, {part});
    }
    engine->PushSync([](RunContext) {}, kCpu, parts, {all});
    engine->PushSync([&](RunContext) { goes_on.count_down(); }, kCpu, {}, {released});
    pushed.count_down();
    blocks.wait();
    engine->WaitForVar(released);
    waiter.join();
  }
  return 0;
}

/// One operation more than a thread runs on top of each other waits for the same as all others:
/// then that thread sleeps.
int DeepWaits(int workers) {
  constexpr int kWaits = 65;
  const auto engine = Make(workers);
  Variable* const variable = engine->NewVariable();
  const pid_t thread = ThisThread();
  std::promise<OnComplete> handle;
  std::atomic<int> waits{0};
  AllowThreads();
  std::thread completer([&] {
    const OnComplete done = handle.get_future().get();
    while (waits < kWaits) std::this_thread::yield();
    AwaitSleep(thread);
    done();
  });
  RefuseThreadsAfter(0);
  engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                    {variable});
  const auto wait = [&](RunContext context) {
    ++waits;
    context.engine->WaitForVar(variable);
  };
  for (int i = 0; i < kWaits; ++i) engine->PushSync(wait, kCpu, {}, {});
  engine->WaitForAll();
  completer.join();
  return 0;
}

/// As many waits lie on one stack as may, the engine stops, and the system gives no thread for what
/// the last of them needs.
int DeepWaitsInAStop(int workers) {
  constexpr size_t kWaits = 101;
  AllowThreads();
  const auto engine = Make(workers);
  std::vector<Variable*> nested;
  for (size_t i = 0; i <= kWaits; ++i) nested.push_back(engine->NewVariable());
  Variable* const gate = engine->NewVariable();
  const OnComplete open = PushOpen(*engine, gate);
  bool ran = false;
  engine->PushSync([&](RunContext) { ran = true; }, kCpu, {gate}, {nested[kWaits]});
  std::promise<pid_t> last;
  const std::function<void(size_t)> descend = [&](size_t depth) {
    if (depth + 1 == kWaits) {
      last.set_value(ThisThread());
    } else {
      engine->PushSync([&, depth](RunContext) { descend(depth + 1); }, kCpu, {},
                       {nested[depth + 1]});
    }
    engine->WaitForVar(nested[depth + 1]);
  };
  engine->PushSync([&](RunContext) { descend(0); }, kCpu, {}, {nested[0]});
  const pid_t last_thread = last.get_future().get();
  AwaitSleep(last_thread);
  std::latch refused(1);
  std::thread stopper([&] {
    refused.wait();
    engine->Stop();
  });
  RefuseThreadsAfter(0);
  refused.count_down();
  while (engine->DebugString().find("stopped") == std::string::npos) std::this_thread::yield();
  AwaitSleep(last_thread);
  open();
  stopper.join();
  TESSERA_EXPECT(ran && engine->counters().pending == 0);
  return 0;
}

/// Operations of two engines wait for each other's.
int WaitInEachOther(int workers) {
  const auto engine = Make(workers), other = Make(workers);
  Variable *const here = engine->NewVariable(), *const there = other->NewVariable();
  Variable* const inner = engine->NewVariable();
  int value = 0;
  engine->PushSync(
      [&](RunContext) {
        other->PushSync(
            [&](RunContext) {
              engine->PushSync([&](RunContext) { value = 1; }, kCpu, {}, {inner});
              engine->WaitForVar(inner);
              value *= 2;
            },
            kCpu, {}, {there});
        other->WaitForVar(there);
        value *= 3;
      },
      kCpu, {}, {here});
  engine->WaitForVar(here);
  TESSERA_EXPECT(value == 6);
  return 0;
}

/// Of eight threads there is one.
int OneThread(int) {
  RefuseThreadsAfter(1);
  const auto engine = Make(8);
  for (int i = 0; i < 10; ++i) {
    if (UseEngine(*engine) != 0) return 1;
  }
  return 0;
}

/// TBB has had its threads, when there is none more: and where its own is needed at another place.
int LaterOnes(int workers) {
  AllowThreads();
  const auto engine = Make(workers);
  if (UseEngine(*engine) != 0) return 1;
  RefuseThreadsAfter(0);
  const auto second = Make(workers);
  for (int i = 0; i < 10; ++i) {
    if (UseEngine(*second) != 0) return 2;
    if (UseEngine(*engine) != 0) return 3;
  }
  return 0;
}

/// TBB is refused its first thread, and the engine gets one of its own later on: a loop on that
/// thread asks for no other.
int LoopInOwnThread(int) {
  const auto engine = Make(8);
  RefuseThreadsAfter(8);  // to see whether there are any
  engine->PushSync([](RunContext) {}, kCpu, {}, {});
  RefuseThreadsAfter(1);
  std::atomic<int> pieces{0};
  engine->PushSync([&](RunContext) { tbb::parallel_for(0, 100, [&](int) { ++pieces; }); }, kCpu, {},
                   {});
  std::promise<void> over;
  engine->PushSync([&](RunContext) { over.set_value(); }, kCpu, {}, {});
  over.get_future().wait();  // no wait of the engine's, which would run them itself
  TESSERA_EXPECT(pieces == 100);
  engine->WaitForAll();
  return 0;
}

/// Nobody waits for the engine whose thread does not come, but what is waited for needs it.
int OrderOfAnotherEngine(int) {
  AllowThreads();
  const auto engine = Make(1), other = Engine::Create({.kind = EngineKind::kNaive});
  Variable* const there = other->NewVariable();
  const OnComplete end_wait = PushOpen(*other, there);
  DelayThreadAfter(1);  // one to see whether there are any
  engine->PushSync([&](RunContext) { end_wait(); }, kCpu, {}, {});
  TESSERA_EXPECT(HasDelayedThread());
  other->WaitForVar(there);
  BeginDelayedThread();
  return 0;
}

/// TBB's thread has not begun when the engine has done everything without it, and begins when the
/// engine is gone.
int LateThread(int) {
  AllowThreads();
  // One to see whether there are any.
  DelayThreadAfter(1);
  for (const bool stopped : {false, true}) {
    auto engine = Make(1);
    int runs = 0;
    for (int i = 0; i < 10; ++i) engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {});
    TESSERA_EXPECT(HasDelayedThread());
    if (stopped) engine->Stop();
    engine.reset();
    TESSERA_EXPECT(runs == 10);
  }
  BeginDelayedThread();
  const auto engine = Make(1);
  for (int i = 0; i < 100; ++i) {
    if (UseEngine(*engine) != 0) return 1;
  }
  return 0;
}

/// An operation that cannot do another one's work, as it sleeps in another engine or blocks, finds
/// no thread for its place. It comes later, or a wait does the work.
int LentLater(bool blocks, bool comes_later) {
  AllowThreads();
  const auto engine = Make(1), other = Make(1);
  Variable *const x = engine->NewVariable(), *const there = other->NewVariable();
  const OnComplete end_wait = PushOpen(*other, there);
  std::latch goes_on(1);
  std::atomic<pid_t> sleeper{0};
  bool ran = false;
  const auto end_sleep = [&](RunContext) {
    ran = true;
    goes_on.count_down();
    end_wait();
  };
  engine->PushSync(
      [&](RunContext context) {
        RefuseThreadsAfter(0);
        const auto sleep = [&](RunContext) {
          sleeper = ThisThread();
          blocks ? goes_on.wait() : other->WaitForVar(there);
        };
        context.engine->PushSync(sleep, kCpu, {}, {},
                                 {.property = blocks ? FnProperty::kAsync : FnProperty::kNormal});
        context.engine->PushSync(end_sleep, kCpu, {}, {x});
      },
      kCpu, {}, {});
  while (sleeper == 0) std::this_thread::yield();
  AwaitSleep(sleeper);
  if (comes_later) AllowThreads();
  engine->WaitForVar(x);
  TESSERA_EXPECT(ran);
  engine->WaitForAll();
  return 0;
}

/// The same where nobody waits for the engine that has no thread.
int LentLaterUnseen(bool comes_later) {
  AllowThreads();
  const auto engine = Make(1), other = Make(1);
  Variable* const there = other->NewVariable();
  const OnComplete end_wait = PushOpen(*other, there);
  std::atomic<pid_t> sleeper{0};
  engine->PushSync(
      [&](RunContext context) {
        RefuseThreadsAfter(0);
        context.engine->PushSync([&](RunContext) { end_wait(); }, kCpu, {}, {});
        sleeper = ThisThread();
        other->WaitForVar(there);
      },
      kCpu, {}, {});
  while (sleeper == 0) std::this_thread::yield();
  AwaitSleep(sleeper);
  if (comes_later) AllowThreads();
  other->WaitForVar(there);
  engine->WaitForAll();
  return 0;
}

/// More functions block than the system gives threads for, those that TBB may start left out.
int BlockMore(int) {
  constexpr int kBlocking = 1500, kWithoutAsking = 1024, kWorkers = 2;
  AllowThreads();
  const auto engine = Make(kWorkers);
  if (UseEngine(*engine) != 0) return 1;
  RefuseThreadsAfter(kWithoutAsking + 200);
  std::latch ends(1);
  std::atomic<int> blocked{0};
  for (int i = 0; i < kBlocking; ++i) {
    engine->PushSync([&](RunContext) { ++blocked, ends.wait(); }, kCpu, {}, {},
                     {.property = FnProperty::kAsync});
  }
  while (blocked < kWithoutAsking + kWorkers) std::this_thread::yield();
  const std::string text = engine->DebugString();
  TESSERA_EXPECT(text.find("the system has no threads for more") != text.npos);
  ends.count_down();
  engine->WaitForAll();
  TESSERA_EXPECT(blocked == kBlocking);
  TESSERA_EXPECT(UseEngine(*engine) == 0);
  return 0;
}

/// Limits this process's address space to what it has and so many bytes more.
rlim_t LimitMemory(rlim_t more_bytes) {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  const rlim_t old = limit.rlim_cur;
  limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more_bytes;
  setrlimit(RLIMIT_AS, &limit);
  return old;
}

/// An engine is made where there is less and less memory. It works, with or without threads, or
/// there is an error, and none of it stays.
int CreateWithoutMemory(int) {
  int made = 0, refused = 0;
  for (rlim_t kilobytes = 0; kilobytes <= 32768; kilobytes = kilobytes * 5 / 4 + 64) {
    const int status = StatusOfChild([&] {
      const rlim_t before = LimitMemory(kilobytes << 10);
      int result = 10;
      try {
        const auto engine = Make(2);
        result = UseEngine(*engine);
      } catch (const Error&) {
      } catch (const std::bad_alloc&) {
      }
      const rlimit limit = {before, before};
      setrlimit(RLIMIT_AS, &limit);
      if (const auto engine = Make(2); UseEngine(*engine) != 0) return 2;
      return result;
    });
    ++(status == 0 ? made : refused);
    if (status == 0 || status == 10) continue;
    std::fprintf(stderr, "%lu kB: status %d\n", static_cast<unsigned long>(kilobytes), status);
    return 1;
  }
  TESSERA_EXPECT(made > 0 && refused > 0);
  return 0;
}

/// The system itself refuses threads.
int PushWithLimitedMemory(int workers) {
  AllowThreads();
  LimitMemory(rlim_t{6} << 20);  // less than a thread's stack
  const auto engine = Make(workers);
  return UseEngine(*engine);
}

int RunNamed(const std::string& name, int workers) {
  RefuseThreadsAfter(0);
  if (name == "push") return Push(workers);
  if (name == "own") return Own(workers);
  if (name == "exit") return Exit(workers);
  if (name == "stop") return Stop(workers);
  if (name == "push_many") return PushMany(workers);
  if (name == "replay") return Replay(workers);
  if (name == "loop") return Loop(workers);
  if (name == "only_what_it_needs") return OnlyWhatItNeeds(workers);
  if (name == "behind_others") return BehindOthers(workers);
  if (name == "deep_waits") return DeepWaits(workers);
  if (name == "deep_waits_in_a_stop") return DeepWaitsInAStop(workers);
  if (name == "wait_in_each_other") return WaitInEachOther(workers);
  if (name == "one_thread") return OneThread(workers);
  if (name == "later_ones") return LaterOnes(workers);
  if (name == "loop_in_own_thread") return LoopInOwnThread(workers);
  if (name == "order_of_another_engine") return OrderOfAnotherEngine(workers);
  if (name == "late_thread") return LateThread(workers);
  if (name == "sleeps: thread_later") return LentLater(/*blocks=*/false, /*comes_later=*/true);
  if (name == "sleeps: no_thread") return LentLater(/*blocks=*/false, /*comes_later=*/false);
  if (name == "blocks: thread_later") return LentLater(/*blocks=*/true, /*comes_later=*/true);
  if (name == "blocks: no_thread") return LentLater(/*blocks=*/true, /*comes_later=*/false);
  if (name == "unseen: thread_later") return LentLaterUnseen(/*comes_later=*/true);
  if (name == "unseen: no_thread") return LentLaterUnseen(/*comes_later=*/false);
  if (name == "block_more") return BlockMore(workers);
  if (name == "create_without_memory") return CreateWithoutMemory(workers);
  if (name == "push_with_limited_memory") return PushWithLimitedMemory(workers);
  std::fprintf(stderr, "no such thing to do: %s\n", name.c_str());
  return 99;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  alarm(120);  // a hang ends in a signal, not in a test's timeout
  return tessera::RunNamed(argc > 1 ? argv[1] : "", argc > 2 ? std::atoi(argv[2]) : 1);
}
