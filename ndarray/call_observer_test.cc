#include "tessera/ndarray/call_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class NameList final : public CallObserver {
 public:
  void OnCall(std::string_view op, std::string_view caller, int64_t begin_ns,
              int64_t end_ns) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_GT(begin_ns, 0);
    EXPECT_GE(end_ns, begin_ns);
    names_.push_back(std::string(caller) + ":" + std::string(op));
  }

  std::vector<std::string> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

TEST(CallObserverTest, ReceivesEveryCallThatSucceeds) {
  static auto* const list = new NameList;  // calls may use it until the process ends
  const NDArray a = NDArray::FromVector(std::vector<float>{1, 2}, {2});
  SetCallObserver(list);
  const NDArray b = Invoke("_mul_scalar", {Invoke("square", {a})[0]}, {{"scalar", "3"}})[0];
  EXPECT_THAT(b.ToVector(), ElementsAre(3, 12));
  EXPECT_THAT(list->Take(), ElementsAre(":square", ":_mul_scalar"));
  EXPECT_THROW(Invoke("elemwise_add", {a, NDArray({3})}), Error);
  EXPECT_THAT(list->Take(), IsEmpty());
  // Calls have the caller of the thread that makes them.
  static const auto* const names = new std::string[2]{"outer", "inner"};
  {
    const CallerScope outer(names[0]);
    const NDArray c = Invoke("square", {a})[0];
    {
      const CallerScope inner(names[1]);
      Invoke("square", {c})[0].WaitToRead();
    }
    Invoke("square", {c})[0].WaitToRead();
  }
  Invoke("square", {a})[0].WaitToRead();
  EXPECT_THAT(list->Take(), ElementsAre("outer:square", "inner:square", "outer:square", ":square"));
  SetCallObserver(nullptr);
  Invoke("square", {a})[0].WaitToRead();
  EXPECT_THAT(list->Take(), IsEmpty());
}

}  // namespace
}  // namespace tessera
