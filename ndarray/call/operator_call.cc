#include "tessera/ndarray/call/operator_call.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/config.h"
#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/graph/backward_property.h"
#include "tessera/ndarray/call/finite_check.h"
#include "tessera/ndarray/call_observer.h"
#include "tessera/ndarray/memory/device_runtime.h"
#include "tessera/ops/registry.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/storage/storage.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/tblob.h"

#if defined(ABSL_HAVE_THREAD_SANITIZER)
// ThreadSanitizer's own interface, which its runtime library exports. It has no header.
extern "C" void __tsan_read_range(void* addr, unsigned long size);   // NOLINT
extern "C" void __tsan_write_range(void* addr, unsigned long size);  // NOLINT
#endif

namespace tessera {
namespace {

using base_internal::At;
using graph::BackwardProperty;

std::atomic<CallObserver*> call_observer{nullptr};

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

thread_local const std::string* caller_of_thread = nullptr;

// A call that may block holds a thread while it runs.
constexpr size_t kMaxBlockingCalls = 16;
thread_local bool runs_blocking_call = false;

/// Marks the thread's call as one that may block.
class BlockingCallScope {
 public:
  explicit BlockingCallScope(bool blocks)
      : saved_(std::exchange(runs_blocking_call, blocks || runs_blocking_call)) {}
  ~BlockingCallScope() { runs_blocking_call = saved_; }
  BlockingCallScope(const BlockingCallScope&) = delete;
  BlockingCallScope& operator=(const BlockingCallScope&) = delete;

 private:
  const bool saved_;
};

/// Returns a variable that a call which may block writes, so that kMaxBlockingCalls run at once.
/// Returns null inside such a call, which may wait for the new one.
Variable* NextTurn() {
  if (runs_blocking_call) return nullptr;
  static std::mutex mutex;         // guards the following
  static Engine* owner = nullptr;  // another one in the child of a fork
  static std::array<Variable*, kMaxBlockingCalls> turns;
  static size_t next = 0;
  const std::lock_guard lock(mutex);
  Engine* const engine = Engine::Get();
  if (owner != engine) {
    for (Variable*& turn : turns) turn = engine->NewVariable("a call that may block");
    owner = engine;
  }
  return turns[next++ % turns.size()];
}

/// Creates the operator of a call. Errors name the node, unless that is empty.
std::unique_ptr<Operator> CreateFor(const std::string& node, std::string_view implementation,
                                    const OperatorProperty& property, Device device,
                                    std::span<const TShape> in_shape,
                                    std::span<const DType> in_type) {
  try {
    if (implementation.empty()) return property.CreateOperator(device, in_shape, in_type);
    return property.CreateImplementation(implementation, device, in_shape, in_type);
  } catch (const Error& error) {
    if (node.empty()) throw;
    throw error.WithMessage("node \"" + node + "\": " + error.what());
  }
}

/// Memory of a blob for one call.
class Workspace {
 public:
  Workspace(const TBlob& like, Device device, std::string_view tag)
      : handle_(Storage::Get()->Alloc(like.Size() * DTypeSizeBytes(like.type_flag_), device, tag)),
        blob_(handle_.dptr, like.shape_, like.type_flag_, device) {}
  ~Workspace() { Storage::Get()->Free(handle_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  const TBlob& blob() const { return blob_; }

 private:
  const Storage::Handle handle_;
  const TBlob blob_;
};

// The most resources of a call for which callers may provide the workspace.
constexpr size_t kMaxResources = 4;

/// The workspace that the caller of a call provides. What the operator requests beyond it is
/// allocated until the call ends.
class ProvidedWorkspace final : public Resource {
 public:
  ProvidedWorkspace(std::span<std::byte> memory, Device device, std::string_view tag)
      : memory_(memory), device_(device), tag_(tag) {}
  ~ProvidedWorkspace() override { FreeMore(); }
  ProvidedWorkspace(const ProvidedWorkspace&) = delete;
  ProvidedWorkspace& operator=(const ProvidedWorkspace&) = delete;

  ResourceRequest request() const override { return {ResourceRequest::Type::kTempSpace}; }
  Device device() const override { return device_; }
  void* GetSpaceBytes(int64_t size_bytes) override {
    if (size_bytes == 0) return nullptr;
    if (size_bytes <= static_cast<int64_t>(memory_.size())) return memory_.data();
    FreeMore();
    more_ = Storage::Get()->Alloc(size_bytes, device_, tag_);
    return more_->dptr;
  }
  PhiloxState* GetRandomState() override {
    throw FailedPrecondition("Resource::GetRandomState: the resource is no random generator");
  }

 private:
  void FreeMore() {
    if (more_) Storage::Get()->Free(*more_);
    more_.reset();
  }

  const std::span<std::byte> memory_;
  const Device device_;
  const std::string_view tag_;
  std::optional<Storage::Handle> more_;
};

/// Tells ThreadSanitizer that the calling thread reads and writes the blobs of a call, as a whole.
/// Operators are compiled without ThreadSanitizer, which therefore does not see their accesses.
/// `req` has one entry for each output, then one for each mutated input of the property. Does
/// nothing in other builds.
void MarkAccesses([[maybe_unused]] std::span<const TBlob> inputs,
                  [[maybe_unused]] std::span<const TBlob> outputs,
                  [[maybe_unused]] std::span<const OpReqType> req,
                  [[maybe_unused]] const OperatorProperty& property) {
#if defined(ABSL_HAVE_THREAD_SANITIZER)
  const auto mark = [](const TBlob& blob, void (*access)(void*, unsigned long)) {  // NOLINT
    if (blob.dptr_ == nullptr || blob.dev_mask() != cpu::kDevMask) return;
    access(blob.dptr_, static_cast<size_t>(blob.Size() * DTypeSizeBytes(blob.type_flag_)));
  };
  for (const TBlob& input : inputs) mark(input, __tsan_read_range);
  const auto mark_result = [&](const TBlob& blob, OpReqType request) {
    if (request == kNullOp) return;
    if (request == kAddTo) mark(blob, __tsan_read_range);
    mark(blob, __tsan_write_range);
  };
  for (size_t i = 0; i < outputs.size(); ++i) mark_result(outputs[i], req[i]);
  const std::vector<int> mutated = property.MutatedInputs();
  for (size_t i = 0; i < mutated.size(); ++i) {
    mark_result(inputs[At(mutated[i])], req[outputs.size() + i]);
  }
#endif
}

/// The arguments of Operator::Backward, in place of a list of inputs.
struct BackwardArguments {
  BackwardArguments(const BackwardProperty& property, std::span<const TBlob> inputs)
      : out_grad(At(property.num_forward_outputs())),
        in_data(At(property.num_forward_inputs())),
        out_data(out_grad.size()) {
    const auto& sources = property.sources();
    for (size_t i = 0; i < sources.size(); ++i) {
      auto& list = sources[i].role == BackwardProperty::Role::kOutGrad  ? out_grad
                   : sources[i].role == BackwardProperty::Role::kInData ? in_data
                                                                        : out_data;
      list[At(sources[i].index)] = inputs[i];
    }
  }

  std::vector<TBlob> out_grad, in_data, out_data;
};

}  // namespace

const std::string* ndarray_internal::CallerOfThread() { return caller_of_thread; }

CallerScope::CallerScope(const std::string& caller)
    : outer_(std::exchange(caller_of_thread, &caller)) {}

CallerScope::~CallerScope() { caller_of_thread = outer_; }

void SetCallObserver(CallObserver* observer) {
  call_observer.store(observer, std::memory_order_release);
}

OperatorCall::OperatorCall(std::string node, std::shared_ptr<const OperatorProperty> property,
                           Device device, std::span<const TShape> in_shape,
                           std::span<const DType> in_type, std::vector<OpReqType> req,
                           std::shared_ptr<Operator> op, std::string_view implementation)
    : node_(std::move(node)),
      property_(std::move(property)),
      backward_(dynamic_cast<const BackwardProperty*>(property_.get())),
      device_(device),
      operator_(std::move(op)),
      op_name_(property_->TypeString()),
      req_(std::move(req)),
      checks_finite_(ndarray_internal::ChecksFinite()) {
  const OperatorProperty& forward = backward_ == nullptr ? *property_ : *backward_->forward();
  if (forward.purity() == Purity::kSynchronous) {
    fn_property_ = FnProperty::kAsync;
    if (Variable* const turn = NextTurn()) resource_vars_.push_back(turn);
  }
  if (operator_ == nullptr) {
    operator_ = CreateFor(node_, implementation, forward, device, in_shape, in_type);
  }
  if (!operator_->implementation().empty()) op_name_ += "[" + operator_->implementation() + "]";
  for (const ResourceRequest request : backward_ == nullptr ? forward.ForwardResource(in_shape)
                                                            : forward.BackwardResource(in_shape)) {
    const ResourceHandle resource = ResourceManager::Get()->Request(device, request);
    resources_.push_back(resource.resource);
    resource_vars_.push_back(resource.var);
  }
  FindAdder();
}

OperatorCall::OperatorCall(const OperatorCall& other, std::vector<OpReqType> req)
    : node_(other.node_),
      property_(other.property_),
      backward_(other.backward_),
      device_(other.device_),
      operator_(other.operator_),
      op_name_(other.op_name_),
      req_(std::move(req)),
      resources_(other.resources_),
      resource_vars_(other.resource_vars_),
      checks_finite_(other.checks_finite_),
      fn_property_(other.fn_property_) {
  FindAdder();
}

void OperatorCall::FindAdder() {
  const bool adds = std::find(req_.begin(), req_.end(), kAddTo) != req_.end();
  if (adds && !operator_->AcceptsAddTo()) {
    adder_ = OperatorRegistry::Get().FindOrCreate("_copy", {});
  }
}

std::shared_ptr<const OperatorCall> OperatorCall::WithRequests(std::vector<OpReqType> req) const {
  return std::shared_ptr<const OperatorCall>(new OperatorCall(*this, std::move(req)));
}

int64_t OperatorCall::PlanWorkspace(std::span<const TBlob> inputs, std::span<const TBlob> outputs) {
  const auto space = std::find_if(resources_.begin(), resources_.end(), [](Resource* resource) {
    return resource->request().type == ResourceRequest::Type::kTempSpace;
  });
  // On a GPU, kernels may still use what a call allocates when it has returned.
  if (space == resources_.end() || device_.type == DeviceType::kGpu) return 0;
  if (resources_.size() > kMaxResources) return 0;
  const int threads = std::max(Engine::Get()->num_workers(), ParallelWidth());
  std::vector<OpReqType> req = req_;
  if (adder_ != nullptr) std::replace(req.begin(), req.end(), kAddTo, kWriteTo);
  std::optional<int64_t> size_bytes;
  if (backward_ == nullptr) {
    size_bytes = operator_->ForwardWorkspaceBytes(threads, inputs, req, outputs);
  } else {
    const BackwardArguments arguments(*backward_, inputs);
    size_bytes = operator_->BackwardWorkspaceBytes(threads, arguments.out_grad, arguments.in_data,
                                                   arguments.out_data, req, outputs);
  }
  if (!size_bytes) return 0;
  // The variables of the resources are the last ones, in their order.
  resource_vars_.erase(resource_vars_.end() - (resources_.end() - space));
  *space = nullptr;
  return *size_bytes;
}

bool OperatorCall::ChecksOutputs() { return ndarray_internal::ChecksFinite(); }

void OperatorCall::Run(CallMode mode, void* stream, std::span<const TBlob> inputs,
                       std::span<const TBlob> outputs, std::span<const void* const> prepared,
                       std::span<std::byte> workspace) const {
  ProvidedWorkspace provided(workspace, device_, op_name_);
  std::array<Resource*, kMaxResources> with_provided{};
  std::span<Resource* const> requested = resources_;
  if (std::find(requested.begin(), requested.end(), nullptr) != requested.end()) {
    std::replace_copy(requested.begin(), requested.end(), with_provided.begin(),
                      static_cast<Resource*>(nullptr), static_cast<Resource*>(&provided));
    requested = {with_provided.data(), requested.size()};
  }
  const OpContext context{.is_train = mode.is_train,
                          .needs_gradient = mode.needs_gradient,
                          .stream = stream,
                          .requested = requested,
                          .prepared = prepared};
  // Acquire: pairs with the store of SetCallObserver, so that the observer is complete.
  CallObserver* const observer = call_observer.load(std::memory_order_acquire);
  const int64_t begin_ns = observer == nullptr ? 0 : SteadyNs();
  const BlockingCallScope scope(fn_property_ == FnProperty::kAsync);
  MarkAccesses(inputs, outputs, req_, *property_);
  try {
    if (adder_ == nullptr) {
      RunOperator(context, inputs, req_, outputs);
    } else {
      RunAndAdd(context, inputs, outputs);
    }
    if (checks_finite_) CheckOutputs(stream, inputs, outputs);
  } catch (const Error& error) {
    const OperatorProperty& registered = backward_ == nullptr ? *property_ : *backward_->forward();
    throw Error(error.code(), Where(inputs) + ": " + error.what(), registered.RegisteredName());
  }
  if (observer != nullptr) {
    observer->OnCall(op_name_, mode.caller == nullptr ? std::string_view() : *mode.caller, begin_ns,
                     SteadyNs());
  }
}

void OperatorCall::RunOperator(const OpContext& context, std::span<const TBlob> inputs,
                               std::span<const OpReqType> req,
                               std::span<const TBlob> outputs) const {
  if (backward_ == nullptr) {
    operator_->Forward(context, inputs, req, outputs);
    return;
  }
  const BackwardArguments arguments(*backward_, inputs);
  operator_->Backward(context, arguments.out_grad, arguments.in_data, arguments.out_data, req,
                      outputs);
}

void OperatorCall::RunAndAdd(const OpContext& context, std::span<const TBlob> inputs,
                             std::span<const TBlob> outputs) const {
  std::vector<OpReqType> req = req_;
  std::vector<TBlob> targets(outputs.begin(), outputs.end());
  std::vector<std::unique_ptr<Workspace>> workspaces(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    if (req[i] != kAddTo) continue;
    req[i] = kWriteTo;
    workspaces[i] = std::make_unique<Workspace>(outputs[i], device_, op_name_);
    targets[i] = workspaces[i]->blob();
  }
  RunOperator(context, inputs, req, targets);
  const OpReqType add[] = {kAddTo};
  for (size_t i = 0; i < targets.size(); ++i) {
    if (workspaces[i] == nullptr) continue;
    const std::unique_ptr<Operator> adder =
        adder_->CreateOperator(device_, {&targets[i].shape_, 1}, {&targets[i].type_flag_, 1});
    adder->Forward({.stream = context.stream}, {&targets[i], 1}, add, {&outputs[i], 1});
  }
  // The workspaces are freed now.
  if (context.stream != nullptr) RuntimeFor(device_).Wait(context.stream);
}

void OperatorCall::CheckOutputs(void* stream, std::span<const TBlob> inputs,
                                std::span<const TBlob> outputs) const {
  const std::vector<std::string> input_names = property_->ListArguments();
  const std::vector<std::string> output_names = property_->ListOutputs();
  const std::vector<int> mutated = property_->MutatedInputs();
  std::vector<ndarray_internal::NamedBlob> read, written;
  for (size_t i = 0; i < inputs.size(); ++i) read.push_back({input_names[i], inputs[i]});
  const size_t num_visible = At(property_->NumVisibleOutputs());
  for (size_t i = 0; i < num_visible; ++i) {
    if (req_[i] != kNullOp) written.push_back({output_names[i], outputs[i]});
  }
  for (size_t i = 0; i < mutated.size(); ++i) {
    if (req_[outputs.size() + i] != kNullOp) written.push_back(read[At(mutated[i])]);
  }
  CheckFinite(read, written, stream);
}

std::string OperatorCall::Where(std::span<const TBlob> inputs) const {
  std::string text = node_.empty() ? op_name_ : "node \"" + node_ + "\" (" + op_name_;
  text += " of";
  const char* separator = " ";
  for (const TBlob& blob : inputs) {
    if (blob.dptr_ == nullptr) continue;
    text += separator;
    text += DTypeName(blob.type_flag_);
    text += blob.shape_.ToString();
    separator = ", ";
  }
  return node_.empty() ? text : text + ")";
}

}  // namespace tessera
