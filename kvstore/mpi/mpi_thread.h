#ifndef TESSERA_KVSTORE_MPI_MPI_THREAD_H_
#define TESSERA_KVSTORE_MPI_MPI_THREAD_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/dialect.h"

namespace tessera::kvstore_mpi {

/// Work that the thread moves forward by polling.
class Polled {
 public:
  /// Tests what pends and starts what may begin. Returns whether anything happened. Called by the
  /// thread.
  virtual bool Advance() = 0;
  /// Returns whether something pends.
  virtual bool IsBusy() const = 0;
  /// Returns how many bytes MPI moves. Within a machine it moves them while it is called.
  virtual int64_t BytesOnTheirWay() const = 0;

 protected:
  ~Polled() = default;
};

/// This process's place in the job.
struct JobPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the processes of the machine
  int local_size = 1;
};

/// The thread that makes every call of MPI in this process. It initializes MPI unless somebody else
/// has, who must then allow MPI_THREAD_MULTIPLE. What it has initialized it finalizes when the
/// process exits; it ends before somebody else's MPI_Finalize.
///
/// While something pends the thread polls: it yields until 100 us after the last progress, or
/// longer while MPI moves bytes, then pauses for 50 us. It does not yield beside threads that
/// compute, but pauses for 20 us. Otherwise it sleeps, 10 ms at a time as long as there is
/// something to poll.
class MpiThread {
 public:
  /// Returns the process's thread, which the first call starts. Throws Error(kFailedPrecondition)
  /// if MPI cannot be used.
  static MpiThread& Get();

  MpiThread(const MpiThread&) = delete;
  MpiThread& operator=(const MpiThread&) = delete;

  /// Return this process's place, and whether the caller is in the process that has started the
  /// thread and not in a child of a fork.
  const JobPlace& place() const { return place_; }
  bool IsOwnProcess() const;

  /// Calls a function in the thread and returns when it has returned. It must not throw. Must not
  /// be called in the thread.
  void Call(const std::function<void()>& fn);
  /// Makes the thread poll soon, because something was given to a Polled.
  void Wake();
  /// Add and remove what the thread polls. Called in the thread.
  void Add(Polled* polled);
  void Remove(Polled* polled);

  /// Prints the message and ends all processes of the job. Any thread.
  [[noreturn]] void Abort(const std::string& message);

  /// Aborts unless `code`, which MPI's function has returned, says that it succeeded. Called in the
  /// thread.
  void Check(int code, const char* function);

 private:
  MpiThread();

  static MpiThread& Instance();
  void Run();
  std::string Initialize();
  void FindPlace();
  void Stop();
  bool RunCalls();
  void LetMessagesGoOn();
  void Pause(bool is_busy, bool is_recent);
  void PauseBriefly();

  const pid_t process_;
  bool has_initialized_ = false;  // MPI, which this thread then finalizes
  JobPlace place_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool ready_ = false;  // MPI is initialized, or refused
  std::string refusal_;
  bool woken_ = false;
  bool aborting_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  std::vector<const std::function<void()>*> calls_;
  uint64_t calls_done_ = 0;
  uint64_t calls_made_ = 0;

  // The thread's own.
  std::vector<Polled*> polled_;
  std::chrono::steady_clock::time_point crowded_until_;  // other threads need the processors
  std::thread::id id_;                                   // of the thread, set before ready_
  std::thread thread_;                                   // last: it uses the others
};

}  // namespace tessera::kvstore_mpi

#endif  // TESSERA_KVSTORE_MPI_MPI_THREAD_H_
