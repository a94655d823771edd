#ifndef TESSERA_ENGINE_VARIABLE_H_
#define TESSERA_ENGINE_VARIABLE_H_

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>

#include "tessera/base/dialect.h"

namespace tessera {

/// Something that operations read and write: an opaque token by which an engine orders them. Only
/// the operations know what it stands for (a buffer, a random generator, a file).
///
/// Made by Engine::NewVariable and given back to the same engine's DeleteVariable; a variable
/// belongs to one engine. Pointers to it stay valid until DeleteVariable is called.
class Variable {
 public:
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

  /// The number of writes that have been pushed on the variable. It advances at the push, not when
  /// the write runs, so that a thread can tell without waiting whether something pushed since would
  /// change the value. Skipped and failed writes count as well; all those of a schedule's replay
  /// count as one, but where a replay pushes each operation by itself.
  uint64_t version() const {
    // Relaxed: the number orders nothing; what a write did becomes visible through a wait.
    return version_.load(std::memory_order_relaxed);
  }

 protected:
  Variable() = default;
  ~Variable() = default;

  std::atomic<uint64_t> version_{0};  ///< what version() gives
};

/// MXNet's name for it.
using Var = Variable;

/// A borrowed list of variables: `{a, b}`, a std::vector<Variable*>, an array or a std::span.
/// It is a parameter type; a kept VariableList made from braces would dangle.
class VariableList {
 public:
  constexpr VariableList() = default;
  constexpr VariableList(std::initializer_list<Variable*> list)
      : list_(list.begin(), list.size()) {}
  template <std::ranges::contiguous_range Range>
  requires std::convertible_to<Range&&, std::span<Variable* const>>
  constexpr VariableList(Range&& range) : list_(std::forward<Range>(range)) {}

  /// The members of a std::span.
  constexpr auto begin() const { return list_.begin(); }
  constexpr auto end() const { return list_.end(); }
  constexpr size_t size() const { return list_.size(); }
  constexpr bool empty() const { return list_.empty(); }
  constexpr Variable* operator[](size_t i) const { return list_[i]; }

 private:
  std::span<Variable* const> list_;
};

}  // namespace tessera

#endif  // TESSERA_ENGINE_VARIABLE_H_
