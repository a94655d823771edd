#include "tessera/train/stop_signals.h"

#include <atomic>
#include <cstddef>
#include <iterator>

namespace tessera {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

// A handler may only store to it.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action = {};
  action.sa_handler = [](int number) { received_signal = number; };
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &old_[i]);
    if (old_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &old_[i], nullptr);
  received_signal = 0;
}

int StopSignals::received() { return received_signal; }

int StopSignals::exit_code() { return received() == 0 ? 0 : 128 + received(); }

}  // namespace tessera
