#include "tessera/ndarray/imperative.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/call/call_plan.h"
#include "tessera/ndarray/call/push_call.h"
#include "tessera/ndarray/call/sparse_call.h"

namespace tessera {

using ndarray_internal::AnySparse;
using ndarray_internal::ArrayCall;
using ndarray_internal::CallOperator;
using ndarray_internal::CallPlan;
using ndarray_internal::CallVariables;

std::vector<NDArray> Invoke(std::string_view op, std::span<const NDArray> inputs,
                            const ParameterMap& parameters) {
  return CallOperator(CallPlan::Find(op, parameters, inputs, {}), inputs, {}, kWriteTo);
}

std::vector<NDArray> Invoke(const std::shared_ptr<const OperatorProperty>& property,
                            std::span<const NDArray> inputs, std::string_view implementation) {
  return CallOperator(CallPlan::Find(property, implementation, inputs, {}), inputs, {}, kWriteTo);
}

void Invoke(std::string_view op, std::span<const NDArray> inputs, std::span<const NDArray> outputs,
            const ParameterMap& parameters, OpReqType req) {
  if (outputs.empty()) throw InvalidArgument(op, ": no outputs given");
  CallOperator(CallPlan::Find(op, parameters, inputs, outputs), inputs, outputs, req);
}

struct BoundOperator::State {
  State(const OperatorProperty& property, std::span<const NDArray> inputs,
        std::span<const NDArray> outputs, OpReqType req) {
    // The caller's property need not live as long.
    const auto plan = CallPlan::Find(property.TypeString(), property.GetParams(), inputs, outputs);
    if (AnySparse(inputs) || AnySparse(outputs)) {
      // What the operator does depends on what is stored when it runs.
      call_sparse = [plan, req, in = std::vector<NDArray>(inputs.begin(), inputs.end()),
                     out = std::vector<NDArray>(outputs.begin(), outputs.end())] {
        CallOperator(plan, in, out, req);
      };
      return;
    }
    ArrayCall made{.plan = plan,
                   .call = nullptr,
                   .device = plan->signature().device,
                   .mode = {},
                   .inputs = {inputs.begin(), inputs.end()},
                   .outputs = {outputs.begin(), outputs.end()}};
    for (size_t i = outputs.size(); i < plan->num_outputs(); ++i) {
      made.outputs.emplace_back(plan->signature().out_shape[i], made.device,
                                plan->signature().out_type[i], /*delay_alloc=*/true, plan->name());
    }
    const std::vector<OpReqType> requests =
        plan->Requests(inputs, made.outputs, outputs.size(), req);
    made.call = &plan->Call(requests);
    call = std::make_shared<const ArrayCall>(std::move(made));
    const CallVariables variables(*call, requests, plan->mutated());
    inference = NewOperator(variables, /*is_train=*/false);
    try {
      training = NewOperator(variables, /*is_train=*/true);
    } catch (...) {
      engine->DeleteOperator(inference);
      throw;
    }
  }
  ~State() {
    if (call_sparse != nullptr) return;
    try {
      engine->DeleteOperator(inference);
      engine->DeleteOperator(training);
    } catch (...) {
      // The engine accepts no more work, because the process is ending.
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  EngineOperator* NewOperator(const CallVariables& variables, bool is_train) const {
    return engine->NewOperator(
        SyncFn([call = call, is_train](const RunContext&) { call->Run({.is_train = is_train}); }),
        variables.reads, variables.writes,
        {.property = call->call->fn_property(),
         .name = call->call->op_name(),
         .updates = variables.updates,
         .merge_duplicates = true});
  }

  // The child of a fork has another default engine. This one then says that it is of the parent.
  Engine* const engine = Engine::Get();
  // The engine's operators share the call, which therefore outlives pushed runs.
  std::shared_ptr<const ArrayCall> call;
  EngineOperator* inference = nullptr;
  EngineOperator* training = nullptr;
  /// Calls the operator, if an array is sparse; there are no engine's operators then.
  std::function<void()> call_sparse;
};

BoundOperator::BoundOperator(const OperatorProperty& property, std::span<const NDArray> inputs,
                             std::span<const NDArray> outputs, OpReqType req) {
  if (outputs.empty()) throw InvalidArgument(property.TypeString(), ": no outputs given");
  state_ = std::make_shared<State>(property, inputs, outputs, req);
}

BoundOperator::~BoundOperator() = default;
BoundOperator::BoundOperator(BoundOperator&&) noexcept = default;
BoundOperator& BoundOperator::operator=(BoundOperator&&) noexcept = default;

void BoundOperator::Run(bool is_train, int priority) const {
  if (state_ == nullptr) throw FailedPrecondition("BoundOperator::Run: moved from");
  if (state_->call_sparse != nullptr) {
    const autograd::Scope scope(/*recording=*/false, is_train);
    return state_->call_sparse();
  }
  state_->engine->Push(is_train ? state_->training : state_->inference, Device::Cpu(), priority);
}

}  // namespace tessera
