// Recurrent cells against their formulas in double, over numbers of units around packets. BUILD
// runs it for each instruction set.
#include "tessera/tensor/nn/recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

using tensor_internal::RecurrentBackward;
using tensor_internal::RecurrentCell;
using tensor_internal::RecurrentForward;
using tensor_internal::RecurrentGradient;
using tensor_internal::RecurrentStep;

constexpr RecurrentCell kCells[] = {RecurrentCell::kRelu, RecurrentCell::kTanh,
                                    RecurrentCell::kLstm, RecurrentCell::kGru};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The arrays of a step of some samples. A row has gaps between its blocks and behind them.
template <typename T>
struct Arrays {
  static constexpr int64_t kBlocks = 5;
  int64_t rows, units, block, stride;
  std::vector<T> kept, bias_input, bias_state, old_h, h, c, out;  // of a step forward
  std::vector<T> old_c, head, dh, dc, of_input, of_state;         // of a step backward
  std::vector<std::vector<T>*> all = {&kept, &bias_input, &bias_state, &old_h, &h,
                                      &c,    &out,        &old_c,      &head,  &dh,
                                      &dc,   &of_input,   &of_state};

  Arrays(int64_t num_rows, int64_t num_units, uint32_t seed)
      : rows(num_rows), units(num_units), block(units + 3), stride(kBlocks * block + 5) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<T> uniform(-2, 2);
    for (std::vector<T>* array : all) {
      array->resize(static_cast<size_t>(rows * stride));
      for (T& value : *array) value = uniform(random);
    }
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  RecurrentStep<T> Step(int64_t row, int64_t num_rows, int64_t unit, int64_t num_units) {
    const int64_t at = row * stride + unit;
    return {.rows = num_rows,
            .units = num_units,
            .block = block,
            .kept = kept.data() + at,
            .kept_stride = stride,
            .bias_input = bias_input.data() + unit,
            .bias_state = bias_state.data() + unit,
            .old_h = old_h.data() + at,
            .h = h.data() + at,
            .c = c.data() + at,
            .state_stride = stride,
            .out = out.data() + at,
            .out_stride = stride};
  }
  RecurrentGradient<T> Gradient(int64_t row, int64_t num_rows, int64_t unit, int64_t num_units) {
    const int64_t at = row * stride + unit;
    return {.rows = num_rows,
            .units = num_units,
            .block = block,
            .kept = kept.data() + at,
            .kept_stride = stride,
            .old_h = old_h.data() + at,
            .old_h_stride = stride,
            .old_c = old_c.data() + at,
            .old_c_stride = stride,
            .head = head.data() + at,
            .head_stride = stride,
            .dh = dh.data() + at,
            .dc = dc.data() + at,
            .state_stride = stride,
            .of_input = of_input.data() + at,
            .of_state = of_state.data() + at,
            .gates_stride = stride};
  }
};

// The arrays in double, of which the elements that a step must leave are exactly those of T.
template <typename T>
struct Expected {
  std::vector<std::vector<double>> arrays;

  explicit Expected(const Arrays<T>& from) {
    for (const std::vector<T>* array : from.all) arrays.emplace_back(array->begin(), array->end());
  }
  // Element j of block `b` of row r of an array, by its position in Arrays::all.
  double& At(const Arrays<T>& shape, size_t array, int64_t r, int64_t j, int64_t b = 0) {
    return arrays[array][static_cast<size_t>(r * shape.stride + b * shape.block + j)];
  }
  void Check(const Arrays<T>& actual, const std::string& what) const {
    const double bound = 20 * static_cast<double>(std::numeric_limits<T>::epsilon());
    for (size_t k = 0; k < arrays.size(); ++k) {
      for (size_t i = 0; i < arrays[k].size(); ++i) {
        ASSERT_NEAR(static_cast<double>((*actual.all[k])[i]), arrays[k][i],
                    bound * (1 + std::abs(arrays[k][i])))
            << what << ", array " << k << ", element " << i;
      }
    }
  }
};

enum Position : size_t {
  kKept,
  kBiasInput,
  kBiasState,
  kOldH,
  kH,
  kC,
  kOut,
  kOldC,
  kHead,
  kDh,
  kDc,
  kOfInput,
  kOfState
};

template <typename T>
void ExpectForward(RecurrentCell cell, Arrays<T>* arrays) {
  Expected<T> e(*arrays);
  const auto at = [&](size_t array, int64_t r, int64_t j, int64_t b = 0) -> double& {
    return e.At(*arrays, array, r, j, b);
  };
  for (int64_t r = 0; r < arrays->rows; ++r) {
    for (int64_t j = 0; j < arrays->units; ++j) {
      double argument[4];
      for (int64_t b = 0; b < 4; ++b) {
        argument[b] = at(kKept, r, j, b) + at(kBiasInput, 0, j, b) + at(kBiasState, 0, j, b);
      }
      std::vector<double> kept;
      double h = 0;
      if (cell == RecurrentCell::kLstm) {
        const double in = Sigmoid(argument[0]), forget = Sigmoid(argument[1]);
        const double g = std::tanh(argument[2]), out = Sigmoid(argument[3]);
        const double c = forget * at(kC, r, j) + in * g;
        h = out * std::tanh(c);
        at(kC, r, j) = c;
        kept = {in, forget, g, out, c};
      } else if (cell == RecurrentCell::kGru) {
        const double reset = Sigmoid(argument[0]), z = Sigmoid(argument[1]);
        const double m = at(kKept, r, j, 3) + at(kBiasState, 0, j, 2);
        const double fresh = std::tanh(at(kKept, r, j, 2) + at(kBiasInput, 0, j, 2) + reset * m);
        h = (1 - z) * fresh + z * at(kOldH, r, j);
        kept = {reset, z, fresh, m};
      } else {
        h = cell == RecurrentCell::kRelu ? std::max(argument[0], 0.0) : std::tanh(argument[0]);
        kept = {h};
      }
      for (size_t b = 0; b < kept.size(); ++b) at(kKept, r, j, static_cast<int64_t>(b)) = kept[b];
      at(kH, r, j) = at(kOut, r, j) = h;
    }
  }
  RecurrentForward(cell, arrays->Step(0, arrays->rows, 0, arrays->units));
  e.Check(*arrays, "cell " + std::to_string(static_cast<int>(cell)) + ", " +
                       std::to_string(arrays->units) + " units forward");
}

template <typename T>
void ExpectBackward(RecurrentCell cell, Arrays<T>* arrays) {
  Expected<T> e(*arrays);
  const auto at = [&](size_t array, int64_t r, int64_t j, int64_t b = 0) -> double& {
    return e.At(*arrays, array, r, j, b);
  };
  for (int64_t r = 0; r < arrays->rows; ++r) {
    for (int64_t j = 0; j < arrays->units; ++j) {
      const double d = at(kDh, r, j) + at(kHead, r, j);
      double kept[5];
      for (int64_t b = 0; b < 5; ++b) kept[b] = at(kKept, r, j, b);
      at(kDh, r, j) = 0;
      if (cell == RecurrentCell::kLstm) {
        const double in = kept[0], forget = kept[1], g = kept[2], out = kept[3];
        const double tanh_c = std::tanh(kept[4]);
        const double d_cell = at(kDc, r, j) + d * out * (1 - tanh_c * tanh_c);
        at(kOfInput, r, j, 0) = d_cell * g * in * (1 - in);
        at(kOfInput, r, j, 1) = d_cell * at(kOldC, r, j) * forget * (1 - forget);
        at(kOfInput, r, j, 2) = d_cell * in * (1 - g * g);
        at(kOfInput, r, j, 3) = d * tanh_c * out * (1 - out);
        at(kDc, r, j) = d_cell * forget;
      } else if (cell == RecurrentCell::kGru) {
        const double reset = kept[0], z = kept[1], fresh = kept[2], m = kept[3];
        const double d_fresh = d * (1 - z) * (1 - fresh * fresh);
        at(kOfInput, r, j, 0) = at(kOfState, r, j, 0) = d_fresh * m * reset * (1 - reset);
        at(kOfInput, r, j, 1) = at(kOfState, r, j, 1) = d * (at(kOldH, r, j) - fresh) * z * (1 - z);
        at(kOfInput, r, j, 2) = d_fresh;
        at(kOfState, r, j, 2) = d_fresh * reset;
        at(kDh, r, j) = d * z;
      } else if (cell == RecurrentCell::kRelu) {
        at(kOfInput, r, j) = kept[0] > 0 ? d : 0;
      } else {
        at(kOfInput, r, j) = d * (1 - kept[0] * kept[0]);
      }
    }
  }
  RecurrentBackward(cell, arrays->Gradient(0, arrays->rows, 0, arrays->units));
  e.Check(*arrays, "cell " + std::to_string(static_cast<int>(cell)) + ", " +
                       std::to_string(arrays->units) + " units backward");
}

template <typename T>
class RecurrentTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(RecurrentTest, Types);

// Elements between and behind the rows must stay as they are.
TYPED_TEST(RecurrentTest, CellsHaveTheirFormulas) {
  for (const RecurrentCell cell : kCells) {
    for (const int64_t units : {1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 64}) {
      for (const int64_t rows : {1, 3}) {
        Arrays<TypeParam> arrays(rows, units, static_cast<uint32_t>(units));
        ExpectForward(cell, &arrays);
        ExpectBackward(cell, &arrays);
      }
    }
  }
}

TYPED_TEST(RecurrentTest, BitsDoNotDependOnTheUnitsBeside) {
  constexpr int64_t kRows = 3, kUnits = 37;
  for (const RecurrentCell cell : kCells) {
    Arrays<TypeParam> whole(kRows, kUnits, 5), parts(kRows, kUnits, 5);
    RecurrentForward(cell, whole.Step(0, kRows, 0, kUnits));
    RecurrentBackward(cell, whole.Gradient(0, kRows, 0, kUnits));
    int64_t unit = 0;
    for (const int64_t units : {5, 16, 1, 15}) {
      for (int64_t row = 0; row < kRows; ++row) {
        RecurrentForward(cell, parts.Step(row, 1, unit, units));
        RecurrentBackward(cell, parts.Gradient(row, 1, unit, units));
      }
      unit += units;
    }
    ASSERT_EQ(unit, kUnits);
    for (size_t k = 0; k < whole.all.size(); ++k) {
      EXPECT_EQ(*whole.all[k], *parts.all[k]) << static_cast<int>(cell) << ", array " << k;
    }
  }
}

// The limits let some of the states through.
TYPED_TEST(RecurrentTest, CellStatesAreLimited) {
  using T = TypeParam;
  constexpr int64_t kUnits = 21;
  const double bound = 20 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const bool replaces_nan : {false, true}) {
    const tensor_internal::RecurrentClip<T> clip = {
        .min = T(-0.5), .max = T(0.25), .replaces_nan = replaces_nan};
    Arrays<T> limited(1, kUnits, 11), free(1, kUnits, 11);
    limited.c[0] = free.c[0] = std::numeric_limits<T>::quiet_NaN();
    RecurrentForward(RecurrentCell::kLstm, free.Step(0, 1, 0, kUnits));
    RecurrentStep<T> step = limited.Step(0, 1, 0, kUnits);
    step.clip = &clip;
    RecurrentForward(RecurrentCell::kLstm, step);
    int inside = 0;
    for (size_t j = 1; j < kUnits; ++j) {
      const size_t out = static_cast<size_t>(3 * limited.block) + j;
      EXPECT_EQ(limited.c[j], std::clamp(free.c[j], clip.min, clip.max)) << j;
      EXPECT_NEAR(limited.h[j], limited.kept[out] * std::tanh(limited.c[j]), bound) << j;
      if (limited.c[j] == free.c[j]) ++inside;
    }
    EXPECT_GT(inside, 2);
    EXPECT_LT(inside, 18);
    if (replaces_nan) {
      EXPECT_EQ(limited.c[0], clip.min);
    } else {
      EXPECT_TRUE(std::isnan(limited.c[0]));
    }

    // A limited state passes the gradient of its output gate alone.
    limited.kept[static_cast<size_t>(4 * limited.block)] = clip.max;
    Arrays<T> expected(1, kUnits, 11);
    expected.kept = limited.kept;
    RecurrentBackward(RecurrentCell::kLstm, expected.Gradient(0, 1, 0, kUnits));
    RecurrentGradient<T> gradient = limited.Gradient(0, 1, 0, kUnits);
    gradient.clip = &clip;
    RecurrentBackward(RecurrentCell::kLstm, gradient);
    for (size_t j = 0; j < kUnits; ++j) {
      const T c = limited.kept[static_cast<size_t>(4 * limited.block) + j];
      const bool passes = clip.min < c && c < clip.max;
      EXPECT_EQ(limited.dc[j], passes ? expected.dc[j] : T(0)) << j;
      for (size_t gate = 0; gate < 4; ++gate) {
        const size_t at = gate * static_cast<size_t>(limited.block) + j;
        EXPECT_EQ(limited.of_input[at], passes || gate == 3 ? expected.of_input[at] : T(0))
            << "gate " << gate << ", unit " << j;
      }
    }
  }
}

TYPED_TEST(RecurrentTest, LargeAndUndefinedArguments) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const RecurrentCell cell : kCells) {
    Arrays<T> arrays(1, 20, 7);
    std::fill(arrays.kept.begin(), arrays.kept.end(), inf);
    for (int64_t b = 0; b < 5; ++b) {
      arrays.kept[static_cast<size_t>(b * arrays.block + 3)] = nan;
      arrays.kept[static_cast<size_t>(b * arrays.block + 4)] = -inf;
    }
    arrays.c[0] = T(0.5);
    RecurrentForward(cell, arrays.Step(0, 1, 0, 20));
    EXPECT_TRUE(std::isnan(arrays.h[3]));
    if (cell == RecurrentCell::kRelu) {
      EXPECT_EQ(arrays.h[0], inf);
      EXPECT_EQ(arrays.h[4], T(0));
    } else if (cell == RecurrentCell::kTanh) {
      EXPECT_EQ(arrays.h[0], T(1));
      EXPECT_EQ(arrays.h[4], T(-1));
    } else if (cell == RecurrentCell::kLstm) {
      EXPECT_EQ(arrays.c[0], T(1.5));
      EXPECT_EQ(arrays.c[4], T(0));
      EXPECT_EQ(arrays.h[4], T(0));
    } else {
      EXPECT_NEAR(arrays.h[0], arrays.old_h[0], 4 * std::numeric_limits<T>::epsilon());
      EXPECT_TRUE(std::isnan(arrays.h[4]));  // 0 times infinity
    }
  }
}

}  // namespace
}  // namespace tessera
