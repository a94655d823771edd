// What builds with -ffast-math and an instruction set of their own make of packet_math.h: the
// functions keep their accuracy on ordinary numbers. This file itself has ordinary flags.
#include "tessera/tensor/packet/fast_math_kernel.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/packet/accuracy.h"

namespace tessera {
namespace tensor_internal {

#define TESSERA_DECLARE_KERNELS(space)                    \
  namespace space {                                       \
  extern const FastMathKernel kFastMathKernels[];         \
  extern const MathKernel<float> kFastMathFloatKernels[]; \
  extern const PowerKernel kFastMathPower;                \
  }
TESSERA_DECLARE_KERNELS(fast_math_baseline)
TESSERA_DECLARE_KERNELS(fast_math_with_nan_avx2)
TESSERA_DECLARE_KERNELS(fast_math_avx512)
#undef TESSERA_DECLARE_KERNELS

namespace {

// Of every magnitude from 1e-9 on and either sign.
template <typename T>
std::vector<T> Arguments() {
  std::vector<T> arguments;
  for (double a = 1e-9; a < 700; a *= 1.003) {
    arguments.push_back(static_cast<T>(a));
    arguments.push_back(static_cast<T>(-a));
  }
  return arguments;
}

// The promised ulps and some more, for the order of terms is the compiler's.
template <typename T>
bool IsAccurate(T result, long double exact) {
  using Limits = std::numeric_limits<T>;
  const long double magnitude = std::fabs(exact);
  if (!(magnitude >= static_cast<long double>(Limits::min()) &&
        magnitude <= static_cast<long double>(Limits::max()))) {
    return true;  // no ordinary result
  }
  return std::fabs(static_cast<long double>(result) - exact) <=
         8 * static_cast<long double>(Limits::epsilon()) * magnitude;
}

template <typename T>
void ExpectAccurate(const char* name, MathKernel<T> kernel, long double (*reference)(long double)) {
  const std::vector<T> x = Arguments<T>();
  std::vector<T> y(x.size());
  kernel(x.data(), y.data(), static_cast<int64_t>(x.size()), {}, {});
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact = reference(static_cast<long double>(x[i]));
    ASSERT_TRUE(IsAccurate(y[i], exact))
        << name << "(" << x[i] << ") = " << y[i] << ", not " << exact;
  }
}

void ExpectPowersAccurate(PowerKernel kernel) {
  std::vector<float> x, y;
  for (const float a : Arguments<float>()) {
    for (const float b : {-3.0f, -0.7f, 0.1f, 2.0f, 2.5f}) {
      x.push_back(a < 0 && b != std::floor(b) ? -a : a);
      y.push_back(b);
    }
  }
  std::vector<float> powers(x.size());
  kernel({x.data()}, {y.data()}, powers.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact =
        std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]));
    ASSERT_TRUE(IsAccurate(powers[i], exact))
        << "pow(" << x[i] << ", " << y[i] << ") = " << powers[i] << ", not " << exact;
  }
}

void ExpectAllAccurate(const FastMathKernel* kernel, const MathKernel<float>* of_floats,
                       PowerKernel power) {
#define TESSERA_EXPECT(Name, name)                                                               \
  ExpectAccurate<float>(#name, kernel->of_floats, [](long double a) { return std::name(a); });   \
  ExpectAccurate<double>(#name, kernel->of_doubles, [](long double a) { return std::name(a); }); \
  ++kernel;
  TESSERA_FOR_C_FUNCTIONS(TESSERA_EXPECT)
#undef TESSERA_EXPECT
#define TESSERA_EXPECT(Name, reference) ExpectAccurate<float>(#Name, *of_floats++, reference);
  TESSERA_FOR_FLOAT_FUNCTIONS(TESSERA_EXPECT)
#undef TESSERA_EXPECT
  ExpectPowersAccurate(power);
}

TEST(FastMathKernelTest, FunctionsStayAccurate) {
  // A machine that lacks an instruction set has no such build's functions to run.
  const InstructionSet used = UsedInstructionSet();
#define TESSERA_EXPECT(space)                                                \
  {                                                                          \
    SCOPED_TRACE(#space);                                                    \
    ExpectAllAccurate(space::kFastMathKernels, space::kFastMathFloatKernels, \
                      space::kFastMathPower);                                \
  }
  TESSERA_EXPECT(fast_math_baseline)
  if (used >= InstructionSet::kAvx2) TESSERA_EXPECT(fast_math_with_nan_avx2)
  if (used >= InstructionSet::kAvx512) TESSERA_EXPECT(fast_math_avx512)
#undef TESSERA_EXPECT
}

}  // namespace
}  // namespace tensor_internal
}  // namespace tessera
