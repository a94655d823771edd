// Processes that share arrays, as the workers of MXNet's DataLoader do.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/compat/mxnet/functions/testing/array_client.h"

namespace tessera::mxnet::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Starts a child that runs `body` and exits with its result.
pid_t Fork(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body());
  }
  return child;
}

int StatusOf(pid_t child) {
  int status = -1;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/// Send and receive a file descriptor through a Unix socket, as Python's multiprocessing does.
bool SendDescriptor(int socket, int descriptor) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(socket, &message, 0) == 1;
}

int ReceiveDescriptor(int socket) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, 0) != 1) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  return descriptor;
}

TEST(SharedMemoryTest, AWorkersArrayReachesItsParent) {
  const NDArrayHandle dataset = ArrayOfValues({2, 2}, {1, 2, 3, 4});
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t worker = Fork([&] {
    NDArrayHandle row = nullptr, result = nullptr;
    if (MXNDArrayAt(dataset, 1, &row) != 0) return 1;
    const NDArrayHandle batch = ArrayOfValues({1, 2}, {0, 0}, kCpuShared);
    if (!Invoke("stack", {row}, {}, &result, batch).empty()) return 2;
    int process = 0, descriptor = -1;
    if (MXNDArrayGetSharedMemHandle(batch, &process, &descriptor) != 0) return 3;
    if (!SendDescriptor(ends[1], descriptor)) return 4;
    // The worker lets its array go and goes on; the parent's memory is not reused.
    MXNDArrayFree(batch);
    ArrayOfValues({1, 2}, {9, 9}, kCpuShared);
    return process == getpid() ? 0 : 5;
  });
  const int descriptor = ReceiveDescriptor(ends[0]);
  EXPECT_EQ(StatusOf(worker), 0);
  const int shape[] = {1, 2};
  NDArrayHandle batch = nullptr;
  ASSERT_EQ(ErrorOf(MXNDArrayCreateFromSharedMemEx(worker, descriptor, shape, 2, 0, &batch)), "");
  EXPECT_THAT(ValuesOf(batch), ElementsAre(3, 4));
  int type = 0, id = 0;
  EXPECT_EQ(MXNDArrayGetContext(batch, &type, &id), 0);
  EXPECT_EQ(type, kCpuShared);
  EXPECT_EQ(MXNDArrayFree(batch), 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(SharedMemoryTest, AnArrayOfAnotherDeviceMovesToSharedMemory) {
  const NDArrayHandle array = ArrayOfValues({3}, {1, 2, 3});
  int process = 0, descriptor = -1, type = 0, id = 0;
  ASSERT_EQ(ErrorOf(MXNDArrayGetSharedMemHandle(array, &process, &descriptor)), "");
  EXPECT_EQ(MXNDArrayGetContext(array, &type, &id), 0);
  EXPECT_EQ(type, kCpuShared);
  const int shape[] = {3};
  NDArrayHandle same = nullptr;
  ASSERT_EQ(MXNDArrayCreateFromSharedMemEx(process, dup(descriptor), shape, 1, 0, &same), 0);
  NDArrayHandle result = nullptr;
  ASSERT_EQ(Invoke("_plus_scalar", {array}, {{"scalar", "1"}}, &result, array), "");
  EXPECT_EQ(MXNDArrayWaitToRead(array), 0);
  EXPECT_THAT(ValuesOf(same), ElementsAre(2, 3, 4));
}

TEST(SharedMemoryTest, WrongDescriptorsAreErrors) {
  const int shape[] = {3};
  NDArrayHandle array = nullptr;
  const auto error = [&](int descriptor, int rank) {
    return ErrorOf(MXNDArrayCreateFromSharedMemEx(0, descriptor, shape, rank, 0, &array));
  };
  EXPECT_THAT(error(-1, 1), HasSubstr("-1 is not the descriptor"));
  EXPECT_THAT(error(0, -1), HasSubstr("-1"));
  EXPECT_THAT(ErrorOf(MXNDArrayGetSharedMemHandle(nullptr, nullptr, nullptr)), HasSubstr("null"));
}

TEST(ForkTest, AChildUsesArraysThatWereBeingWritten) {
  NDArrayHandle array = ArrayOfValues({1 << 16}, std::vector<float>(1 << 16, 0));
  for (int i = 0; i < 100; ++i) array = Invoked("_plus_scalar", {array}, {{"scalar", "1"}});
  const pid_t child = Fork([&] {
    const NDArrayHandle doubled = Invoked("_mul_scalar", {array}, {{"scalar", "2"}});
    return ValuesOf(doubled) == std::vector<float>(1 << 16, 200) ? 0 : 1;
  });
  EXPECT_EQ(StatusOf(child), 0);
  EXPECT_THAT(ValuesOf(array), AllOf(SizeIs(1 << 16), Each(100)));
}

TEST(ForkTest, AForkKeepsErrorsForLaterWaits) {
  const NDArrayHandle array = Invoked("_random_normal", {}, {{"scale", "-1"}, {"shape", "(2,)"}});
  EXPECT_EQ(StatusOf(Fork([&] { return MXNDArrayWaitToRead(array) == -1 ? 0 : 1; })), 0);
  EXPECT_THAT(ErrorOf(MXNDArrayWaitToRead(array)), HasSubstr("scale = -1"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A sanitizer's malloc may stay locked in the child.
TEST(ForkTest, AChildMakesHandlesWhileItsParentsThreadsDid) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    const uint32_t shape[] = {1};
    while (!stop) {
      NDArrayHandle handle = nullptr;
      MXNDArrayCreateEx(shape, 1, kCpu, 0, 1, 0, &handle);
      MXNDArrayFree(handle);
    }
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(StatusOf(Fork([] { return ValuesOf(ArrayOfValues({1}, {5}))[0] == 5 ? 0 : 1; })), 0);
  }
  stop = true;
  busy.join();
}
#endif

}  // namespace
}  // namespace tessera::mxnet::testing
