#include "tessera/engine/workers/runner_orders.h"

namespace tessera::engine_internal {

RunnerOrdersOwner::~RunnerOrdersOwner() {
  if (record_->orders.IsOver()) {
    delete record_;
    return;
  }
  // A list of those that stay, so that leak checkers, which do not look into TBB, find them.
  static std::atomic<Record*> left{nullptr};
  record_->next = left.load(std::memory_order_relaxed);
  // Relaxed: nobody reads the list.
  while (!left.compare_exchange_weak(record_->next, record_, std::memory_order_relaxed)) {
  }
}

}  // namespace tessera::engine_internal
