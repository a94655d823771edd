// The profiler. Functions of MXNet's C API; see types.h.
#include "tessera/compat/mxnet/profiling/profiler.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/graph/json/json_value.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {
namespace {

/// The parameters of MXSetProfilerConfig.
struct ProfilerParameters {
  std::string filename = ProfilerOptions().filename;
  bool profile_all = false;
  bool profile_symbolic = false;
  bool profile_imperative = false;
  bool profile_memory = false;
  bool profile_api = false;
  bool continuous_dump = ProfilerOptions().continuous_dump;
  float dump_period = ProfilerOptions().dump_period;
  bool aggregate_stats = ProfilerOptions().aggregate_stats;
  bool is_server = false;

  static void Declare(ParameterSchema<ProfilerParameters>& schema) {
    using P = ProfilerParameters;
    schema.Optional("filename", &P::filename, "the file of the trace");
    schema.Optional("profile_all", &P::profile_all, "has no effect: everything is recorded");
    schema.Optional("profile_symbolic", &P::profile_symbolic, "has no effect");
    schema.Optional("profile_imperative", &P::profile_imperative, "has no effect");
    schema.Optional("profile_memory", &P::profile_memory, "has no effect");
    schema.Optional("profile_api", &P::profile_api, "has no effect");
    schema.Optional("continuous_dump", &P::continuous_dump,
                    "whether the trace is written from time to time");
    schema.Optional("dump_period", &P::dump_period, "that time in seconds");
    schema.Range(0);
    schema.Optional("aggregate_stats", &P::aggregate_stats, "whether statistics are kept");
    schema.Choice("profile_process", &P::is_server, {{"worker", false}, {"server", true}},
                  "the process to profile");
  }
};

/// An object of a client's measurements: a domain, which groups others, a duration or a counter.
struct ProfileObject {
  enum class Kind { kDomain, kDuration, kCounter };

  Kind kind = Kind::kDomain;
  std::string category;
  std::string name;
  /// A counter's value; the time at which a duration began, or 0.
  std::atomic<int64_t> value{0};
};

Handles<std::unique_ptr<ProfileObject>>& Objects() {
  static auto* const objects =
      new Handles<std::unique_ptr<ProfileObject>>("a profile's object", 42);
  return *objects;
}

const char* NameOf(ProfileObject::Kind kind) {
  switch (kind) {
    case ProfileObject::Kind::kDomain:
      return "a domain";
    case ProfileObject::Kind::kDuration:
      return "a task, frame or event";
    default:
      return "a counter";
  }
}

/// Returns the object of a handle. Throws Error(kInvalidArgument) if it is of another kind.
std::shared_ptr<ProfileObject> ObjectOf(ProfileHandle handle, ProfileObject::Kind kind) {
  const std::shared_ptr<std::unique_ptr<ProfileObject>> slot = Objects().Get(handle);
  const std::shared_ptr<ProfileObject> object(slot, slot->get());
  if (object->kind != kind) {
    throw InvalidArgument("the profile's object \"", object->name, "\" is ", NameOf(object->kind),
                          ", expected ", NameOf(kind));
  }
  return object;
}

/// Returns a name for the trace, which is JSON. Throws Error(kInvalidArgument) if it is null or not
/// UTF-8.
std::string NameFrom(const char* text, const char* argument) {
  std::string quoted;
  graph::AppendQuoted(NotNull(text, argument), &quoted);
  return text;
}

void Create(ProfileObject::Kind kind, std::string category, const char* name, ProfileHandle* out) {
  auto object = std::make_unique<ProfileObject>();
  object->kind = kind;
  object->category = std::move(category);
  object->name = NameFrom(name, "name");
  *NotNull(out, "out") = Objects().Add(std::move(object));
}

std::string DomainOf(ProfileHandle domain) {
  return ObjectOf(domain, ProfileObject::Kind::kDomain)->name;
}

/// Throws Error(kUnimplemented) unless a command is for this process.
void RequireWorker(bool is_server) {
  if (is_server) throw Unimplemented("there is no server process to profile, expected \"worker\"");
}

void Configure(int num_params, const char* const* keys, const char* const* vals) {
  if (num_params < 0) throw InvalidArgument(num_params, " parameters, expected at least 0");
  const auto given = ParameterSchema<ProfilerParameters>::Get().Parse(
      "the profiler's configuration", ParametersOf(static_cast<size_t>(num_params), keys, vals));
  RequireWorker(given.is_server);
  Profiler::Get().Configure({.filename = given.filename,
                             .aggregate_stats = given.aggregate_stats,
                             .continuous_dump = given.continuous_dump,
                             .dump_period = given.dump_period});
}

void SetState(int state) {
  if (state != 0 && state != 1) {
    throw InvalidArgument("the profiler has no state ", state, ", expected 0 (stop) or 1 (run)");
  }
  Profiler::Get().SetRunning(state == 1);
}

/// Returns an enumerator of MXNet's number.
template <typename Enum>
Enum EnumOf(const char* argument, int number, Enum last) {
  if (number < 0 || number > static_cast<int>(last)) {
    throw InvalidArgument("the argument ", argument, " is ", number, ", expected 0 to ",
                          static_cast<int>(last));
  }
  return static_cast<Enum>(number);
}

char ScopeOf(std::string_view scope) {
  if (scope == "global") return 'g';
  if (scope == "thread") return 't';
  // The trace's format has no scopes of tasks and markers.
  if (scope == "process" || scope == "task" || scope == "marker") return 'p';
  throw InvalidArgument("there is no scope \"", scope,
                        "\", expected global, process, thread, task or marker");
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXSetProcessProfilerConfig(int num_params, const char* const* keys,
                                                 const char* const* vals,
                                                 KVStoreHandle /*kvstoreHandle*/) {
  return ApiCall([&] { Configure(num_params, keys, vals); });
}

TESSERA_MXNET_API int MXSetProfilerConfig(int num_params, const char* const* keys,
                                          const char* const* vals) {
  return ApiCall([&] { Configure(num_params, keys, vals); });
}

TESSERA_MXNET_API int MXSetProcessProfilerState(int state, int profile_process,
                                                KVStoreHandle /*kvStoreHandle*/) {
  return ApiCall([&] {
    RequireWorker(profile_process != 0);
    SetState(state);
  });
}

TESSERA_MXNET_API int MXSetProfilerState(int state) {
  return ApiCall([&] { SetState(state); });
}

TESSERA_MXNET_API int MXDumpProcessProfile(int finished, int profile_process,
                                           KVStoreHandle /*kvStoreHandle*/) {
  return ApiCall([&] {
    RequireWorker(profile_process != 0);
    Profiler::Get().Dump(finished != 0);
  });
}

TESSERA_MXNET_API int MXDumpProfile(int finished) {
  return ApiCall([&] { Profiler::Get().Dump(finished != 0); });
}

TESSERA_MXNET_API int MXProcessProfilePause(int paused, int profile_process,
                                            KVStoreHandle /*kvStoreHandle*/) {
  return ApiCall([&] {
    RequireWorker(profile_process != 0);
    Profiler::Get().SetPaused(paused != 0);
  });
}

TESSERA_MXNET_API int MXProfilePause(int paused) {
  return ApiCall([&] { Profiler::Get().SetPaused(paused != 0); });
}

TESSERA_MXNET_API int MXAggregateProfileStatsPrintEx(const char** out_str, int reset, int format,
                                                     int sort_by, int ascending) {
  return ApiCall([&] {
    NotNull(out_str, "out_str");
    *out_str = Results::OfThread().Keep(Profiler::Get().Statistics(
        EnumOf("format", format, StatisticsFormat::kJson),
        EnumOf("sort_by", sort_by, StatisticsOrder::kCount), ascending != 0, reset != 0));
  });
}

TESSERA_MXNET_API int MXAggregateProfileStatsPrint(const char** out_str, int reset) {
  return MXAggregateProfileStatsPrintEx(out_str, reset, 0, 0, 0);
}

TESSERA_MXNET_API int MXProfileCreateDomain(const char* domain, ProfileHandle* out) {
  return ApiCall([&] { Create(ProfileObject::Kind::kDomain, "", domain, out); });
}

TESSERA_MXNET_API int MXProfileCreateTask(ProfileHandle domain, const char* task_name,
                                          ProfileHandle* out) {
  return ApiCall([&] { Create(ProfileObject::Kind::kDuration, DomainOf(domain), task_name, out); });
}

TESSERA_MXNET_API int MXProfileCreateFrame(ProfileHandle domain, const char* frame_name,
                                           ProfileHandle* out) {
  return ApiCall([&] {
    Create(ProfileObject::Kind::kDuration, DomainOf(domain) + ",frame", frame_name, out);
  });
}

TESSERA_MXNET_API int MXProfileCreateEvent(const char* event_name, ProfileHandle* out) {
  return ApiCall([&] { Create(ProfileObject::Kind::kDuration, "event", event_name, out); });
}

TESSERA_MXNET_API int MXProfileCreateCounter(ProfileHandle domain, const char* counter_name,
                                             ProfileHandle* out) {
  return ApiCall(
      [&] { Create(ProfileObject::Kind::kCounter, DomainOf(domain), counter_name, out); });
}

TESSERA_MXNET_API int MXProfileDestroyHandle(ProfileHandle frame_handle) {
  return ApiCall([&] { Objects().Remove(frame_handle); });
}

TESSERA_MXNET_API int MXProfileDurationStart(ProfileHandle duration_handle) {
  return ApiCall([&] {
    const auto duration = ObjectOf(duration_handle, ProfileObject::Kind::kDuration);
    duration->value = Profiler::Get().is_recording() ? Profiler::NowNs() : 0;
  });
}

TESSERA_MXNET_API int MXProfileDurationStop(ProfileHandle duration_handle) {
  return ApiCall([&] {
    const auto duration = ObjectOf(duration_handle, ProfileObject::Kind::kDuration);
    const int64_t begin_ns = duration->value.exchange(0);
    if (begin_ns == 0) return;  // it began while nothing was recorded
    Profiler::Get().AddDuration(duration->category, duration->name, begin_ns, Profiler::NowNs());
  });
}

TESSERA_MXNET_API int MXProfileSetCounter(ProfileHandle counter_handle, uint64_t value) {
  return ApiCall([&] {
    const auto counter = ObjectOf(counter_handle, ProfileObject::Kind::kCounter);
    counter->value = static_cast<int64_t>(value);
    Profiler::Get().AddCounter(counter->category, counter->name, counter->value);
  });
}

TESSERA_MXNET_API int MXProfileAdjustCounter(ProfileHandle counter_handle, int64_t value) {
  return ApiCall([&] {
    const auto counter = ObjectOf(counter_handle, ProfileObject::Kind::kCounter);
    const int64_t sum = counter->value += value;
    Profiler::Get().AddCounter(counter->category, counter->name, sum);
  });
}

TESSERA_MXNET_API int MXProfileSetMarker(ProfileHandle domain, const char* instant_marker_name,
                                         const char* scope) {
  return ApiCall([&] {
    const std::string category = DomainOf(domain) + ",instant_marker";
    const std::string name = NameFrom(instant_marker_name, "instant_marker_name");
    Profiler::Get().AddMarker(category, name, ScopeOf(NotNull(scope, "scope")));
  });
}
