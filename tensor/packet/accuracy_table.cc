// Prints docs/accuracy.md: for each function, type and instruction set the worst error seen, in
// units in the last place of the exact result, and the argument where it was seen.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/packet/accuracy.h"
#include "tessera/tensor/tensor.h"

namespace tessera {
namespace {

using tensor_internal::UsedInstructionSet;

using Reference = long double (*)(long double);
using tensor_internal::NumbersAroundOne;
using tensor_internal::Ulp;

// Returns the arguments of the table. Those of float are every 4093rd float, which reaches all
// exponents and, over the range, all low bits. Those of double are random bit patterns of the same
// number. Numbers of ordinary size, where most arguments lie, and numbers around 1 follow.
template <typename T>
std::vector<T> Arguments() {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr uint64_t kStep = 4093;
  std::mt19937_64 generator(1);
  std::vector<T> arguments;
  for (uint64_t i = 0; i < (uint64_t{1} << 32); i += kStep) {
    const Bits bits = static_cast<Bits>(sizeof(T) == 4 ? i : generator());
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    if (std::isfinite(value)) arguments.push_back(value);
  }
  for (const double bound : {1.0, 10.0, 100.0, 800.0, 8192.0, 1048576.0}) {
    std::uniform_real_distribution<double> uniform(-bound, bound);
    for (int i = 0; i < 100000; ++i) arguments.push_back(static_cast<T>(uniform(generator)));
  }
  for (const T value : NumbersAroundOne<T>(200000, generator)) arguments.push_back(value);
  return arguments;
}

// The largest error among results.
template <typename T>
struct Worst {
  long double error = 0;
  size_t index = 0;  // the index of that result

  void Take(size_t i, T result, long double exact) {
    if (std::isnan(exact) || !std::isfinite(static_cast<T>(exact)) || !std::isfinite(result)) {
      return;  // the tests compare these with the reference exactly
    }
    const long double of_result =
        std::fabs(static_cast<long double>(result) - exact) / Ulp<T>(exact);
    if (of_result > error) {
      error = of_result;
      index = i;
    }
  }
  void Print(const char* name) const {
    std::printf("| `%s` | %s | %s | %.2Lf |", name, sizeof(T) == 4 ? "float" : "double",
                std::string(Name(UsedInstructionSet())).c_str(), error);
  }
};

// Returns a tensor over `numbers`. A tensor's memory is not const, but an operand is only read.
template <typename T>
Tensor<cpu, 1, T> AsTensor(const std::vector<T>& numbers) {
  return Tensor<cpu, 1, T>(const_cast<T*>(numbers.data()),
                           Shape1(static_cast<index_t>(numbers.size())));
}

template <typename T, typename Function>
void PrintRow(const char* name, const Function& function, Reference reference) {
  static const std::vector<T> arguments = Arguments<T>();
  std::vector<T> results(arguments.size());
  Tensor<cpu, 1, T> out = AsTensor(results);
  out = function(AsTensor(arguments));
  Worst<T> worst;
  for (size_t i = 0; i < arguments.size(); ++i) {
    worst.Take(i, results[i], reference(static_cast<long double>(arguments[i])));
  }
  worst.Print(name);
  std::printf(" %.9g |\n", static_cast<double>(arguments[worst.index]));
}

// Prints the row of pow. The bases are the magnitudes of the arguments. The exponents lead to
// results of any magnitude.
template <typename T>
void PrintPowerRow() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x, y;
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> log_of_result(Limits::min_exponent - Limits::digits,
                                                       Limits::max_exponent);
  for (const T argument : Arguments<T>()) {
    const T a = std::fabs(argument);
    if (a == 0 || a == 1) continue;
    x.push_back(a);
    y.push_back(static_cast<T>(log_of_result(generator) / std::log2(static_cast<double>(a))));
  }
  std::vector<T> results(x.size());
  Tensor<cpu, 1, T> out = AsTensor(results);
  out = pow(AsTensor(x), AsTensor(y));
  Worst<T> worst;
  for (size_t i = 0; i < x.size(); ++i) {
    worst.Take(i, results[i],
               std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i])));
  }
  worst.Print("pow");
  std::printf(" %.9g, %.9g |\n", static_cast<double>(x[worst.index]),
              static_cast<double>(y[worst.index]));
}

template <typename T>
void PrintTable() {
  using L = long double;
#define TESSERA_ROW(function, reference) \
  PrintRow<T>(                           \
      #function, [](const auto& a) { return function(a); }, [](L a) -> L { return reference; })
  TESSERA_ROW(sqrt, std::sqrt(a));
  TESSERA_ROW(cbrt, std::cbrt(a));
  TESSERA_ROW(rcp, 1 / a);
  TESSERA_ROW(exp, std::exp(a));
  TESSERA_ROW(exp2, std::exp2(a));
  TESSERA_ROW(expm1, std::expm1(a));
  TESSERA_ROW(log, std::log(a));
  TESSERA_ROW(log2, std::log2(a));
  TESSERA_ROW(log10, std::log10(a));
  TESSERA_ROW(log1p, std::log1p(a));
  TESSERA_ROW(sin, std::sin(a));
  TESSERA_ROW(cos, std::cos(a));
  TESSERA_ROW(tan, std::tan(a));
  TESSERA_ROW(asin, std::asin(a));
  TESSERA_ROW(acos, std::acos(a));
  TESSERA_ROW(atan, std::atan(a));
  TESSERA_ROW(sinh, std::sinh(a));
  TESSERA_ROW(cosh, std::cosh(a));
  TESSERA_ROW(tanh, std::tanh(a));
  TESSERA_ROW(asinh, std::asinh(a));
  TESSERA_ROW(acosh, std::acosh(a));
  TESSERA_ROW(atanh, std::atanh(a));
  TESSERA_ROW(erf, std::erf(a));
  TESSERA_ROW(erfc, std::erfc(a));
  TESSERA_ROW(gamma, std::tgamma(a));
  TESSERA_ROW(sigmoid, a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a)));
  TESSERA_ROW(softplus, (a < 0 ? 0 : a) + std::log1p(std::exp(-std::fabs(a))));
  TESSERA_ROW(gelu, tensor_internal::GeluReference(a));
#undef TESSERA_ROW
  PrintPowerRow<T>();
}

// Prints the rows of one instruction set in a child process, since a process looks up its
// instruction set once.
void PrintFor(const char* instruction_set) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("TESSERA_INSTRUCTION_SET", instruction_set, 1);
    if (Name(UsedInstructionSet()) == instruction_set) {
      PrintTable<float>();
      PrintTable<double>();
    }
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
    std::fprintf(stderr, "accuracy_table: the run for %s failed\n", instruction_set);
    std::exit(1);
  }
}

}  // namespace
}  // namespace tessera

int main() {
  std::puts(
      "# Accuracy\n\n"
      "The worst errors seen, in units in the last place (ulp) of the exact result, which the C\n"
      "library's long double stands for. Arguments: every 4093rd float, as many random double\n"
      "bit patterns, 600,000 numbers up to 2^20 and 400,000 around 1; of `pow` their magnitudes,\n"
      "to powers whose results have any magnitude. Special values are the tests' part.\n"
      "`elementwise_accuracy_test.cc` asserts a bound for each function: at most 4 ulp, but 5\n"
      "for `gelu`, 10 for `gamma`, 8 for `lgamma` and 36 for `digamma` of double; below zero and\n"
      "near zeros 16 for the last three, `digamma` in float, or for the last two 1e-6 (double:\n"
      "1e-14). `lgamma` and `digamma` are in the tests alone: beside their zeros errors are no\n"
      "number of ulps, and for `digamma` the bound there is 2 ulp of 1 and 1e-13. No row or\n"
      "block has other bits than its elements one by one: `//tensor/eval:span_avx2_test` and\n"
      "its like.\n\n"
      "Generated by `./bazelw run //tensor/packet:accuracy_table`.\n\n"
      "| function | type | instruction set | worst error, ulp | at |\n"
      "| --- | --- | --- | --- | --- |");
  for (const char* set : {"baseline", "avx2", "avx512"}) tessera::PrintFor(set);
}
