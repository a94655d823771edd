// Inputs in prepared forms: when programs make them, and when they use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"
#include "tessera/storage/storage.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

std::atomic<int> forms_made{0};  // by any call
std::atomic<int> forms_used{0};

// test_prepared: out[i][j] = data[i][j] * (weight[j] + 1). The form of weight is weight + 1.
struct NoParameters {
  static void Declare(ParameterSchema<NoParameters>&) {}
};

class PreparedProperty final : public ParameterizedProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "weight"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const TShape& data = (*in_shape)[0];
    if (!data.known()) return false;
    MergeShape(*this, "weight", &(*in_shape)[1], {data[1]});
    MergeShape(*this, "output", &(*out_shape)[0], data);
    return true;
  }
};

const float* Floats(const TBlob& blob) { return static_cast<const float*>(blob.dptr_); }

class PreparedOperator final : public Operator {
 public:
  void Forward(const OpContext& context, std::span<const TBlob> in_data, std::span<const OpReqType>,
               std::span<const TBlob> out_data) override {
    const auto* const form = static_cast<const float*>(context.prepared_input(1));
    EXPECT_EQ(context.prepared_input(0), nullptr);
    if (form != nullptr) ++forms_used;
    Multiply(in_data[0], in_data[1], form, out_data[0]);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType>,
                std::span<const TBlob> in_grad) override {
    Multiply(out_grad[0], in_data[1], nullptr, in_grad[0]);
  }
  PreparedForm InputForm(int input, Device device, std::span<const TShape> in_shape,
                         std::span<const DType> in_type) const override {
    EXPECT_EQ(device, Device::Cpu());
    EXPECT_EQ(in_type[1], DType::kFloat32);
    if (input == 0) return {};
    return {.name = "plus 1",
            .size_bytes = in_shape[1].Size() * static_cast<int64_t>(sizeof(float)),
            .make = [](const OpContext&, const TBlob& weight, void* to) {
              ++forms_made;
              for (index_t j = 0; j < weight.Size(); ++j) {
                static_cast<float*>(to)[j] = Floats(weight)[j] + 1;
              }
            }};
  }

 private:
  static void Multiply(const TBlob& data, const TBlob& weight, const float* form,
                       const TBlob& out) {
    const index_t columns = weight.Size();
    for (index_t i = 0; i < data.Size(); ++i) {
      const index_t j = i % columns;
      static_cast<float*>(out.dptr_)[i] =
          Floats(data)[i] * (form == nullptr ? Floats(weight)[j] + 1 : form[j]);
    }
  }
};

[[maybe_unused]] const OperatorEntry* const kRegistered = OperatorRegistry::Get().Register(
    {.name = "test_prepared",
     .file = __FILE__,
     .line = __LINE__,
     .create_property = [] { return std::make_unique<PreparedProperty>(); },
     .describe_parameters = [] { return PreparedProperty::DescribeParameters(); },
     .implementation = {.name = "native",
                        .create = [](const OperatorProperty&, std::span<const TShape>,
                                     std::span<const DType>) -> std::unique_ptr<Operator> {
                          return std::make_unique<PreparedOperator>();
                        }}});

/// Data of some rows, 3 and 5 each, and a weight.
class PreparedInputsTest : public testing::Test {
 protected:
  PreparedInputsTest() {
    forms_made = 0;
    forms_used = 0;
  }
  static NDArray Data(index_t rows) {
    std::vector<float> values;
    for (index_t i = 0; i < rows; ++i) values.insert(values.end(), {3, 5});
    return NDArray::FromVector(values, {rows, 2});
  }
  /// Waits for an output, and expects forms to have been made and used so often in all.
  void Expect(const NDArray& output, const std::vector<float>& row, int made, int used) {
    EXPECT_EQ(output.At(output.shape()[0] - 1).ToVector(), row);
    EXPECT_EQ(forms_made, made);
    EXPECT_EQ(forms_used, used);
  }

  const Symbol net_ = Symbol::Apply(
      "test_prepared", {Symbol::Variable("data"), Symbol::Variable("weight")}, {}, "layer");
  NDArray weight_ = NDArray::FromVector(std::vector<float>{1, 2}, {2});
};

TEST_F(PreparedInputsTest, AnExecutorMakesAFormAtTheSecondRunOfEqualWeights) {
  const auto executor = Bind(net_, Device::Cpu(), {.arguments = {Data(2), weight_}});
  for (int run = 0; run < 3; ++run) {
    executor->Forward(false);
    Expect(executor->outputs()[0], {6, 15}, run == 0 ? 0 : 1, run);
  }
  weight_ *= 3.0f;
  executor->Forward(false);
  Expect(executor->outputs()[0], {12, 35}, 1, 2);
  EXPECT_EQ(executor->PartialForward(false, 0), 0);
  Expect(executor->outputs()[0], {12, 35}, 2, 3);
  for (int run = 0; run < 3; ++run) {
    weight_ = static_cast<float>(run);
    executor->Forward(false);
    Expect(executor->outputs()[0],
           {3.0f * static_cast<float>(run + 1), 5.0f * static_cast<float>(run + 1)}, 2, 3);
  }
  // Runs that are pending keep the form that they were pushed with.
  weight_ = 1.0f;
  std::vector<NDArray> outputs;
  for (int run = 0; run < 6; ++run) {
    if (run == 3) weight_ = 2.0f;
    executor->Forward(false);
    outputs.push_back(executor->outputs()[0].Copy(Device::Cpu()));
  }
  for (size_t run = 0; run < 6; ++run) {
    EXPECT_THAT(outputs[run].At(0).ToVector(), run < 3 ? ElementsAre(6, 10) : ElementsAre(9, 15));
  }
}

TEST_F(PreparedInputsTest, AFailedWriteOfAnInputSpoilsNoLaterRun) {
  const auto executor = Bind(net_, Device::Cpu(), {.arguments = {Data(2), weight_}});
  executor->Forward(false);
  Engine::Get()->PushSync([](const RunContext&) { throw InvalidArgument("a failed write"); },
                          Device::Cpu(), {}, {weight_.var()});
  // The second run would make the form.
  for (int run = 0; run < 2; ++run) executor->Forward(false);
  EXPECT_THROW(executor->outputs()[0].WaitToRead(), Error);
  weight_ = 3.0f;
  for (int run = 0; run < 3; ++run) {
    executor->Forward(false);
    EXPECT_THAT(executor->outputs()[0].At(1).ToVector(), ElementsAre(12, 20));
  }
}

TEST_F(PreparedInputsTest, AnExecutorWithGradientsOrAMonitorUsesNone) {
  const auto training =
      SimpleBind(net_, Device::Cpu(), {.shapes = {{"data", {2, 2}}}, .no_gradient = {"weight"}});
  CopyFromTo(Data(2), training->arg_dict().at("data"));
  training->Forward(false);
  Expect(training->outputs()[0], {3, 5}, 0, 0);
  const auto executor = Bind(net_, Device::Cpu(), {.arguments = {Data(2), weight_}});
  executor->SetMonitorCallback([](const std::string&, const NDArray&) {});
  executor->Forward(false);
  Expect(executor->outputs()[0], {6, 15}, 0, 0);
}

TEST_F(PreparedInputsTest, TheMemoryOfFormsIsCountedAndFreedWithTheExecutor) {
  const auto live_bytes = [] {
    NDArray::WaitAll();
    for (const StorageTagStats& stats : Storage::Get()->TagStats(Device::Cpu())) {
      if (stats.tag == "prepared") return stats.live_bytes;
    }
    return int64_t{0};
  };
  const int64_t before = live_bytes();
  {
    const auto executor = Bind(net_, Device::Cpu(), {.arguments = {Data(2), weight_}});
    executor->Forward(false);
    EXPECT_EQ(live_bytes(), before);
    executor->Forward(false);
    EXPECT_EQ(live_bytes(), before + 8);
  }
  // The engine destroys what its operators hold a little later.
  for (int i = 0; i < 100000 && live_bytes() != before; ++i) std::this_thread::yield();
  EXPECT_EQ(live_bytes(), before);
}

TEST_F(PreparedInputsTest, RunsWithoutMemoryForAFormUseTheElements) {
  constexpr index_t kColumns = index_t{1} << 22;
  NDArray data(TShape{1, kColumns}), weight(TShape{kColumns});
  data = 3.0f;
  weight = 1.0f;
  const auto executor = Bind(net_, Device::Cpu(), {.arguments = {data, weight}});
  const auto last_of_run = [&] {
    executor->Forward(false);
    return executor->outputs()[0].ToVector().back();
  };
  EXPECT_EQ(last_of_run(), 6);
  Storage* const storage = Storage::Get();
  const int64_t limit_bytes = storage->Stats(Device::Cpu()).limit_bytes;
  storage->SetLimit(Device::Cpu(), 1);
  std::vector<Storage::Handle> free_blocks;  // that a form would fit
  try {
    for (;;) free_blocks.push_back(storage->Alloc(kColumns * 4, Device::Cpu()));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kResourceExhausted);
  }
  for (int run = 0; run < 2; ++run) EXPECT_EQ(last_of_run(), 6);
  EXPECT_EQ(forms_made, 0);
  for (const Storage::Handle& block : free_blocks) storage->Free(block);
  storage->SetLimit(Device::Cpu(), limit_bytes);
  EXPECT_EQ(last_of_run(), 6);
  EXPECT_EQ(forms_made, 1);
  EXPECT_EQ(forms_used, 1);
}

TEST_F(PreparedInputsTest, ACachedOpMakesAFormAtTheSecondCallWithAnArray) {
  const CachedOp op(net_);
  Expect(op({Data(2), weight_})[0], {6, 15}, 0, 0);
  Expect(op({Data(2), weight_})[0], {6, 15}, 1, 1);
  Expect(op({Data(2), weight_})[0], {6, 15}, 1, 2);
  weight_ *= 3.0f;
  Expect(op({Data(2), weight_})[0], {12, 35}, 1, 2);
  Expect(op({Data(2), weight_})[0], {12, 35}, 2, 3);
  // Another signature has the same weight.
  Expect(op({Data(4), weight_})[0], {12, 35}, 2, 4);
  // Weights that each call changes.
  for (int i = 0; i < 3; ++i) {
    weight_ = NDArray::FromVector(std::vector<float>{0, static_cast<float>(i)}, {2});
    Expect(op({Data(2), weight_})[0], {3, 5.0f * static_cast<float>(i + 1)}, 2, 4);
  }
  NDArray data = Data(2);
  data.AttachGrad();
  const autograd::Record record;
  for (int i = 0; i < 3; ++i) Expect(op({data, weight_})[0], {3, 15}, 2, 4);
}

TEST_F(PreparedInputsTest, AnInputThatTheGraphComputesHasNoForm) {
  const Symbol computed = Symbol::Apply(
      "test_prepared", {Symbol::Variable("data"), Symbol::Variable("weight") * 2.0}, {}, "layer");
  const CachedOp op(computed);
  for (int i = 0; i < 3; ++i) Expect(op({Data(2), weight_})[0], {9, 25}, 0, 0);
}

TEST_F(PreparedInputsTest, ThreadsShareTheForms) {
  const CachedOp op(net_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int call = 0; call < 50; ++call) {
        EXPECT_THAT(op({Data(1 + i % 2), weight_})[0].At(0).ToVector(), ElementsAre(6, 15));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A thread whose first call came before any other noted the weight drops the forms that were made
  // meanwhile. In the worst case 1, 2, 3 and then 4 threads make one.
  EXPECT_GE(forms_made, 1);
  EXPECT_LE(forms_made, 10);
  EXPECT_GE(forms_used, 200 - 4);
}

}  // namespace
}  // namespace tessera
