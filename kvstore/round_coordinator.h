#ifndef TESSERA_KVSTORE_ROUND_COORDINATOR_H_
#define TESSERA_KVSTORE_ROUND_COORDINATOR_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/kvstore/communicator.h"

namespace tessera::kvstore_internal {

/// What this rank adds to the sum of one key.
struct Summand {
  int key = 0;       ///< the key's number
  SumBuffer buffer;  ///< borrowed until `done` is called
  DType dtype = DType::kUnknown;
  /// Called by the communicator's thread, or with a failure by another one. May push engine
  /// operations.
  Communicator::Done done;
};

/// A point that all ranks pass together.
struct MeetingPoint {
  std::string description;              ///< the same text on every rank, such as "Barrier"
  std::span<std::byte> broadcast = {};  ///< if not empty, receives rank 0's bytes
  std::span<double> sum = {};           ///< if not empty, is replaced by the sums over all ranks
  std::string new_key = {};  ///< if not empty, the name of a key that exists from here on
};

/// Agrees with the other ranks on what is summed next, and has a communicator sum it.
///
/// Ranks may push keys in different orders, because the engine does. So in each round every rank
/// gives one bit for each key, which says whether the rank's summand is ready. The keys that are
/// ready on all ranks are summed, in the order of their numbers, in buckets. A rank takes part in a
/// round once it has a ready key or has reached a meeting point. Sums overlap with later rounds.
///
/// Rounds and sums begin and end in the communicator's thread, so that nothing waits for another
/// thread to wake. The coordinator's own thread does what blocks: meeting points, pauses, the
/// rounds after these, and failures.
///
/// Meeting points order pushes: between two of them every rank must push each key equally often.
/// Ranks that do not are found in a round in which no key can become ready any more, or in which
/// some ranks have reached a meeting point and others have not; that makes the job fail, with an
/// error that says what two ranks wait for.
///
/// After a failure every call and every summand has the error of the failure.
///
/// Threads: every member may be called from any thread. At most one summand of a key may be
/// submitted and not done.
class RoundCoordinator {
 public:
  explicit RoundCoordinator(std::shared_ptr<Communicator> communicator);
  /// Requires: Stop has been called.
  ~RoundCoordinator();
  RoundCoordinator(const RoundCoordinator&) = delete;
  RoundCoordinator& operator=(const RoundCoordinator&) = delete;

  /// Announces a push, so that Meet waits for its sum. Returns the number of meeting points before
  /// it, for Submit or Withdraw, of which one must be called. Throws the failure.
  uint64_t Announce();
  /// Gives the summand of an announced push.
  void Submit(uint64_t meetings, Summand summand);
  /// Says that an announced push has no summand, which makes the job fail. `rethrow` throws the
  /// reason; it is called in the coordinator's own thread.
  void Withdraw(std::function<void()> rethrow);

  /// Blocks until the sums of all earlier pushes are complete and every rank has called Meet with
  /// the same description. Pushes that are announced meanwhile come after the meeting point. Throws
  /// the failure.
  void Meet(const MeetingPoint& point);

  /// Makes the job fail because this rank cannot go on.
  void Fail(const std::string& cause);

  /// Ends the thread. Called once, after the last Meet or a failure, and after all other calls.
  void Stop();

 private:
  /// What a round leaves to the coordinator's thread.
  enum class Outcome { kNone, kMeeting, kDisagreement };
  /// A failure that this rank has found, alone or with all others in the same round.
  struct Failure {
    std::string cause;
    AbortBy by;
  };
  using Lock = std::unique_lock<std::mutex>;

  // In the communicator's thread.
  void OnPosted();
  void OnAgreed(const std::exception_ptr& error);
  void OnSummed(std::vector<Summand>& summands, const std::exception_ptr& error);
  void Launch(Lock& lock, const std::vector<int>& keys);
  Outcome Judge() const;
  std::vector<int> CommonKeys() const;

  // In the coordinator's thread.
  void Run();
  void Serve(Lock& lock);
  void PassMeetingPoint(Lock& lock);
  [[noreturn]] void Disagree(Lock& lock);
  [[noreturn]] void FailForWithdrawn(Lock& lock);
  std::string DescribeState() const;
  void Await(Lock& lock, const std::function<void(Communicator::Done)>& call);
  void Break(Lock& lock, const std::string& cause);

  // In any thread.
  bool IsAtMeetingPoint() const;
  bool IsClosed() const;
  bool HasSomethingToSay() const;
  bool MayBeginRound() const;
  void BeginRound(Lock& lock);
  void PostRound(Lock& lock);
  void ComposeWords();

  const std::shared_ptr<Communicator> communicator_;

  std::mutex meeting_mutex_;  // held by the thread that is in Meet
  std::mutex mutex_;          // guards all that follows
  std::condition_variable changed_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::vector<std::string> keys_;
  uint64_t meetings_ = 0;                  // passed so far
  const MeetingPoint* meeting_ = nullptr;  // the one that a thread waits for
  int64_t announced_ = 0;        // pushes before the next meeting point whose sums are not complete
  int64_t announced_after_ = 0;  // pushes after it
  std::map<int, Summand> ready_;
  std::vector<Summand> ready_after_;  // those of pushes after the next meeting point
  int64_t flying_ = 0;                // summands that the communicator has, or had
  std::vector<Summand> lost_;         // those whose sums have failed
  std::vector<std::function<void()>> withdrawn_;
  int64_t calls_ = 0;  // of the communicator, not complete
  bool has_news_ = false;
  bool is_posted_ = false;    // OnPosted will be called
  bool failing_ = false;      // no round begins any more
  std::exception_ptr error_;  // of the communicator
  bool has_reply_ = false;    // to Await
  std::exception_ptr reply_error_;

  // A round, from its words to the last call that follows from it.
  bool in_round_ = false;
  Outcome outcome_ = Outcome::kNone;
  std::vector<uint64_t> words_;
  bool said_meeting_ = false;           // whether its words say that the rank is at a meeting point
  std::chrono::microseconds pause_{0};  // before the next round, without news
  std::chrono::steady_clock::time_point pause_ends_;

  std::vector<char> state_, states_;  // texts for an error: this rank's and all ranks'

  std::thread thread_;  // last: it uses the others
};

}  // namespace tessera::kvstore_internal

#endif  // TESSERA_KVSTORE_ROUND_COORDINATOR_H_
