#include "tessera/compat/mxnet/core/handle_table.h"

#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"

namespace tessera::mxnet {
namespace {

using ::testing::HasSubstr;

constexpr int kThreads = 4;

/// Expects an error of Get and of Remove with that text.
void ExpectNoHandle(Handles<std::string>* handles, const void* handle, const std::string& text) {
  const auto expect_error = [&](auto call) {
    try {
      call();
      ADD_FAILURE() << handle << " was taken for a handle";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expect_error([&] { handles->Get(handle); });
  expect_error([&] { handles->Remove(handle); });
}

TEST(HandleTableTest, AHandleLeadsToItsObjectUntilItIsFreed) {
  Handles<std::string> handles("a word", 1);
  void* const one = handles.Add("one");
  void* const two = handles.Add("two");
  EXPECT_EQ(*handles.Get(one), "one");
  EXPECT_EQ(*handles.Get(two), "two");
  handles.Remove(one);
  ExpectNoHandle(&handles, one, "is no handle of a word: it was freed");
  EXPECT_EQ(*handles.Get(two), "two");
}

TEST(HandleTableTest, NullForeignAndOddValuesAreNoHandles) {
  Handles<std::string> handles("a word", 1);
  const uint64_t live = reinterpret_cast<uint64_t>(handles.Add("one"));
  const std::string object;
  ExpectNoHandle(&handles, nullptr, "the handle of a word is null");
  ExpectNoHandle(&handles, &object, "is no handle of a word");
  for (uint64_t bit = 0; bit < 64; ++bit) {
    ExpectNoHandle(&handles, reinterpret_cast<void*>(live ^ uint64_t{1} << bit), "of a word");
  }
  ExpectNoHandle(&handles, reinterpret_cast<void*>(~uint64_t{0}), "is no handle of a word");
}

TEST(HandleTableTest, AHandleOfAnotherKindIsNone) {
  Handles<std::string> words("a word", 1);
  Handles<int> numbers("a number", 2);
  void* const number = numbers.Add(7);
  words.Add("one");
  ExpectNoHandle(&words, number, "is no handle of a word");
  EXPECT_EQ(*numbers.Get(number), 7);
}

TEST(HandleTableTest, AFreedHandleStaysFreedWhenItsSlotIsUsedAgain) {
  Handles<int> handles("a number", 1);
  std::set<void*> seen;
  for (int i = 0; i < 1000; ++i) {
    void* const handle = handles.Add(i);
    EXPECT_TRUE(seen.insert(handle).second);
    EXPECT_EQ(*handles.Get(handle), i);
    handles.Remove(handle);
  }
  for (void* const handle : seen) EXPECT_THROW(handles.Get(handle), Error);
}

TEST(HandleTableTest, ManyHandlesLiveAtOnce) {
  Handles<int> handles("a number", 1);
  constexpr int kCount = 200000;
  // Errors take long under sanitizers.
  constexpr int kErrorStep = 1000;
  std::vector<void*> live;
  for (int i = 0; i < kCount; ++i) live.push_back(handles.Add(i));
  for (int i = 0; i < kCount; i += 2) handles.Remove(live[static_cast<size_t>(i)]);
  for (int i = 0; i < kCount; ++i) {
    void* const handle = live[static_cast<size_t>(i)];
    if (i % 2 != 0) {
      ASSERT_EQ(*handles.Get(handle), i);
    } else if (i % kErrorStep == 0) {
      EXPECT_THROW(handles.Get(handle), Error);
    }
  }
}

TEST(HandleTableTest, AnObjectInUseOutlivesItsHandle) {
  Handles<std::string> handles("a word", 1);
  void* const handle = handles.Add("one");
  const std::shared_ptr<std::string> object = handles.Get(handle);
  handles.Remove(handle);
  EXPECT_EQ(*object, "one");
  EXPECT_EQ(object.use_count(), 1);
}

TEST(HandleTableTest, AnObjectIsReplacedOnce) {
  Handles<std::string> handles("a word", 1);
  void* const handle = handles.Add("one");
  const std::shared_ptr<std::string> before = handles.Get(handle);
  handles.Replace(handle, before, "two");
  EXPECT_EQ(*handles.Get(handle), "two");
  EXPECT_EQ(*before, "one");
  try {
    handles.Replace(handle, before, "three");
    ADD_FAILURE() << "an object that is no more was replaced";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kFailedPrecondition);
  }
  EXPECT_EQ(*handles.Get(handle), "two");
  const std::shared_ptr<std::string> last = handles.Get(handle);
  handles.Remove(handle);
  try {
    handles.Replace(handle, last, "three");
    ADD_FAILURE() << "a freed handle got an object";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
  }
}

TEST(HandleTableTest, ADestructorMayUseTheTable) {
  struct Owner {
    HandleTable* table;
    ~Owner() { table->Remove(table->Add(std::make_shared<int>(1))); }
  };
  HandleTable table("an owner", 1);
  void* const handle = table.Add(std::shared_ptr<Owner>(new Owner{&table}));
  table.Remove(handle);
  EXPECT_THROW(table.Get(handle), Error);
}

/// Runs work(thread) in several threads that begin together.
template <typename Work>
void InThreads(const Work& work) {
  std::barrier begin(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      begin.arrive_and_wait();
      work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HandleTableTest, EachThreadFindsItsOwnObjects) {
  Handles<int> handles("a number", 1);
  InThreads([&](int t) {
    std::vector<void*> live;
    for (int i = 0; i < 3000; ++i) {
      live.push_back(handles.Add(t));
      ASSERT_EQ(*handles.Get(live.back()), t);
      if (i % 3 != 0) {
        handles.Remove(live[live.size() / 2]);
        live.erase(live.begin() + static_cast<int64_t>(live.size() / 2));
      }
    }
    for (void* const handle : live) ASSERT_EQ(*handles.Get(handle), t);
  });
}

TEST(HandleTableTest, OfThreadsThatFreeOneHandleOneSucceeds) {
  Handles<int> handles("a number", 1);
  for (int round = 0; round < 200; ++round) {
    void* const handle = handles.Add(round);
    std::atomic<int> freed{0};
    InThreads([&](int) {
      try {
        EXPECT_EQ(*handles.Get(handle), round);
        handles.Remove(handle);
        ++freed;
      } catch (const Error&) {
      }
    });
    EXPECT_EQ(freed.load(), 1);
  }
}

}  // namespace
}  // namespace tessera::mxnet
