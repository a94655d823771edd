#include "tessera/engine/testing/random_program.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tessera::engine_internal {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 33);
}

/// Takes `count` distinct elements out of `pool`, or all that are left.
std::vector<int> Choose(std::mt19937_64& random, int count, std::vector<int>& pool) {
  std::vector<int> chosen;
  for (int i = 0; i < count && !pool.empty(); ++i) {
    std::swap(pool[random() % pool.size()], pool.back());
    chosen.push_back(pool.back());
    pool.pop_back();
  }
  return chosen;
}

/// Has schedules that are kept replayed between later operations, while their variables are there.
void PlanLaterReplays(std::mt19937_64& random, Program& program) {
  const int operations = static_cast<int>(program.operations.size());
  std::vector<int> deleted_at(program.variables, operations);
  for (int i = 0; i < operations; ++i) {
    if (program.operations[i].deletes >= 0) deleted_at[program.operations[i].deletes] = i;
  }
  const auto deleted_first = [&](int begin) {
    int first = operations;
    for (int k = begin; k < program.operations[begin].schedule_end; ++k) {
      const PlannedOperation& operation = program.operations[k];
      for (const auto* list : {&operation.reads, &operation.writes, &operation.updates}) {
        for (const int v : *list) first = std::min(first, deleted_at[v]);
      }
    }
    return first;
  };
  std::vector<int> kept;
  for (int i = 0; i < operations; ++i) {
    PlannedOperation& operation = program.operations[i];
    if (!kept.empty() && random() % 64 == 0) {
      const int begin = kept[random() % kept.size()];
      if (i <= deleted_first(begin)) operation.replays_again = begin;
    }
    if (operation.schedule_end < 0) continue;
    if (operation.keeps_schedule) kept.push_back(i);
    i = operation.schedule_end - 1;
  }
}

uint64_t Result(const PlannedOperation& operation, int index, const std::vector<uint64_t>& values) {
  uint64_t hash = static_cast<uint64_t>(index) + 1;
  for (int v : operation.reads) hash = Mix(hash, values[v]);
  for (int v : operation.updates) hash = Mix(hash, values[v]);
  for (int v : operation.writes) hash = Mix(hash, values[v]);
  return hash;
}

bool Writes(const PlannedOperation& operation, int variable) {
  const auto has = [variable](const std::vector<int>& list) {
    return std::find(list.begin(), list.end(), variable) != list.end();
  };
  return has(operation.writes) || has(operation.updates);
}

}  // namespace

Program MakeProgram(std::mt19937_64& random, int operations, int failing_per_mille) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  Program program;
  const int most_variables[] = {1, 10, 100, 1000};
  program.variables = 1 + below(most_variables[below(4)]);
  program.pushing_threads = below(3) == 0 ? 3 : 1;
  std::vector<int> living(program.variables);
  std::iota(living.begin(), living.end(), 0);
  for (int i = 0; i < operations; ++i) {
    PlannedOperation operation;
    // Mostly few variables, as real programs have, and sometimes many.
    const bool many = below(16) == 0;
    std::vector<int> pool;
    for (int tries = 0; tries < (many ? 40 : 8); ++tries) {
      const int v = living[below(static_cast<int>(living.size()))];
      if (std::find(pool.begin(), pool.end(), v) == pool.end()) pool.push_back(v);
    }
    operation.writes = Choose(random, 1 + below(many ? 10 : 2), pool);
    if (below(4) == 0) operation.updates = Choose(random, 1 + below(2), pool);
    operation.reads = Choose(random, below(many ? 21 : 4), pool);
    if (below(8) == 0) operation.priority = below(7) - 3;
    switch (below(32)) {
      case 0:
        operation.property = FnProperty::kAsync;
        break;
      case 1:
      case 2:
        operation.property = FnProperty::kNoSkip;
        break;
      default:
        break;
    }
    operation.async = below(16) == 0;
    operation.cached = below(4) == 0;
    operation.fails = below(1000) < failing_per_mille;
    if (below(128) == 0) operation.wait_for = living[below(static_cast<int>(living.size()))];
    if (below(64) == 0) {
      // A new variable comes in the place of the deleted one.
      int& place = living[below(static_cast<int>(living.size()))];
      if (place != operation.wait_for) {
        operation.deletes = place;
        place = program.variables++;
      }
    }
    program.operations.push_back(std::move(operation));
  }
  for (int i = 0; i < operations; ++i) {
    if (below(100) != 0) continue;
    PlannedOperation& first = program.operations[i];
    first.schedule_end = std::min(i + 1 + below(below(8) == 0 ? 200 : 20), operations);
    first.replays = below(4);
    first.keeps_schedule = below(2) == 0;
    for (int k = i; k < first.schedule_end; ++k) {
      program.operations[k].deletes = program.operations[k].wait_for = -1;
    }
    i = first.schedule_end - 1;
  }
  PlanLaterReplays(random, program);
  return program;
}

void PlanNestedPushes(std::mt19937_64& random, Program& program) {
  for (int i = 0; i < static_cast<int>(program.operations.size()); ++i) {
    PlannedOperation& operation = program.operations[i];
    operation.deletes = operation.wait_for = -1;
    operation.schedule_end = operation.replays_again = -1;
    if (i == 0 || random() % 4 != 0) continue;
    // Near enough that both may pend at once; it may be nested itself.
    operation.pushed_by = i - 1 - static_cast<int>(random() % std::min(i, 16));
    program.operations[operation.pushed_by].pushes.push_back(i);
  }
}

void Call(const Program& program, int index, Outcome& outcome) {
  const PlannedOperation& operation = program.operations[index];
  ++outcome.calls[index];
  if (operation.fails) throw PlannedFailure{index};
  // Adds to all variables that it writes, so that no two agree by chance.
  const uint64_t result = Result(operation, index, outcome.values);
  for (int v : operation.writes) outcome.values[v] = Mix(result, v);
  for (int v : operation.updates) outcome.values[v] = Mix(result, v);
}

std::vector<int> SerialOrder(const Program& program) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(program.operations.size()); ++i) {
    const PlannedOperation& operation = program.operations[i];
    if (const int again = operation.replays_again; again >= 0) {
      for (int k = again; k < program.operations[again].schedule_end; ++k) order.push_back(k);
    }
    if (operation.schedule_end < 0) {
      order.push_back(i);
      continue;
    }
    for (int replay = 0; replay < operation.replays; ++replay) {
      for (int k = i; k < operation.schedule_end; ++k) order.push_back(k);
    }
    i = operation.schedule_end - 1;
  }
  return order;
}

Outcome RunSerially(const Program& program, const std::vector<int>& order) {
  struct Chain {
    int origin;
    int began;             // the operation from which the chain counts
    int reported_at = -1;  // operations pushed by then
  };
  Outcome outcome(program);
  std::vector<Chain> chains;                     // in the order of their beginning
  std::vector<int> mark(program.variables, -1);  // index of a chain
  const auto report = [&](int chain, int pushed) {
    if (chain < 0 || chains[chain].reported_at >= 0) return;
    chains[chain].reported_at = pushed;
    outcome.order_of_reports.push_back(chains[chain].origin);
  };
  int pushed = 0;
  for (const int i : order) {
    const PlannedOperation& operation = program.operations[i];
    ++pushed;
    int inherited = -1;
    const auto inherit = [&](int v) {
      if (mark[v] < 0 || operation.property == FnProperty::kNoSkip) return;
      if (inherited < 0 || chains[mark[v]].began < chains[inherited].began) inherited = mark[v];
    };
    for (int v : operation.reads) inherit(v);
    for (int v : operation.updates) inherit(v);
    if (inherited >= 0 && chains[inherited].reported_at >= 0) {
      chains.push_back({chains[inherited].origin, pushed});  // after the report: a new chain
      inherited = static_cast<int>(chains.size()) - 1;
    }
    if (inherited >= 0) {
      ++outcome.skipped;
    } else {
      try {
        Call(program, i, outcome);
      } catch (const PlannedFailure&) {
        chains.push_back({i, pushed});
        inherited = static_cast<int>(chains.size()) - 1;
      }
    }
    for (int v : operation.writes) mark[v] = inherited;
    for (int v : operation.updates) mark[v] = inherited;
    if (operation.wait_for >= 0) report(mark[operation.wait_for], pushed);
  }
  // WaitForAll, until nothing is left: chains in the order of their beginning.
  for (int chain = 0; chain < static_cast<int>(chains.size()); ++chain) {
    report(chain, pushed);
  }
  return outcome;
}

bool Conflict(const PlannedOperation& a, const PlannedOperation& b) {
  const auto writes_what_is_used = [](const PlannedOperation& one, const PlannedOperation& other) {
    for (const auto* list : {&other.reads, &other.writes, &other.updates}) {
      for (const int v : *list) {
        if (Writes(one, v)) return true;
      }
    }
    return false;
  };
  return writes_what_is_used(a, b) || writes_what_is_used(b, a);
}

}  // namespace tessera::engine_internal
