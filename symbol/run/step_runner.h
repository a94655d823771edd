#ifndef TESSERA_SYMBOL_RUN_STEP_RUNNER_H_
#define TESSERA_SYMBOL_RUN_STEP_RUNNER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_contents.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/storage/storage.h"
#include "tessera/symbol/run/prepared_program.h"

namespace tessera::symbol_internal {

/// Variables of the default engine, deleted with the object.
class VariableSet {
 public:
  explicit VariableSet(size_t count);
  ~VariableSet();
  VariableSet(const VariableSet&) = delete;
  VariableSet& operator=(const VariableSet&) = delete;

  Engine* engine() const { return engine_; }
  const std::vector<Variable*>& variables() const { return variables_; }

 private:
  Engine* const engine_;
  std::vector<Variable*> variables_;
};

/// A block of memory for intermediate values. Several executors may use one in turn; UseArenas
/// orders them.
class Arena {
 public:
  /// Allocates. Throws what Storage::Alloc throws.
  Arena(int64_t size_bytes, Device device);
  /// Frees the memory. Requires: no operation uses it.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* data() const { return handle_.dptr; }
  int64_t size_bytes() const { return handle_.size_bytes; }
  Device device() const { return handle_.device; }

  /// The variables that order the operations of the last user; null if there is none.
  std::shared_ptr<const VariableSet> user;

 private:
  const Storage::Handle handle_;
};

/// The memory and the variable of each value of a program.
struct Binding {
  explicit Binding(const PreparedProgram& program);

  /// Binds a value to an array. The binding keeps the memory alive.
  void SetArray(int value, const NDArray& array);
  /// Binds the intermediate values in `arenas`, which are those of the program's plan in order; a
  /// null one is left out. `set` has a variable for each of intermediate_variables().
  void SetArenas(const PreparedProgram& program, std::vector<std::shared_ptr<Arena>> arenas,
                 std::shared_ptr<const VariableSet> set);
  /// Lets the steps that read an input wait for its form (MakeForm), which they use once `prepared`
  /// has it. `index` is the input's position in prepared_inputs().
  void SetForm(const PreparedProgram& program, size_t index, const NDArray& form);

  std::vector<void*> pointers;       ///< for each value
  std::vector<Variable*> variables;  ///< for each value that stands for one
  std::vector<NDArray> arrays;       ///< for each value; is_none() for one in an arena
  /// For each value, whether writes keep some of the old elements that its variable orders: the
  /// array is a part of others, or is added to although the program writes it.
  std::vector<bool> keeps_old;
  std::vector<TBlob> blobs;           ///< see StepMemory; may be empty
  std::vector<const void*> prepared;  ///< see StepMemory; empty without forms
  std::vector<NDArray> forms;         ///< for each of prepared_inputs(), or empty without forms
  std::vector<std::shared_ptr<Arena>> arenas;
  std::shared_ptr<const VariableSet> own_variables;
};

/// Completes the arenas of a plan (see Binding::SetArenas) with those for one direction
/// (MemoryPlan::Arena::backward): takes one of `reused` that is large enough, each at most once, or
/// allocates. Empty arenas stay null.
void AddArenas(const PreparedProgram& program, bool backward,
               std::vector<std::shared_ptr<Arena>> reused,
               std::vector<std::shared_ptr<Arena>>* arenas);

/// Returns an array for a form of an input on that device, whose memory its first use allocates.
/// Storage::TagStats counts it under "prepared".
NDArray MakeForm(const PreparedInput& input, Device device);

/// Allocates the memory of a form and returns its address; null if there is not enough, so that the
/// steps have to use the elements.
const void* AllocateForm(const NDArray& form);

/// Pushes the operation that makes the form of input `index` of a program from the input's array.
void PushForm(std::shared_ptr<const PreparedProgram> program, size_t index, const NDArray& source,
              const NDArray& form);

/// The prepared forms of a bound program's inputs. A form is made when two runs have the same
/// elements, so that inputs which are written before each run cost nothing.
///
/// Threads: one thread at a time.
class PreparedInputs {
 public:
  /// Binds forms to `binding`, which has the inputs' arrays.
  PreparedInputs(std::shared_ptr<const PreparedProgram> program, std::shared_ptr<Binding> binding);

  /// Pushes, before a run, what makes the forms of inputs that were not written since the last
  /// call, and what gives up those of other inputs.
  void Update();

 private:
  struct Input {
    size_t index;
    ndarray_internal::ArrayContents contents = {};  // at the last call
    bool has_form = false;
  };

  const std::shared_ptr<const PreparedProgram> program_;
  const std::shared_ptr<Binding> binding_;
  std::vector<Input> inputs_;
};

/// Everything that a run's operations share.
struct SegmentRun {
  std::shared_ptr<const PreparedProgram> program;
  std::shared_ptr<const Binding> binding;
  std::shared_ptr<const StepCalls> calls;  ///< null for the program's own
  CallMode mode;
};

/// Pushes segments in order, each as one engine operation of the host, whose function waits for the
/// device. The segments must live until all of them have run. Calls operator new as often for many
/// segments as for one, unless the engine's own records have no room.
void PushSegments(SegmentRun run, std::span<const Segment> segments);

/// Segments as engine operators, to be pushed many times.
class SegmentOperators {
 public:
  SegmentOperators(SegmentRun run, std::span<const Segment> segments);
  ~SegmentOperators();
  SegmentOperators(const SegmentOperators&) = delete;
  SegmentOperators& operator=(const SegmentOperators&) = delete;

  /// Pushes all segments in order.
  void Push() const;

 private:
  Engine* const engine_;
  std::vector<EngineOperator*> operators_;
};

/// A program bound to memory for good, and what is pushed to run it.
///
/// Threads: one thread at a time.
class BoundProgram {
 public:
  BoundProgram(std::shared_ptr<const PreparedProgram> program,
               std::shared_ptr<const Binding> binding);

  const PreparedProgram& program() const { return *program_; }
  const Binding& binding() const { return *binding_; }

  /// Pushes all forward steps, or all others. The latter requires that the former were pushed
  /// last on this memory.
  void PushForward(CallMode mode);
  void PushBackward(CallMode mode);
  /// Pushes step `i` alone.
  void PushStep(int i, CallMode mode);

  /// Returns whether no other program has used the arenas since this one did.
  bool HoldsArenas() const;

 private:
  /// Makes what follows wait for all earlier operations on the arenas, if these were not complete
  /// runs of this program.
  void UseArenas();
  void Push(std::span<const Segment> segments, bool backward, CallMode mode);

  const std::shared_ptr<const PreparedProgram> program_;
  const std::shared_ptr<const Binding> binding_;
  // By direction and is_train; made at the first use.
  std::array<std::unique_ptr<SegmentOperators>, 4> operators_;
  bool is_interrupted_ = false;      // whether a run was left incomplete
  int next_step_ = graph::kNoValue;  // the step after the last of PushStep
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_STEP_RUNNER_H_
