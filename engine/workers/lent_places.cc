#include "tessera/engine/workers/lent_places.h"

#include <utility>

#include "tessera/engine/lifetime/living_engines.h"

namespace tessera::engine_internal {

/// Others work in the place that this thread has in the engine, until as many calls of TakeBack.
void DependencyEngine::Lend(LentPlace& place) {
  if (place.times++ > 0) return;
  place.current = ThreadFrame::Current(id_);
  // First, so that what the visit leaves is in the queue when a thread for it is looked for.
  SuspendVisit(place.current);
  place.lent = LendPlace(Lender::kBlocked);
}

void DependencyEngine::TakeBack(LentPlace& place) {
  if (--place.times > 0) return;
  if (place.lent) TakeBackPlace(Lender::kBlocked);
  ResumeVisit(place.current);
}

DependencyEngine::PlaceTakenBack::PlaceTakenBack(DependencyEngine* engine)
    : engine_(engine), place_(LentPlaces::LentIn(engine)) {
  if (place_ == nullptr) return;
  times_ = std::exchange(place_->times, 1);
  engine_->TakeBack(*place_);
}

DependencyEngine::PlaceTakenBack::~PlaceTakenBack() {
  if (place_ == nullptr) return;
  engine_->Lend(*place_);
  place_->times = times_;
}

DependencyEngine::LentPlaces::LentPlaces(DependencyEngine* engine, std::mutex* mutex,
                                         std::condition_variable* condition) noexcept
    : mutex_(mutex), condition_(condition) {
  own_.engine = engine;
  LentPlace* last = &own_;
  const ThreadFrame* const lent_from = outer_ == nullptr ? nullptr : outer_->frame_;
  for (ThreadFrame* frame = ThreadFrame::Innermost(); frame != lent_from; frame = frame->outer()) {
    last = Append(frame->engine(), frame->place(), last);
  }
  if (outer_ == nullptr) LendOfPiece(last);
  knows_several_ = KnowsSeveral();
  innermost_ = this;
  for (LentPlace* place = &own_; place != nullptr; place = place->of_outer_engine) {
    place->mutex = mutex_;
    place->condition = condition_;
    place->previous = nullptr;
    std::lock_guard<std::mutex> hold(place->engine->lent_places_mutex_);
    LentPlace*& head = place->engine->lent_places_;
    place->next = head;
    if (head != nullptr) head->previous = place;
    head = place;
  }
  if (outer_ != nullptr) outer_->WakeWith(mutex_, condition_);
}

DependencyEngine::LentPlaces::~LentPlaces() {
  if (outer_ != nullptr) outer_->WakeWith(outer_->mutex_, outer_->condition_);
  for (LentPlace* place = &own_; place != nullptr; place = place->of_outer_engine) {
    std::lock_guard<std::mutex> hold(place->engine->lent_places_mutex_);
    LentPlace*& head = place->engine->lent_places_;
    (place->previous == nullptr ? head : place->previous->next) = place->next;
    if (place->next != nullptr) place->next->previous = place->previous;
  }
  innermost_ = outer_;
  for (LentPlace* place = own_.of_outer_engine; place != nullptr; place = place->of_outer_engine) {
    place->engine->TakeBack(*place);
  }
  if (piece_of_ != nullptr) piece_of_->Deactivate();
}

DependencyEngine::LentPlaces* DependencyEngine::LentPlaces::Enclosing() {
  // A report may fork: in the child nobody wakes its parent's sleep, and its locks may be held.
  return innermost_ == nullptr || innermost_->own_.engine->forked() ? nullptr : innermost_;
}

LentPlace* DependencyEngine::LentPlaces::LentIn(const DependencyEngine* engine) {
  LentPlace* place = nullptr;
  if (ThreadFrame* const frame = ThreadFrame::InnermostOf(engine->id_)) {
    place = &frame->place();  // what lies further outward was lent, and taken back, before it
  } else {
    for (LentPlaces* sleep = innermost_; sleep != nullptr; sleep = sleep->outer_) {
      if (sleep->piece_of_ == engine) place = &sleep->of_piece_;
    }
  }
  return place == nullptr || place->times == 0 ? nullptr : place;
}

LentPlace* DependencyEngine::LentPlaces::Append(DependencyEngine* engine, LentPlace& place,
                                                LentPlace* last) {
  // In the child of a fork the parent's frames are still there, but not its threads.
  if (Has(engine) || engine->forked()) return last;
  place.engine = engine;
  place.of_outer_engine = nullptr;
  last->of_outer_engine = &place;
  engine->Lend(place);
  return &place;
}

/// Where this thread has come through TBB to a piece of an operation's loop there is no frame: but
/// the loop goes on no sooner than this piece, and the arena has one thread less.
void DependencyEngine::LentPlaces::LendOfPiece(LentPlace* last) {
  const uint64_t id = ThreadFrame::Arena();
  if (id == 0 || id == own_.engine->id_ || ThreadFrame::HasFrame(id)) return;
  // What was left in the arena by an operation that is over would not keep the engine.
  LivingEngine::Find(id, [this](DependencyEngine& engine) {
    std::lock_guard<FutexLock> hold(engine.queue_lock_);
    ++engine.active_;
    piece_of_ = &engine;
  });
  if (piece_of_ != nullptr) Append(piece_of_, of_piece_, last);
}

bool DependencyEngine::LentPlaces::Has(const DependencyEngine* engine) const {
  const LentPlace* place = &own_;
  while (place != nullptr && place->engine != engine) place = place->of_outer_engine;
  return place != nullptr;
}

/// Whether this thread works for an engine and waits for another. The end of the process is no
/// business of a thread that works for none; and one that waits for its own engine looks itself.
bool DependencyEngine::LentPlaces::KnowsSeveral() const {
  if (own_.of_outer_engine != nullptr) return true;
  if (outer_ == nullptr) return false;
  if (outer_->knows_several_) return true;
  const DependencyEngine* const outer_engine = outer_->own_.engine;
  return outer_engine != own_.engine && ThreadFrame::Inside(outer_engine->id_);
}

void DependencyEngine::LentPlaces::WakeWith(std::mutex* mutex, std::condition_variable* condition) {
  for (LentPlaces* sleep = this; sleep != nullptr; sleep = sleep->outer_) {
    for (LentPlace* place = &sleep->own_; place != nullptr; place = place->of_outer_engine) {
      std::lock_guard<std::mutex> hold(place->engine->lent_places_mutex_);
      place->mutex = mutex;
      place->condition = condition;
    }
  }
}

/// Whether found(engine) holds for one of those that this sleep, or one that it lies in, is known
/// to.
template <typename Found>
bool DependencyEngine::LentPlaces::Any(const Found& found) const {
  for (const LentPlaces* sleep = this; sleep != nullptr; sleep = sleep->outer_) {
    for (const LentPlace* place = &sleep->own_; place != nullptr; place = place->of_outer_engine) {
      if (found(*place->engine)) return true;
    }
  }
  return false;
}

bool DependencyEngine::LentPlaces::process_ends() const {
  return knows_several_ &&
         Any([](const DependencyEngine& engine) { return engine.abandoned_.load(); });
}

}  // namespace tessera::engine_internal
