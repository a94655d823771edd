// Memory does not grow over many calls of the C API. TESSERA_TEST_CALLS sets the number of calls.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "mxnet/c_api.h"
#include "mxnet/c_predict_api.h"
#include "tessera/compat/mxnet/testing/client.h"

namespace tessera::mxnet {
namespace {

/// The resident memory may grow by so much: the queue of pending operations is longer at times. An
/// object of 32 bytes that each of 100,000 calls leaves behind is more.
constexpr int64_t kAllowedBytes = 2 << 20;
/// Calls between two waits, so that pending operations do not count.
constexpr int64_t kCallsPerWait = 500;

int64_t Calls() {
  const char* const text = std::getenv("TESSERA_TEST_CALLS");
  return text == nullptr || *text == '\0' ? 100000 : std::strtoll(text, nullptr, 10);
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void Repeat(int64_t count, const std::function<void()>& call) {
  for (int64_t i = 1; i <= count; ++i) {
    call();
    if (i % kCallsPerWait == 0 || i == count) Check(MXNDArrayWaitAll());
  }
}

/// Expects that calls leave memory as it was after a tenth of them.
void ExpectNoGrowth(const std::function<void()>& call) {
  const int64_t calls = Calls();
  Repeat(calls / 10, call);
  const int64_t resident = ResidentBytes();
  Repeat(calls, call);
  EXPECT_LE(ResidentBytes(), resident + kAllowedBytes);
}

Owned Ones(uint32_t size) { return MakeArray(std::vector<float>(size, 1), {size}); }

TEST(GrowthTest, ArraysMadeAndFreed) {
  const uint32_t shape[] = {4, 4};
  ExpectNoGrowth([&] {
    NDArrayHandle array = nullptr, view = nullptr;
    Check(MXNDArrayCreate(shape, 2, 1, 0, 0, &array));
    Check(MXNDArraySlice(array, 1, 3, &view));
    Check(MXNDArrayFree(array));
    ShapeOf(view);
    Check(MXNDArrayFree(view));
  });
}

TEST(GrowthTest, OperatorsCalled) {
  const Owned a = Ones(16), b = Ones(16);
  ExpectNoGrowth([&] {
    const std::vector<Owned> sum = Call("elemwise_add", {a.get(), b.get()});
    Call("_mul_scalar", {sum[0].get()}, {{"scalar", "2"}});
  });
}

TEST(GrowthTest, TheTapePlayedBack) {
  const Owned x = Ones(16), gradient = Ones(16);
  NDArrayHandle variables[] = {x.get()}, gradients[] = {gradient.get()};
  uint32_t request = 1;
  Check(MXAutogradMarkVariables(1, variables, &request, gradients));
  ExpectNoGrowth([&] {
    Check(MXAutogradSetIsRecording(1, nullptr));
    const std::vector<Owned> square = Call("elemwise_mul", {x.get(), x.get()});
    Check(MXAutogradSetIsRecording(0, nullptr));
    NDArrayHandle heads[] = {square[0].get()};
    Check(MXAutogradBackward(1, heads, nullptr, 0));
  });
}

TEST(GrowthTest, ACompiledFunctionCalled) {
  const Owned x = MakeVariable("x");
  const Owned relu = Apply("relu", "relu", {x.get()});
  CachedOpHandle handle = nullptr;
  Check(MXCreateCachedOp(relu.get(), &handle));
  const Owned function(handle, MXFreeCachedOp), input = Ones(16);
  ExpectNoGrowth([&] {
    NDArrayHandle inputs[] = {input.get()};
    NDArrayHandle* outputs = nullptr;
    int count = 0;
    Check(MXInvokeCachedOp(handle, 1, inputs, &count, &outputs));
    Check(MXNDArrayFree(outputs[0]));
  });
}

TEST(GrowthTest, AnErrorInEachCall) {
  const Owned a = Ones(16), b = Ones(15);
  ExpectNoGrowth([&] {
    NDArrayHandle out = nullptr;
    EXPECT_ANY_THROW(Call("elemwise_add", {a.get(), b.get()}));
    EXPECT_EQ(MXNDArrayFree(&out), -1);
  });
}

TEST(GrowthTest, SymbolsAndPredictorsMadeAndFreed) {
  // Each call is worth a hundred of the others.
  const Owned x = MakeVariable("x");
  const Owned relu = Apply("relu", "relu", {x.get()});
  const char* text = nullptr;
  Check(MXSymbolSaveToJSON(relu.get(), &text));
  const std::string json = text;
  const char* names[] = {"x"};
  const uint32_t offsets[] = {0, 1}, extents[] = {16};
  int64_t calls = 0;
  ExpectNoGrowth([&] {
    if (++calls % 100 != 0) return;
    PredictorHandle predictor = nullptr;
    Check(MXPredCreate(json.c_str(), nullptr, 0, 1, 0, 1, names, offsets, extents, &predictor));
    Check(MXPredForward(predictor));
    Check(MXPredFree(predictor));
    const Owned composed = Apply("relu", "again", {relu.get()});
  });
}

}  // namespace
}  // namespace tessera::mxnet
