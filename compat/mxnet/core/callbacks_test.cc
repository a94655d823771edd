#include "tessera/compat/mxnet/core/callbacks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "tessera/base/error.h"

namespace tessera::mxnet {
namespace {

/// The client: functions whose context is the object.
class Client {
 public:
  Client() : callbacks_({4, functions_, contexts_}) {}

  const Callbacks& callbacks() const { return callbacks_; }
  /// Returns whether a function may be called now.
  bool MayCall() const {
    try {
      return callbacks_.Call(kReturn, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kFailedPrecondition);
      return false;
    }
  }

  enum : size_t { kDelete, kReturn, kBlock, kFail };
  std::promise<void> entered, leave;
  std::atomic<bool> nested_succeeded = false;
  std::atomic<int> deleted = 0;

 private:
  template <typename Function>
  static int (*Generic(Function* function))() {
    return reinterpret_cast<int (*)()>(reinterpret_cast<void (*)()>(function));
  }
  static int Delete(void* client) { return ++static_cast<Client*>(client)->deleted; }
  static int Return(int, void*) { return 1; }
  static int Fail(int, void*) { return 0; }
  static int Block(int number, void* context) {
    auto* const client = static_cast<Client*>(context);
    client->entered.set_value();
    client->leave.get_future().wait();
    client->nested_succeeded = client->MayCall();
    return number == 7;
  }

  int (*functions_[4])() = {Generic(Delete), Generic(Return), Generic(Block), Generic(Fail)};
  void* contexts_[4] = {this, this, this, this};
  const Callbacks callbacks_;
};

TEST(CallbacksTest, CallsReturnWhetherTheyHaveSucceeded) {
  const Client client;
  EXPECT_TRUE(client.callbacks().Call(Client::kReturn, 0));
  EXPECT_FALSE(client.callbacks().Call(Client::kFail, 0));
  EXPECT_FALSE(client.callbacks().Call(9, 0));  // the list has none
  EXPECT_THROW(Callbacks(MXCallbackList{2, nullptr, nullptr}), Error);
}

// The end is for good, so this test is the file's last.
TEST(CallbacksTest, TheEndWaitsForCallsAndForbidsLaterOnes) {
  Client client;
  client.callbacks().Delete(Client::kDelete);
  EXPECT_EQ(client.deleted, 1);
  std::thread caller([&] { EXPECT_TRUE(client.callbacks().Call(Client::kBlock, 7)); });
  client.entered.get_future().wait();

  // The child of a fork does not have the thread that calls.
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    EndCallbacks();
    _exit(client.MayCall() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;

  std::atomic<bool> has_ended = false;
  std::thread ender([&] {
    EndCallbacks();
    has_ended = true;
  });
  while (client.MayCall()) std::this_thread::yield();
  EXPECT_FALSE(has_ended);
  client.leave.set_value();
  caller.join();
  ender.join();
  EXPECT_TRUE(client.nested_succeeded);  // a part of the call that the end waits for
  EXPECT_FALSE(client.MayCall());
  client.callbacks().Delete(Client::kDelete);
  EXPECT_EQ(client.deleted, 1);
  EndCallbacks();
}

}  // namespace
}  // namespace tessera::mxnet
