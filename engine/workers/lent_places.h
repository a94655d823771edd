#ifndef TESSERA_ENGINE_WORKERS_LENT_PLACES_H_
#define TESSERA_ENGINE_WORKERS_LENT_PLACES_H_

#include <condition_variable>
#include <mutex>

#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/workers/tbb_workers.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

/// While it lives, others work in the place of this thread, which sleeps on that condition, for the
/// engines that it has frames of, and for the one whose operation's loop it is at a piece of; but
/// for `engine`, which sees to that itself. Of two engines that know each other by such a wait
/// neither could end with the process while the other holds it: so the sleep is woken when one of
/// them ends.
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

 private:
  friend class PlaceTakenBack;

  /// The sleep in whose stall report this thread is; null if in none.
  static LentPlaces* Enclosing();
  /// The place of this thread in the engine if it is lent, in whatever way; or null.
  static LentPlace* LentIn(const DependencyEngine* engine);
  /// Lends `place`, and appends it to `last`, if that engine is none of those before. Returns the
  /// last one.
  LentPlace* Append(DependencyEngine* engine, LentPlace& place, LentPlace* last);
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

/// While it lives, the function that the operation of this frame calls may block: others work in
/// its place.
class DependencyEngine::Blocked {
 public:
  explicit Blocked(DependencyEngine* engine)
      : engine_(engine), place_(ThreadFrame::InnermostOf(engine->id_)->place()) {
    engine_->Lend(place_);
  }
  ~Blocked() { engine_->TakeBack(place_); }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  DependencyEngine* const engine_;
  LentPlace& place_;
};

/// While it lives, this thread has its place in the engine back, if that is lent: for what a thread
/// does for the engine although it is in another one's Execute, or may block.
class DependencyEngine::PlaceTakenBack {
 public:
  explicit PlaceTakenBack(DependencyEngine* engine);
  ~PlaceTakenBack();
  PlaceTakenBack(const PlaceTakenBack&) = delete;
  PlaceTakenBack& operator=(const PlaceTakenBack&) = delete;

 private:
  DependencyEngine* const engine_;
  LentPlace* const place_;  // null if it is not lent
  int times_ = 0;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_LENT_PLACES_H_
