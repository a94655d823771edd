// The sample of docs/engine.md: a pipeline of reading, computing and reporting.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"

using namespace tessera;  // NOLINT

int main() {
  const auto engine = Engine::Create({.workers = 4});
  Variable* block = engine->NewVariable("block");
  Variable* sum = engine->NewVariable("sum");
  std::vector<int> numbers;
  int total = 0;
  std::vector<std::thread> readers(3);

  engine->StartTrace();
  for (int i = 0; i < 3; ++i) {
    // Someone else completes it: no worker waits for the disk.
    engine->PushAsync(
        [&, i](RunContext, OnComplete done) {
          readers[i] = std::thread([&, i, done] {
            numbers = {i, i + 1, i + 2};
            done();
          });
        },
        Device::Cpu(), {}, {block}, {.property = FnProperty::kAsync, .name = "read"});
    // Reads the block, and reads and writes the sum in place.
    engine->PushSync(
        [&](RunContext) {
          for (const int number : numbers) total += number;
        },
        Device::Cpu(), {block}, {}, {.priority = 1, .name = "add", .updates = {sum}});
  }
  engine->WaitForVar(sum);
  std::printf("total %d after %d writes\n", total, static_cast<int>(sum->version()));

  // Steps that repeat are recorded once, and replayed with other numbers each time.
  const auto step = engine->Record(
      [&] {
        engine->PushSync(
            [&](RunContext context) {
              numbers = *static_cast<std::vector<int>*>(context.slots[0]);
            },
            Device::Cpu(), {}, {block}, {.name = "load"});
        engine->PushSync(
            [&](RunContext) {
              for (const int number : numbers) total += number;
            },
            Device::Cpu(), {block}, {}, {.name = "add", .updates = {sum}});
      },
      {.name = "step", .slots = 1});
  std::vector<int> batches[] = {{1, 2}, {3, 4}, {5, 6}};
  for (std::vector<int>& batch : batches) {
    void* const slots[] = {&batch};
    step->Replay({.slots = slots});
  }
  engine->WaitForVar(sum);
  std::printf("total %d\n%s", total, step->Describe().c_str());

  engine->PushSync([](RunContext) { throw DataLoss("bad block"); }, Device::Cpu(), {}, {block},
                   {.name = "read"});
  engine->PushSync([&](RunContext) { total = -1; }, Device::Cpu(), {block}, {},
                   {.name = "add", .updates = {sum}});  // skipped: what it reads was never written
  try {
    engine->WaitForVar(sum);
  } catch (const Error& error) {
    std::printf("%s, by \"%s\"\n", std::string(error.what()).substr(0, 9).c_str(),
                Engine::LastFailure()->name.c_str());
  }
  std::printf("skipped %d\n", static_cast<int>(engine->counters().skipped));
  const std::string trace = engine->StopTrace();  // for ui.perfetto.dev
  std::printf("traced %s\n", trace.find("\"read\"") != std::string::npos ? "reads" : "nothing");

  for (Variable* variable : {block, sum}) engine->DeleteVariable(variable);
  engine->Shutdown();
  for (std::thread& reader : readers) reader.join();
}
