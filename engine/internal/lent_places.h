#ifndef TESSERA_ENGINE_INTERNAL_LENT_PLACES_H_
#define TESSERA_ENGINE_INTERNAL_LENT_PLACES_H_

#include <condition_variable>
#include <mutex>

#include "tessera/engine/internal/dependency_engine.h"
#include "tessera/engine/internal/tbb_workers.h"
#include "tessera/engine/internal/thread_frame.h"

namespace tessera::engine_internal {

/// While it lives, others work in the place of this thread, which sleeps on that condition, for the
/// engines that it has frames of, and for the one whose operation's loop it is at a piece of; but
/// for `engine`, which sees to that itself. Of two engines that know each other by such a wait
/// neither could end with the process while the other holds it: so the sleep is woken when one of
/// them ends. And who sleeps has nothing else to do: it is woken to order runners once more for an
/// engine that the system has refused them.
///
/// One may lie in another: a stall report that sleeps is called in the middle of a sleep. What lies
/// outward is lent already; it wakes the inner sleep as long as that lasts.
///
/// It takes no memory, since waits have reached where an exception would leave pointers to them.
class DependencyEngine::LentPlaces {
 public:
  LentPlaces(DependencyEngine* engine, std::mutex* mutex,
             std::condition_variable* condition) noexcept;
  ~LentPlaces();
  LentPlaces(const LentPlaces&) = delete;
  LentPlaces& operator=(const LentPlaces&) = delete;

  /// Whether one of the engines ends with the process, in a thread that works for any of them.
  bool process_ends() const;

  /// Whether one of them has been refused the runners that it needs.
  bool starved() const;
  /// Orders these again. Returns false if the system has refused them again.
  bool Restart() const;
  /// Runs an operation of one of them, but for the waiting engine, on top of this sleep: for where
  /// the system goes on to refuse. Returns false if there is none.
  bool RunOnTop() const;

 private:
  /// The sleep in whose stall report this thread is; null if in none.
  static LentPlaces* Enclosing();
  /// Fills in `place`, and appends it to `last`, if that engine is none of those before. Returns
  /// the last one.
  LentPlace* Lend(DependencyEngine* engine, LentPlace& place, LentPlace* last);
  void LendOfPiece(LentPlace* last);
  bool Has(const DependencyEngine* engine) const;
  bool KnowsSeveral() const;
  void WakeWith(std::mutex* mutex, std::condition_variable* condition);
  template <typename Found>
  bool Any(const Found& found) const;

  static inline thread_local LentPlaces* innermost_ = nullptr;

  const BorrowedSleep sleep_;
  LentPlaces* const outer_ = Enclosing();
  const ThreadFrame* const frame_ = ThreadFrame::Innermost();
  std::mutex* const mutex_;
  std::condition_variable* const condition_;
  LentPlace own_{};                       // the waiting engine's, the first of this sleep's
  LentPlace of_piece_{};                  // if piece_of_ is not null
  DependencyEngine* piece_of_ = nullptr;  // which must not end meanwhile
  bool knows_several_ = false;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_INTERNAL_LENT_PLACES_H_
