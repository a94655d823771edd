#include "tessera/kvstore/round_coordinator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::kvstore_internal {
namespace {

/// Keys are summed together up to this size; a larger one is summed alone. At 10 Gbit/s a bucket
/// takes some ms, beside which a collective's latency of some 10 us does not count.
constexpr int64_t kBucketBytes = int64_t{4} << 20;

/// Pauses between rounds in which no key was ready on all ranks: they keep ranks that wait for a
/// slow one from using a processor, and delay the sum by at most as much.
constexpr std::chrono::microseconds kShortestPause{50}, kLongestPause{2000};

/// The first words of a round: flags, then a meeting point's hash and its complement. The keys'
/// bits follow. Each word is intersected over all ranks, so a flag is left if it holds everywhere.
constexpr size_t kFlags = 0, kHash = 1, kHashComplement = 2, kFirstKeys = 3;
constexpr uint64_t kAtMeetingPoint = 1, kNotAtMeetingPoint = 2;
/// No further key can become ready before the next meeting point.
constexpr uint64_t kClosed = 4;

/// The size of a rank's text in an error about two ranks.
constexpr size_t kStateBytes = 512;

/// FNV-1a: G. Fowler, L. C. Noll, K.-P. Vo (1991).
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

RoundCoordinator::RoundCoordinator(std::shared_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)), thread_([this] { Run(); }) {}

RoundCoordinator::~RoundCoordinator() { TESSERA_DCHECK(!thread_.joinable()); }

uint64_t RoundCoordinator::Announce() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (meeting_ == nullptr) {
    ++announced_;
    return meetings_;
  }
  ++announced_after_;
  return meetings_ + 1;
}

void RoundCoordinator::Submit(uint64_t meetings, Summand summand) {
  Lock lock(mutex_);
  if (failure_) {
    const std::exception_ptr failure = failure_;
    lock.unlock();
    return summand.done(failure);
  }
  if (meetings == meetings_) {
    const int key = summand.key;
    ready_.emplace(key, std::move(summand));
  } else {
    ready_after_.push_back(std::move(summand));
  }
  has_news_ = true;
  PostRound(lock);
}

void RoundCoordinator::Withdraw(std::function<void()> rethrow) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  withdrawn_.push_back(std::move(rethrow));
  changed_.notify_all();
}

void RoundCoordinator::Fail(const std::string& cause) {
  Withdraw([cause] { throw FailedPrecondition(cause); });
}

void RoundCoordinator::Meet(const MeetingPoint& point) {
  const std::lock_guard one_at_a_time(meeting_mutex_);
  Lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  meeting_ = &point;
  has_news_ = true;
  const uint64_t before = meetings_;
  PostRound(lock);
  changed_.wait(lock, [&] { return meetings_ != before || failure_; });
  if (meetings_ != before) return;
  meeting_ = nullptr;
  std::rethrow_exception(failure_);
}

void RoundCoordinator::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void RoundCoordinator::Run() {
  Lock lock(mutex_);
  try {
    Serve(lock);
  } catch (const Failure& failure) {
    failing_ = true;
    lock.unlock();
    communicator_->Abort(failure.cause, failure.by);
    lock.lock();
    const bool is_own = failure.by == AbortBy::kThisRank;
    Break(lock, is_own ? "rank " + std::to_string(communicator_->rank()) + ": " + failure.cause
                       : failure.cause);
  } catch (const std::exception& error) {
    failing_ = true;
    Break(lock, error.what());  // of the communicator
  }
}

/// Does what must not be done in the communicator's thread. Returns when the coordinator stops.
void RoundCoordinator::Serve(Lock& lock) {
  for (;;) {
    if (error_) std::rethrow_exception(error_);
    if (!withdrawn_.empty()) FailForWithdrawn(lock);
    if (outcome_ == Outcome::kMeeting) PassMeetingPoint(lock);
    if (outcome_ == Outcome::kDisagreement) Disagree(lock);
    if (in_round_ || !HasSomethingToSay()) {
      if (stopping_ && !in_round_) return;
      changed_.wait(lock);
    } else if (MayBeginRound()) {
      BeginRound(lock);
    } else {
      changed_.wait_until(lock, pause_ends_);
    }
  }
}

bool RoundCoordinator::HasSomethingToSay() const { return !ready_.empty() || IsAtMeetingPoint(); }

bool RoundCoordinator::MayBeginRound() const {
  return !failing_ && withdrawn_.empty() && !in_round_ && HasSomethingToSay() &&
         (has_news_ || std::chrono::steady_clock::now() >= pause_ends_);
}

/// Has the communicator's thread begin a round, if one may begin. Summands that become ready until
/// it does so take part.
void RoundCoordinator::PostRound(Lock& lock) {
  if (is_posted_ || !MayBeginRound()) return;
  is_posted_ = true;
  lock.unlock();
  communicator_->Post([this] { OnPosted(); });
  lock.lock();
}

void RoundCoordinator::OnPosted() {
  Lock lock(mutex_);
  is_posted_ = false;
  if (MayBeginRound()) BeginRound(lock);
}

void RoundCoordinator::BeginRound(Lock& lock) {
  ComposeWords();
  has_news_ = false;
  in_round_ = true;
  ++calls_;
  lock.unlock();
  communicator_->Intersect(words_, [this](const std::exception_ptr& error) { OnAgreed(error); });
  lock.lock();
}

void RoundCoordinator::OnAgreed(const std::exception_ptr& error) {
  Lock lock(mutex_);
  --calls_;
  if (error) error_ = error;
  if (error_ || failing_) return changed_.notify_all();
  outcome_ = Judge();
  if (outcome_ != Outcome::kNone) return changed_.notify_all();  // the round goes on in Serve
  const std::vector<int> keys = CommonKeys();
  if (keys.empty()) {
    pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
    pause_ends_ = std::chrono::steady_clock::now() + pause_;
  } else {
    pause_ = {};
    pause_ends_ = {};
    Launch(lock, keys);
  }
  in_round_ = false;
  if (MayBeginRound()) return BeginRound(lock);
  if (keys.empty()) changed_.notify_all();  // the coordinator's thread ends the pause
}

/// Says what follows from a round's words, except the sums of common keys.
RoundCoordinator::Outcome RoundCoordinator::Judge() const {
  const uint64_t common = words_[kFlags];
  if ((common & kAtMeetingPoint) != 0) {
    const bool is_same = (words_[kHash] | words_[kHashComplement]) == ~uint64_t{0};
    return is_same ? Outcome::kMeeting : Outcome::kDisagreement;
  }
  // A rank at a meeting point pushes nothing before it, and a rank that is not waits for a sum.
  if ((common & kNotAtMeetingPoint) == 0) return Outcome::kDisagreement;
  const bool is_closed = (common & kClosed) != 0;
  return is_closed && CommonKeys().empty() ? Outcome::kDisagreement : Outcome::kNone;
}

bool RoundCoordinator::IsAtMeetingPoint() const { return meeting_ != nullptr && announced_ == 0; }

bool RoundCoordinator::IsClosed() const {
  return meeting_ != nullptr && announced_ == static_cast<int64_t>(ready_.size()) + flying_;
}

void RoundCoordinator::ComposeWords() {
  words_.assign(kFirstKeys + (keys_.size() + 63) / 64, 0);
  said_meeting_ = IsAtMeetingPoint();
  words_[kFlags] =
      (said_meeting_ ? kAtMeetingPoint : kNotAtMeetingPoint) | (IsClosed() ? kClosed : 0);
  const uint64_t hash = said_meeting_ ? HashOf(meeting_->description) : 0;
  words_[kHash] = hash;
  words_[kHashComplement] = ~hash;
  for (const auto& [key, summand] : ready_) {
    const auto bit = static_cast<size_t>(key);
    words_[kFirstKeys + bit / 64] |= uint64_t{1} << bit % 64;
  }
}

std::vector<int> RoundCoordinator::CommonKeys() const {
  std::vector<int> keys;
  for (size_t i = kFirstKeys; i < words_.size(); ++i) {
    for (uint64_t bits = words_[i]; bits != 0; bits &= bits - 1) {
      keys.push_back(static_cast<int>((i - kFirstKeys) * 64) + std::countr_zero(bits));
    }
  }
  return keys;
}

void RoundCoordinator::PassMeetingPoint(Lock& lock) {
  const MeetingPoint& point = *meeting_;  // Meet does not return before this function says so
  if (!point.broadcast.empty()) {
    Await(lock, [&](Communicator::Done done) {
      communicator_->Broadcast(point.broadcast, /*root=*/0, std::move(done));
    });
  }
  if (!point.sum.empty()) {
    const SumBuffer buffer{point.sum.data(), point.sum.data(),
                           static_cast<int64_t>(point.sum.size())};
    Await(lock, [&](Communicator::Done done) {
      communicator_->SumInto(std::span(&buffer, 1), DType::kFloat64, std::move(done));
    });
  }
  if (!point.new_key.empty()) keys_.push_back(point.new_key);
  outcome_ = Outcome::kNone;
  in_round_ = false;
  pause_ = {};
  pause_ends_ = {};
  meeting_ = nullptr;
  ++meetings_;
  announced_ = std::exchange(announced_after_, 0);
  for (Summand& summand : ready_after_) {
    const int key = summand.key;
    ready_.emplace(key, std::move(summand));
  }
  ready_after_.clear();
  has_news_ = true;
  changed_.notify_all();
}

/// Gives the summands of these keys to the communicator. The buckets are the same on every rank.
void RoundCoordinator::Launch(Lock& lock, const std::vector<int>& keys) {
  struct Bucket {
    DType dtype = DType::kUnknown;
    int64_t size_bytes = 0;
    std::vector<SumBuffer> buffers;
    std::shared_ptr<std::vector<Summand>> summands = std::make_shared<std::vector<Summand>>();
  };
  std::vector<Bucket> buckets;
  for (const int key : keys) {
    Summand summand = std::move(ready_.extract(key).mapped());
    const int64_t size_bytes = summand.buffer.size * DTypeSizeBytes(summand.dtype);
    if (buckets.empty() || buckets.back().dtype != summand.dtype ||
        buckets.back().size_bytes + size_bytes > kBucketBytes) {
      buckets.push_back({summand.dtype});
    }
    Bucket& bucket = buckets.back();
    bucket.size_bytes += size_bytes;
    bucket.buffers.push_back(summand.buffer);
    bucket.summands->push_back(std::move(summand));
  }
  flying_ += static_cast<int64_t>(keys.size());
  calls_ += static_cast<int64_t>(buckets.size());
  lock.unlock();
  for (const Bucket& bucket : buckets) {
    communicator_->SumInto(bucket.buffers, bucket.dtype,
                           [this, summands = bucket.summands](const std::exception_ptr& error) {
                             OnSummed(*summands, error);
                           });
  }
  lock.lock();
}

void RoundCoordinator::OnSummed(std::vector<Summand>& summands, const std::exception_ptr& error) {
  if (!error) {
    // A meeting point is passed only after these calls, as the pushes still count.
    for (const Summand& summand : summands) summand.done(nullptr);
  }
  Lock lock(mutex_);
  --calls_;
  if (error) {
    error_ = error;
    std::move(summands.begin(), summands.end(), std::back_inserter(lost_));
  } else {
    flying_ -= static_cast<int64_t>(summands.size());
    announced_ -= static_cast<int64_t>(summands.size());
  }
  if (error_ || failing_) return changed_.notify_all();
  if (MayBeginRound()) BeginRound(lock);
}

/// Says what this rank waits for, as its words of the last round did.
std::string RoundCoordinator::DescribeState() const {
  if (said_meeting_) return "is at " + meeting_->description;
  if (ready_.empty()) return "waits for nothing";
  const auto key = static_cast<size_t>(ready_.begin()->first);
  std::string text = "waits for the sum of key " + Excerpt(keys_[key]);
  if (ready_.size() > 1) text += " and of " + std::to_string(ready_.size() - 1) + " others";
  return text;
}

void RoundCoordinator::Disagree(Lock& lock) {
  const auto ranks = static_cast<size_t>(communicator_->size());
  state_.assign(kStateBytes, '\0');
  states_.assign(ranks * kStateBytes, '\0');
  const std::string state = DescribeState();
  std::memcpy(state_.data(), state.data(), std::min(state.size(), kStateBytes - 1));
  Await(lock, [this](Communicator::Done done) {
    communicator_->AllGather(std::as_bytes(std::span(state_)),
                             std::as_writable_bytes(std::span(states_)), std::move(done));
  });
  const auto state_of = [this](size_t rank) { return std::string(&states_[rank * kStateBytes]); };
  size_t other = 1;
  while (other + 1 < ranks && state_of(other) == state_of(0)) ++other;
  std::string message = "the ranks disagree: rank 0 " + state_of(0);
  if (other < ranks) message += ", and rank " + std::to_string(other) + " " + state_of(other);
  message +=
      "; expected every rank to call Init and Barrier in the same order, and between these to push "
      "each key equally often";
  throw Failure{message, AbortBy::kEveryRank};
}

/// Makes a call of the communicator and waits until it is complete. What the call borrows must
/// outlive an exception of this function: Break waits for the call.
void RoundCoordinator::Await(Lock& lock, const std::function<void(Communicator::Done)>& call) {
  has_reply_ = false;
  ++calls_;
  lock.unlock();
  call([this](std::exception_ptr error) {
    const std::lock_guard hold(mutex_);
    has_reply_ = true;
    reply_error_ = std::move(error);
    --calls_;
    changed_.notify_all();
  });
  lock.lock();
  changed_.wait(lock, [this] { return has_reply_; });
  if (reply_error_) std::rethrow_exception(reply_error_);
}

void RoundCoordinator::FailForWithdrawn(Lock& lock) {
  const std::function<void()> rethrow = withdrawn_.front();
  lock.unlock();
  std::string cause = "a value was pushed that could not be computed";
  try {
    rethrow();
  } catch (const std::exception& error) {
    cause = error.what();
  }
  lock.lock();
  throw Failure{cause, AbortBy::kThisRank};
}

/// Gives the error of the job's failure to everyone who waits.
void RoundCoordinator::Break(Lock& lock, const std::string& cause) {
  // The communicator borrows memory until its calls are complete, that of Meet's callers too.
  changed_.wait(lock, [this] { return calls_ == 0; });
  failure_ = std::make_exception_ptr(FailedPrecondition("KVStore: the job has failed: ", cause));
  changed_.notify_all();
  std::vector<Communicator::Done> waiting;
  for (auto& [key, summand] : ready_) waiting.push_back(std::move(summand.done));
  for (Summand& summand : ready_after_) waiting.push_back(std::move(summand.done));
  for (Summand& summand : lost_) waiting.push_back(std::move(summand.done));
  ready_.clear();
  ready_after_.clear();
  lost_.clear();
  std::vector<std::function<void()>> withdrawn = std::exchange(withdrawn_, {});
  lock.unlock();
  withdrawn.clear();  // their arrays go, and NaiveEngine may run operations here
  for (const Communicator::Done& done : waiting) done(failure_);
  lock.lock();
}

}  // namespace tessera::kvstore_internal
