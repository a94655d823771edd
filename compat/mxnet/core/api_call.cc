#include "tessera/compat/mxnet/core/api_call.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/quirks/quirks.h"

namespace tessera::mxnet {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}

/// Returns whether text[at] ends an integer of Python 2, as in "(2L,)".
bool IsLongSuffix(std::string_view text, size_t at) {
  if (text[at] != 'L' || at == 0 || !IsDigit(text[at - 1])) return false;
  if (at + 1 < text.size() && IsNameCharacter(text[at + 1])) return false;
  size_t begin = at;
  while (begin > 0 && IsDigit(text[begin - 1])) --begin;
  return begin == 0 || !IsNameCharacter(text[begin - 1]);
}

/// Returns the length of "np.int64(", with which NumPy begins to print a number, or 0.
size_t NumpyCallLength(std::string_view text) {
  if (!text.starts_with("np.")) return 0;
  size_t end = 3;
  while (end < text.size() && IsNameCharacter(text[end])) ++end;
  return end > 3 && end < text.size() && text[end] == '(' ? end + 1 : 0;
}

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::atomic<ApiObserver> api_observer{nullptr};

void ApiCallTimer::Start() noexcept { begin_ns_ = SteadyNs(); }
void ApiCallTimer::Stop() noexcept { observer_(function_, begin_ns_, SteadyNs()); }

Results& Results::OfThread() {
  // Clients also call functions while the thread's objects are destroyed, after which alone the
  // destructor of a key runs.
  thread_local Results* results = nullptr;
  if (results == nullptr) {
    static const pthread_key_t key = [] {
      pthread_key_t made;
      const auto destroy = [](void* ended) {
        delete static_cast<Results*>(ended);
        results = nullptr;
      };
      if (pthread_key_create(&made, destroy) != 0) {
        throw ResourceExhausted("this process has no more keys for its threads' values");
      }
      return made;
    }();
    auto made = std::make_unique<Results>();
    if (pthread_setspecific(key, made.get()) != 0) throw std::bad_alloc();
    results = made.release();
  }
  return *results;
}

Results::Call::Call(size_t function) : function_(function) {
  Results& results = OfThread();
  if (results.kept_.size() <= function) results.kept_.resize(function + 1);
  OfFunction& kept = results.kept_[function];
  kept.now.swap(kept.before);
  caller_ = std::exchange(results.function_, function);
}

Results::Call::~Call() {
  Results& results = OfThread();
  results.function_ = caller_;
  results.kept_[function_].before.clear();
}

const char** Results::Keep(std::vector<std::string> texts) {
  const auto kept = KeepObject(std::make_shared<std::vector<std::string>>(std::move(texts)));
  std::vector<const char*> pointers;
  for (const std::string& text : *kept) pointers.push_back(text.c_str());
  return Keep(std::move(pointers));
}

size_t NextFunctionNumber() {
  static std::atomic<size_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

namespace {

/// Returns the text of an error. It begins with the name of a class of Python where MXNet raises
/// that in place of its own.
std::string TextOf(const Error& error) {
  const bool is_index =
      error.code() == Error::kOutOfRange && QuirksOf(error.op()).Has(Quirk::kIndexError);
  return std::string(is_index ? "IndexError: " : "") + error.what();
}

}  // namespace

int FailedCall() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      Results::OfThread().set_error("out of memory");
    } catch (const Error& error) {
      Results::OfThread().set_error(TextOf(error));
    } catch (const std::exception& error) {
      Results::OfThread().set_error(error.what());
    } catch (...) {
      Results::OfThread().set_error("an exception of an unknown type");
    }
  } catch (...) {
    // There is no memory for the message: the one before stays.
  }
  return -1;
}

void ThrowNull(const char* argument) {
  throw InvalidArgument("the argument ", argument, " is a null pointer");
}

std::vector<std::string> TextsOf(const char* const* begin, size_t size, const char* argument) {
  std::vector<std::string> texts;
  for (const char* const text : ListOf(begin, size, argument)) {
    texts.emplace_back(NotNull(text, argument));
  }
  return texts;
}

ParameterMap ParametersOf(size_t size, const char* const* keys, const char* const* values) {
  const auto names = ListOf(keys, size, "keys");
  const auto texts = ListOf(values, size, "vals");
  ParameterMap parameters;
  for (size_t i = 0; i < size; ++i) {
    parameters.insert_or_assign(NotNull(names[i], "keys"), PlainText(NotNull(texts[i], "vals")));
  }
  return parameters;
}

std::string PlainText(std::string_view text) {
  if (text.find_first_of("Ln") == std::string_view::npos) return std::string(text);
  std::string plain;
  int open = 0;  // parentheses of NumPy's types, whose ends are left out
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins_name = i == 0 || !IsNameCharacter(text[i - 1]);
    const std::string_view rest = text.substr(i);
    if (const size_t length = begins_name ? NumpyCallLength(rest) : 0; length != 0) {
      i += length - 1;
      ++open;
    } else if (begins_name && (rest.starts_with("np.True_") || rest.starts_with("np.False_"))) {
      const std::string_view value = rest[3] == 'T' ? "True" : "False";
      plain += value;
      i += 3 + value.size();
    } else if (text[i] == ')' && open > 0) {
      --open;
    } else if (!IsLongSuffix(text, i)) {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace tessera::mxnet
