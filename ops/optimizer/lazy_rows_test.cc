// Steps with row_sparse gradients, against the same operators on dense arrays.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

constexpr index_t kRows = 70000;  // of several blocks
constexpr index_t kWidth = 3;
const TShape kShape{kRows, kWidth};

struct StepCase {
  std::string name;
  ParameterMap parameters;
  int num_states = 0;
  bool is_lazy = true;
};

TBlob BlobOf(std::vector<float>& values) {
  return TBlob(values.data(), kShape, DType::kFloat32, Device::Cpu());
}

/// Returns numbers in [0.5, 1.5), others for each seed.
std::vector<float> Numbers(size_t seed) {
  std::vector<float> numbers(static_cast<size_t>(kRows * kWidth));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = 0.5f + static_cast<float>((i * 7919 + seed * 104729) % 1000) / 1000.0f;
  }
  return numbers;
}

/// A weight with its states.
struct Arrays {
  std::vector<float> weight = Numbers(0);
  std::vector<std::vector<float>> states;

  explicit Arrays(int num_states) {
    for (int k = 0; k < num_states; ++k) states.push_back(Numbers(static_cast<size_t>(k) + 1));
  }
};

std::vector<OpReqType> Requests(int num_states) {
  return std::vector<OpReqType>(static_cast<size_t>(num_states) + 1, kWriteInplace);
}

/// Takes the step with a dense gradient.
void StepDense(const StepCase& step, std::vector<float> gradient, Arrays* arrays) {
  const auto property = OperatorRegistry::Get().Create(step.name, step.parameters);
  std::vector<TBlob> inputs = {BlobOf(arrays->weight), BlobOf(gradient)};
  for (std::vector<float>& state : arrays->states) inputs.push_back(BlobOf(state));
  const std::vector<TShape> shapes(inputs.size(), kShape);
  const std::vector<DType> types(inputs.size(), DType::kFloat32);
  property->CreateOperator(Device::Cpu(), shapes, types)
      ->Forward(OpContext(), inputs, Requests(step.num_states), {inputs.data(), 1});
}

/// A row_sparse gradient.
struct Gradient {
  std::vector<int64_t> rows;
  std::vector<float> values;

  explicit Gradient(std::vector<int64_t> stored) : rows(std::move(stored)) {
    for (size_t i = 0; i < rows.size() * kWidth; ++i) {
      values.push_back(static_cast<float>(i % 5) - 1.5f);
    }
  }
  SparseBlob Blob() {
    SparseBlob blob{.storage = StorageType::kRowSparse,
                    .shape = kShape,
                    .values = TBlob(nullptr, TShape{0}, DType::kFloat32, Device::Cpu())};
    blob.SetParts(static_cast<index_t>(rows.size()), values.data(), rows.data(), nullptr);
    return blob;
  }
  std::vector<float> Dense() const {
    std::vector<float> dense(static_cast<size_t>(kRows * kWidth));
    for (size_t i = 0; i < values.size(); ++i) {
      dense[static_cast<size_t>(rows[i / kWidth]) * kWidth + i % kWidth] = values[i];
    }
    return dense;
  }
};

void StepSparse(const StepCase& step, Gradient* gradient, Arrays* arrays) {
  const auto property = OperatorRegistry::Get().Create(step.name, step.parameters);
  const SparseForm* const form = FindSparseForm(property->RegisteredName());
  ASSERT_NE(form, nullptr);
  std::vector<SparseBlob> inputs = {{.shape = kShape, .values = BlobOf(arrays->weight)},
                                    gradient->Blob()};
  for (std::vector<float>& state : arrays->states) {
    inputs.push_back({.shape = kShape, .values = BlobOf(state)});
  }
  StorageTypes types(inputs.size(), StorageType::kDefault);
  types[1] = StorageType::kRowSparse;
  const std::vector<StorageType> wanted = {StorageType::kUndefined};
  ASSERT_EQ(form->Infer(*property, types, wanted), StorageTypes{StorageType::kDefault});
  SparseBlob output = inputs[0];
  form->Forward(*property, inputs, Requests(step.num_states), {&output, 1});
}

/// Returns the rows of `after` that differ from those of `before`.
std::vector<int64_t> ChangedRows(const std::vector<float>& before,
                                 const std::vector<float>& after) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < before.size(); ++i) {
    const auto row = static_cast<int64_t>(i / kWidth);
    if (before[i] != after[i] && (rows.empty() || rows.back() != row)) rows.push_back(row);
  }
  return rows;
}

// The ends of a row may be computed by other instructions than its middle.
constexpr float kTolerance = 2e-6f;

/// Looks at each element, and reports the largest difference.
void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  float largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(found[i] - expected[i]));
  }
  EXPECT_LE(largest, kTolerance);
}

class LazyRowsTest : public ::testing::TestWithParam<StepCase> {};

TEST_P(LazyRowsTest, RowsOfTheGradientTakeTheDenseStep) {
  const StepCase& step = GetParam();
  Gradient gradient({0, 5, 21844, 21845, kRows - 1});
  const Arrays before(step.num_states);
  Arrays dense = before, sparse = before;
  StepDense(step, gradient.Dense(), &dense);
  StepSparse(step, &gradient, &sparse);
  if (!step.is_lazy) {
    ExpectNear(sparse.weight, dense.weight);
    for (size_t k = 0; k < dense.states.size(); ++k) {
      ExpectNear(sparse.states[k], dense.states[k]);
    }
    return;
  }
  EXPECT_EQ(ChangedRows(before.weight, sparse.weight), gradient.rows);
  std::vector<std::vector<float>> all = sparse.states, all_dense = dense.states;
  all.push_back(sparse.weight);
  all_dense.push_back(dense.weight);
  for (size_t k = 0; k < all.size(); ++k) {
    for (const int64_t row : gradient.rows) {
      for (size_t j = 0; j < kWidth; ++j) {
        const size_t i = static_cast<size_t>(row) * kWidth + j;
        EXPECT_NEAR(all[k][i], all_dense[k][i], kTolerance);
      }
    }
  }
  for (int k = 0; k < step.num_states; ++k) {
    const auto at = static_cast<size_t>(k);
    const std::vector<int64_t> changed = ChangedRows(before.states[at], sparse.states[at]);
    EXPECT_THAT(changed, ::testing::IsSubsetOf(gradient.rows));
  }
}

TEST_P(LazyRowsTest, WithoutRowsALazyStepChangesNothing) {
  const StepCase& step = GetParam();
  if (!step.is_lazy) return;
  Gradient gradient({});
  const Arrays before(step.num_states);
  Arrays arrays = before;
  StepSparse(step, &gradient, &arrays);
  EXPECT_EQ(arrays.weight, before.weight);
  EXPECT_EQ(arrays.states, before.states);
}

INSTANTIATE_TEST_SUITE_P(
    Steps, LazyRowsTest,
    ::testing::Values(
        StepCase{"sgd_update", {{"lr", "0.1"}, {"wd", "0.1"}}, 0},
        StepCase{"sgd_update", {{"lr", "0.1"}, {"wd", "0.1"}, {"lazy_update", "False"}}, 0, false},
        StepCase{"sgd_mom_update", {{"lr", "0.1"}, {"momentum", "0.9"}, {"wd", "0.1"}}, 1},
        StepCase{"sgd_mom_update",
                 {{"lr", "0.1"}, {"momentum", "0.9"}, {"lazy_update", "False"}},
                 1,
                 false},
        StepCase{"adam_update", {{"lr", "0.1"}, {"wd", "0.1"}}, 2},
        StepCase{"adam_update", {{"lr", "0.1"}, {"lazy_update", "False"}}, 2, false},
        StepCase{"_sparse_adagrad_update", {{"lr", "0.1"}}, 1},
        StepCase{"ftrl_update", {{"lr", "0.1"}}, 2, false}),
    [](const auto& info) {
      return info.param.name + (info.param.is_lazy ? "_lazy" : "_of_all_rows");
    });

/// Memory for the parts of arrays that a call writes.
class TestParts final : public PartsAllocator {
 public:
  void Allocate(index_t count, SparseBlob* blob) override {
    values_.push_back(std::make_unique<float[]>(static_cast<size_t>(count * blob->width())));
    indices_.push_back(std::make_unique<int64_t[]>(static_cast<size_t>(count)));
    blob->SetParts(count, values_.back().get(), indices_.back().get(), nullptr);
  }

 private:
  std::vector<std::unique_ptr<float[]>> values_;
  std::vector<std::unique_ptr<int64_t[]>> indices_;
};

TEST(LazyRowsOfSparseWeightsTest, WeightAndStatesGetAllOfTheirRows) {
  const TShape shape{3, 1};
  TestParts parts;
  const auto empty = [&] {
    SparseBlob blob{.storage = StorageType::kRowSparse,
                    .shape = shape,
                    .values = TBlob(nullptr, TShape{0}, DType::kFloat32, Device::Cpu()),
                    .allocator = &parts};
    blob.Allocate(0);
    return blob;
  };
  std::vector<SparseBlob> inputs = {empty(), empty(), empty()};
  inputs[1].Allocate(1);
  inputs[1].indices[0] = 1;
  inputs[1].values.dptr<float>()[0] = 2;
  SparseBlob weight = inputs[0];
  const auto property =
      OperatorRegistry::Get().Create("sgd_mom_update", {{"lr", "0.5"}, {"momentum", "0.9"}});
  const OpReqType req[] = {kWriteInplace, kWriteInplace};
  FindSparseForm("sgd_mom_update")->Forward(*property, inputs, req, {&weight, 1});
  EXPECT_THAT(weight.indices, ElementsAre(0, 1, 2));
  EXPECT_THAT(std::span(weight.values.dptr<float>(), 3), ElementsAre(0, -1, 0));
  EXPECT_THAT(inputs[2].indices, ElementsAre(0, 1, 2));
  EXPECT_THAT(std::span(inputs[2].values.dptr<float>(), 3), ElementsAre(0, -1, 0));
  EXPECT_THROW(
      FindSparseForm("sgd_mom_update")
          ->Forward(*property, inputs, std::vector<OpReqType>{kAddTo, kWriteInplace}, {&weight, 1}),
      Error);
}

}  // namespace
}  // namespace tessera
