#ifndef TESSERA_COMPAT_MXNET_CORE_API_CALL_H_
#define TESSERA_COMPAT_MXNET_CORE_API_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/ops/parameter.h"

namespace tessera::mxnet {

/// The values that the thread's last call of each function returned by pointer, and its error.
/// Functions that Python runs as callbacks have results of their own, so that a call in one leaves
/// those of the caller alone.
///
/// Threads: an object belongs to one thread.
class Results {
 public:
  /// A call of the function of that number. What the thread's last call of the function returned is
  /// forgotten at the end, because clients hand it back as arguments. Clients call other functions
  /// while they read a list.
  class Call {
   public:
    explicit Call(size_t function);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    const size_t function_;
    size_t caller_ = 0;
  };

  /// Returns the calling thread's results.
  static Results& OfThread();

  /// Keep values until the thread's next call of the function, and return their address.
  const char* Keep(std::string text) {
    return KeepObject(std::make_shared<std::string>(std::move(text)))->c_str();
  }
  template <typename T>
  T* Keep(std::vector<T> values) {
    return KeepObject(std::make_shared<std::vector<T>>(std::move(values)))->data();
  }
  const char** Keep(std::vector<std::string> texts);

  const std::string& error() const { return error_; }
  void set_error(std::string error) { error_ = std::move(error); }

 private:
  using Objects = std::vector<std::shared_ptr<void>>;
  /// The objects of a function's call, and of the call before while a new one runs.
  struct OfFunction {
    Objects now;
    Objects before;
  };

  template <typename T>
  std::shared_ptr<T> KeepObject(std::shared_ptr<T> object) {
    kept_.at(function_).now.push_back(object);
    return object;
  }

  std::vector<OfFunction> kept_;  // by function
  size_t function_ = 0;           // that runs
  std::string error_;
};

/// Notes the exception that is being handled as the thread's error, and returns -1.
int FailedCall() noexcept;

/// Returns a number that no other call has returned.
size_t NextFunctionNumber();

/// Receives the API's calls, for a profiler: the function as source_location names it, and the
/// times in nanoseconds of std::chrono::steady_clock.
using ApiObserver = void (*)(const char* function, int64_t begin_ns, int64_t end_ns);
/// The observer of the calls that begin from here on, or null. Any thread may change it.
extern std::atomic<ApiObserver> api_observer;

/// Reports a call to the observer, if there is one when the call begins.
class ApiCallTimer {
 public:
  explicit ApiCallTimer(const char* function)
      : function_(function), observer_(api_observer.load(std::memory_order_relaxed)) {
    if (observer_ != nullptr) Start();
  }
  ~ApiCallTimer() {
    if (observer_ != nullptr) Stop();
  }
  ApiCallTimer(const ApiCallTimer&) = delete;
  ApiCallTimer& operator=(const ApiCallTimer&) = delete;

 private:
  void Start() noexcept;
  void Stop() noexcept;

  const char* const function_;
  const ApiObserver observer_;
  int64_t begin_ns_ = 0;
};

/// Runs the body of an API function, whose type tells the function. Returns 0, or -1 if it throws;
/// MXGetLastError then tells why. `site` is the function's, which profiles show.
template <typename Body>
int ApiCall(const Body& body,
            const std::source_location site = std::source_location::current()) noexcept {
  const ApiCallTimer timer(site.function_name());
  try {
    static const size_t number = NextFunctionNumber();
    const Results::Call call(number);
    body();
    return 0;
  } catch (...) {
    return FailedCall();
  }
}

[[noreturn]] void ThrowNull(const char* argument);
/// Throws Error(kInvalidArgument) that names the argument if a pointer is null.
template <typename T>
T* NotNull(T* pointer, const char* argument) {
  if (pointer == nullptr) ThrowNull(argument);
  return pointer;
}

/// Returns a list of the caller's. Throws Error(kInvalidArgument) if it is null but not empty.
template <typename T>
std::span<T> ListOf(T* begin, size_t size, const char* argument) {
  if (size != 0) NotNull(begin, argument);
  return {begin, size};
}
std::vector<std::string> TextsOf(const char* const* begin, size_t size, const char* argument);

/// Returns parameters that a client wrote as text. Numbers of Python and NumPy are accepted in
/// every spelling: "(2L,)", "(np.int64(7),)", "1e-3".
ParameterMap ParametersOf(size_t size, const char* const* keys, const char* const* values);

/// Returns the text of a parameter without the names of Python's and NumPy's number types: "(2,)"
/// for "(2L,)" and for "(np.int64(2),)", "True" for "np.True_".
std::string PlainText(std::string_view text);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_API_CALL_H_
