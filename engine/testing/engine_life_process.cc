// A process that ends, or forks, while an engine has work: engine_life_test starts it with the name
// of what to do, and looks at its exit status.

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/child_process.h"
#include "tessera/engine/testing/simulated_device.h"
#include "tessera/engine/testing/thread_sleep.h"

namespace tessera {
namespace {

using engine_internal::AwaitSleep;
using engine_internal::SimulatedDevice;
using engine_internal::StatusOfChild;
using engine_internal::ThisThread;

constexpr Device kCpu = Device::Cpu();

/// Work that never ends: each operation pushes the next.
void PushEndless(Engine* engine, Variable* variable, std::latch* begun) {
  engine->PushSync(
      [variable, begun](RunContext context) {
        if (begun != nullptr) begun->count_down();
        PushEndless(context.engine, variable, nullptr);
      },
      kCpu, {}, {variable}, {.name = "endless"});
}

/// Leaves the default engine with endless chains, what waits for them, and callbacks never called.
void FillDefaultEngine() {
  static std::latch begun(4);
  static std::vector<OnComplete> kept;
  Engine* engine = Engine::Get();
  for (int i = 0; i < 4; ++i) {
    Variable* variable = engine->NewVariable();
    PushEndless(engine, variable, &begun);
    for (int j = 0; j < 50; ++j) engine->PushSync([](RunContext) {}, kCpu, {variable}, {});
  }
  Variable* forever = engine->NewVariable();
  engine->PushAsync([](RunContext, OnComplete done) { kept.push_back(done); }, kCpu, {}, {forever});
  for (int j = 0; j < 50; ++j) engine->PushSync([](RunContext) {}, kCpu, {forever}, {});
  begun.wait();
}

int ExitWithWorkInFlight() {
  FillDefaultEngine();
  return 0;
}

/// Exit finds one piece of work at work, others behind it, and a device that does no more before
/// exit has begun.
int ExitWithDeviceWorkInFlight() {
  static auto* const device = new SimulatedDevice;  // never destroyed, as drivers are not
  static std::vector<OnComplete> kept;
  static std::latch at_work(1), exit_has_begun(1);
  Engine* engine = Engine::Get();
  // Functions that are registered later go first: this one, then the end of the default engine.
  std::atexit([] { exit_has_begun.count_down(); });
  for (const FnProperty property : {FnProperty::kNormal, FnProperty::kCopyFromGpu}) {
    Variable* variable = engine->NewVariable();
    for (int i = 0; i < 50; ++i) {
      engine->PushSync(
          [i, property](RunContext context) {
            SimulatedDevice::Enqueue(context.stream, [i, property] {
              if (i > 0 || property != FnProperty::kNormal) return;
              device->Hold();
              at_work.count_down();
              exit_has_begun.wait();
            });
          },
          Device::Gpu(0), {}, {}, {.property = property, .updates = {variable}});
    }
    engine->PushSync([](RunContext) {}, kCpu, {variable}, {});
    engine->PushAsync([](RunContext, OnComplete done) { kept.push_back(done); }, Device::Gpu(1),
                      {variable}, {engine->NewVariable()});
  }
  std::thread([] {
    exit_has_begun.wait();
    device->Resume();
  }).detach();
  at_work.wait();
  return 0;
}

int QuickExitInsideAnOperation() {
  FillDefaultEngine();
  Engine::Get()->PushSync([](RunContext) { std::quick_exit(0); }, kCpu, {}, {});
  for (;;) pause();
}

int ExitInsideAnOperation(FnProperty property) {
  Engine* const engine = Engine::Get();
  Variable* const variable = engine->NewVariable();
  // Not the status of the end with an error.
  engine->PushSync([](RunContext) { std::exit(0); }, kCpu, {}, {variable}, {.property = property});
  for (;;) pause();
}

/// Exits while another thread holds the lock of a stream and never gives it back.
int ExitBesideALockedStream(FILE* stream) {
  std::latch locked(1);
  std::thread([&] {
    flockfile(stream);
    locked.count_down();
    for (;;) pause();
  }).detach();
  locked.wait();
  return ExitInsideAnOperation(FnProperty::kNormal);
}

int ExitWithAStaticEngine() {
  // Destroyed after main, and before or after TBB's own static objects; the check after the engine.
  static std::atomic<int> runs{0};
  struct CheckAtEnd {
    ~CheckAtEnd() {
      if (runs != 1000) std::_Exit(1);
    }
  };
  static CheckAtEnd check;
  static std::unique_ptr<Engine> engine = Engine::Create();
  for (int i = 0; i < 1000; ++i) engine->PushSync([](RunContext) { ++runs; }, kCpu, {}, {});
  return 0;
}

/// The destructor of an object that is older than the default engine comes after that one's end.
int ShutdownAfterTheEnd() {
  struct ShutdownAtEnd {
    ~ShutdownAtEnd() { Engine::Get()->Shutdown(); }
  };
  static const ShutdownAtEnd at_end;
  return ExitWithWorkInFlight();
}

/// 0 if an engine runs operations and its waits end.
int UseEngine(Engine* engine) {
  Variable* variable = engine->NewVariable();
  int value = 0;
  for (int i = 0; i < 100; ++i) {
    engine->PushSync([&](RunContext) { ++value; }, kCpu, {}, {variable});
  }
  engine->WaitForVar(variable);
  engine->DeleteVariable(variable);
  engine->WaitForAll();
  return value == 100 ? 0 : 1;
}

template <typename Call>
bool IsRefused(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == Error::kFailedPrecondition &&
           std::string(error.what()).find("fork") != std::string::npos;
  }
  return false;
}

int ForkWithADefaultEngine() {
  FillDefaultEngine();
  Engine* const of_parent = Engine::Get();
  const int status = StatusOfChild([&] {
    if (Engine::Get() == of_parent) return 2;
    if (UseEngine(Engine::Get()) != 0 || Engine::GetShared().get() != Engine::Get()) return 3;
    // And once more below it.
    return StatusOfChild([] { return UseEngine(Engine::Get()); });
  });
  if (status != 0) return status;
  return Engine::Get() == of_parent ? 0 : 4;
}

int ForkWithAnEngineOfOnesOwn() {
  std::unique_ptr<Engine> engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
  Variable* variable = engine->NewVariable();
  Opr* op = engine->NewOperator([](RunContext) {}, {}, {variable});
  if (UseEngine(engine.get()) != 0) return 1;
  Variable* failed = engine->NewVariable();
  engine->PushSync([](RunContext) { throw std::runtime_error("lost"); }, kCpu, {}, {failed});
  while (!engine->IsIdle(failed)) std::this_thread::yield();
  const int status = StatusOfChild([&] {
    if (!IsRefused([&] { engine->PushSync([](RunContext) {}, kCpu, {}, {variable}); })) return 2;
    if (!IsRefused([&] { engine->Push(op, kCpu); })) return 3;
    if (!IsRefused([&] { engine->WaitForVar(variable); })) return 4;
    if (!IsRefused([&] { engine->WaitForAll(); })) return 5;
    if (!IsRefused([&] { engine->NewVariable(); })) return 6;
    if (!IsRefused([&] { engine->Stop(); })) return 7;
    if (!IsRefused([&] { Engine::Create({.kind = EngineKind::kThreaded}); })) return 9;
    if (engine->DebugString().find("fork") == std::string::npos) return 10;
    if (!engine->IsIdle(variable) || !engine->IsIdle(failed)) return 11;
    engine->Throw(variable);
    try {
      engine->Throw(failed);
      return 12;
    } catch (const std::runtime_error&) {
    }
    engine->DeleteVariable(variable);
    engine->DeleteOperator(op);
    engine->Shutdown();
    engine.reset();
    return UseEngine(Engine::Create().get());
  });
  if (status != 0) return status;
  engine->DeleteOperator(op);
  try {
    engine->WaitForVar(failed);
    return 13;  // the child's report is not the parent's
  } catch (const std::runtime_error&) {
  }
  return UseEngine(engine.get());
}

int ForkWithPendingCompletions() {
  std::unique_ptr<Engine> engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
  Variable* variable = engine->NewVariable();
  Variable* read = engine->NewVariable();
  std::vector<OnComplete> open;
  std::latch begun(1);
  engine->PushAsync(
      [&](RunContext, OnComplete done) { open.push_back(std::move(done)), begun.count_down(); },
      kCpu, {read}, {variable});
  std::unique_ptr<Schedule> schedule = engine->Record([&] {
    Variable* own = engine->NewVariable();
    engine->PushSync([](RunContext) {}, kCpu, {}, {own});
    engine->DeleteVariable(own);
  });
  begun.wait();
  const int status = StatusOfChild([&] {
    if (!IsRefused([&] { schedule->Replay(); })) return 2;
    if (engine->IsIdle(variable) || !engine->IsIdle(read)) return 3;
    if (!IsRefused([&] { engine->Throw(variable); })) return 4;
    schedule.reset();
    engine.reset();
    open.clear();  // never called, and its engine is gone
    return 0;
  });
  if (status != 0) return status;
  open.back()();
  engine->WaitForVar(variable);
  return 0;
}

/// exit() while an operation waits for what never comes.
int ExitWhileAnOperationWaits() {
  Engine* const engine = Engine::Get();
  Variable* forever = engine->NewVariable();
  static std::vector<OnComplete> kept;
  static std::latch begun(2);
  engine->PushAsync(
      [](RunContext, OnComplete done) {
        kept.push_back(std::move(done));
        begun.count_down();
      },
      kCpu, {}, {forever});
  engine->PushSync(
      [forever](RunContext context) {
        begun.count_down();
        context.engine->WaitForVar(forever);
      },
      kCpu, {}, {engine->NewVariable()});
  begun.wait();
  return 0;
}

/// Threads that the end of main does not wait for go on with what they do.
int ExitBesideThreadsThatWait() {
  static std::latch begun(2);
  for (const int kind : {0, 2}) {
    std::thread([kind] {
      Engine* const engine = Engine::Get();
      Variable* const variable = engine->NewVariable();
      const auto push_and_wait = [&] {
        engine->PushSync([](RunContext) {}, kCpu, {}, {variable});
        engine->WaitForVar(variable);
      };
      for (int i = 0;; ++i) {
        // The last may find the engine busy at each look.
        if (i == (kind == 2 ? 0 : 1)) begun.count_down();
        if (kind == 0) push_and_wait();
        if (kind == 2) {
          engine->PushSync([](RunContext) {}, kCpu, {}, {variable});
          engine->WaitForAll();
        }
      }
    }).detach();
  }
  begun.wait();
  return 0;
}

int ForkInsideAnOperation() {
  static int status = 0;
  Engine* const engine = Engine::Get();
  Variable* const variable = engine->NewVariable();
  engine->PushSync(
      [](RunContext) {
        status = StatusOfChild([]() -> int {
          // Not by exit(), since TBB cannot end from one of its threads.
          std::_Exit(UseEngine(Engine::Get()));
        });
      },
      kCpu, {}, {variable});
  engine->WaitForVar(variable);
  return status;
}

/// The child's only thread is one of TBB's.
int ExitInAChildOfAnOperation() {
  static int status = 0;
  Engine* const engine = Engine::Get();
  Variable* const variable = engine->NewVariable();
  engine->PushSync([](RunContext) { status = StatusOfChild([] { return 0; }); }, kCpu, {},
                   {variable});
  engine->WaitForVar(variable);
  return status == EXIT_FAILURE ? 0 : 1;
}

int ForkBeforeAnyThread() {
  return StatusOfChild([] {
    const auto engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
    return engine->num_workers() == 2 ? UseEngine(engine.get()) : 1;
  });
}

/// Files cannot grow when the process ends: a limit stands in for a full disk.
int UseDefaultEngineOnAFullDisk() {
  const int status = UseEngine(Engine::Get());
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {100, 100};
  return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? status : 98;
}

int RunNamed(const std::string& name) {
  if (name == "exit_with_work_in_flight") return ExitWithWorkInFlight();
  if (name == "exit_with_device_work_in_flight") return ExitWithDeviceWorkInFlight();
  if (name == "quick_exit_inside_an_operation") return QuickExitInsideAnOperation();
  if (name == "exit_inside_an_operation: normal") return ExitInsideAnOperation(FnProperty::kNormal);
  if (name == "exit_inside_an_operation: async") return ExitInsideAnOperation(FnProperty::kAsync);
  if (name == "exit_beside_a_locked_stream: stdout") return ExitBesideALockedStream(stdout);
  if (name == "exit_beside_a_locked_stream: stderr") return ExitBesideALockedStream(stderr);
  if (name == "exit_while_an_operation_waits") return ExitWhileAnOperationWaits();
  if (name == "fork_with_pending_completions") return ForkWithPendingCompletions();
  if (name == "exit_with_a_static_engine") return ExitWithAStaticEngine();
  if (name == "shutdown_after_the_end") return ShutdownAfterTheEnd();
  if (name == "fork_with_a_default_engine") return ForkWithADefaultEngine();
  if (name == "fork_with_an_engine_of_ones_own") return ForkWithAnEngineOfOnesOwn();
  if (name == "exit_beside_threads_that_wait") return ExitBesideThreadsThatWait();
  if (name == "fork_inside_an_operation") return ForkInsideAnOperation();
  if (name == "exit_in_a_child_of_an_operation") return ExitInAChildOfAnOperation();
  if (name == "fork_before_any_thread") return ForkBeforeAnyThread();
  if (name == "use_default_engine_on_a_full_disk") return UseDefaultEngineOnAFullDisk();
  if (name == "use_default_engine") return UseEngine(Engine::Get());
  std::fprintf(stderr, "no such thing to do: %s\n", name.c_str());
  return 99;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  alarm(120);  // a hang ends in a signal, not in a test's timeout
  return tessera::RunNamed(argc > 1 ? argv[1] : "");
}
