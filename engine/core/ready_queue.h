#ifndef TESSERA_ENGINE_CORE_READY_QUEUE_H_
#define TESSERA_ENGINE_CORE_READY_QUEUE_H_

#include <cstdint>
#include <limits>

#include "tessera/engine/core/execution.h"

namespace tessera::engine_internal {

/// Executions that are ready to run: demanded ones first, then by rank, then by push order (rank 0:
/// in order of arrival, which costs less and differs from push order by little).
///
/// It takes no memory, as it is linked through the executions: what comes here was accepted at its
/// push, and has to run.
///
/// Not synchronized: its owner holds a lock around every call, except for best_rank.
class ReadyQueue {
 public:
  static constexpr int64_t kEmptyRank = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kUrgentRank = std::numeric_limits<int64_t>::max();

  void Push(Execution* execution);

  /// The next to run; null if there is none.
  Execution* Pop();

  /// One that a wait needs; null if there is none.
  Execution* PopDemanded();

  /// Makes an execution the next to run if it is in the queue.
  void Promote(Execution* execution);

  /// Promotes the joins of replays that have become demanded since these were requested.
  void PromoteJoins();

  /// Calls visit(execution) for each, in no order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Fifo* fifo : {&urgent_, &plain_}) {
      for (const Execution* at = fifo->front(); at != nullptr; at = at->next) visit(*at);
    }
    ranked_.Find([&visit](const Execution& execution) {
      visit(execution);
      return false;
    });
  }

  bool empty() const { return size_ == 0; }
  int64_t size() const { return size_; }

  /// The rank of what Pop would return, kEmptyRank if nothing. May be read without the lock; then
  /// it may be out of date.
  int64_t best_rank() const {
    // Relaxed: decides only who runs first, never whether something may run.
    return best_rank_.load(std::memory_order_relaxed);
  }

 private:
  /// First in, first out, linked through the executions.
  class Fifo {
   public:
    bool empty() const { return head_ == nullptr; }
    int64_t size() const { return size_; }
    void PushBack(Execution* execution);
    void Remove(Execution* execution);
    Execution* front() const { return head_; }

   private:
    Execution* head_ = nullptr;
    Execution* tail_ = nullptr;
    int64_t size_ = 0;
  };

  /// In the order of their ranks and then of their pushes: a binary search tree, with `previous`
  /// and `next` for the two sides. It is a treap (C. Aragon and R. Seidel, "Randomized Search
  /// Trees", 1989), in which a number made from an execution's address says how high it stands: so
  /// whatever the ranks, paths are as long as the logarithm of the size, a few times over.
  class Ranked {
   public:
    bool empty() const { return root_ == nullptr; }
    void Insert(Execution* execution);
    /// It must stand here.
    void Remove(Execution* execution);
    /// The first to run; null if there is none.
    Execution* front() const;
    /// One for which found(execution) holds; null if there is none.
    template <typename Found>
    Execution* Find(const Found& found) const {
      return FindBelow(root_, found);
    }

   private:
    template <typename Found>
    static Execution* FindBelow(Execution* root, const Found& found) {
      for (; root != nullptr; root = root->next) {
        if (Execution* const before = FindBelow(root->previous, found)) return before;
        if (found(*root)) return root;
      }
      return nullptr;
    }

    Execution* root_ = nullptr;
  };

  Execution* FindDemandedJoin() const;
  void Remove(Execution* execution);
  void UpdateBestRank();

  Fifo urgent_;
  Fifo plain_;     // rank 0
  Ranked ranked_;  // all other ranks
  int64_t size_ = 0;
  int64_t joins_ = 0;  // of the kind kJoin
  std::atomic<int64_t> best_rank_{kEmptyRank};
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_READY_QUEUE_H_
