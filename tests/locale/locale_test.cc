// The texts of every component, and the numbers that they read, in a program whose locales have a
// decimal comma and group digits. No locale of the system is needed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <locale>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "mshadow/logging.h"
#include "mshadow/tensor_blob.h"
#include "tessera/base/shape.h"
#include "tessera/base/testing/errors.h"
#include "tessera/base/tshape.h"
#include "tessera/io/idx_file.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/storage/storage.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"
#include "tessera/tensor/tensor.h"
#include "tessera/train/checkpoint_folder.h"
#include "tessera/train/module.h"
#include "tessera/train/progress_bar.h"
#include "tessera/train/training_log.h"

namespace tessera {
namespace {

using base_testing::MessageOf;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

class CommaNumbers : public std::numpunct<char> {
 protected:
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// Writes the numbers' part of a locale in glibc's format: a magic number, the count of items,
/// their offsets, the items.
void WriteLocale(const std::string& path) {
  const std::vector<std::string> items = {{",\0", 2},     // decimal point
                                          {".\0", 2},     // separator of groups
                                          {"\3\3\0", 3},  // sizes of groups
                                          {",\0\0\0", 4},
                                          {".\0\0\0", 4},  // both as wide characters
                                          {"UTF-8\0", 6}};
  std::string data;
  std::vector<uint32_t> numbers = {0x20031115u ^ LC_NUMERIC, static_cast<uint32_t>(items.size())};
  for (const std::string& item : items) {
    numbers.push_back(static_cast<uint32_t>(4 * (2 + items.size()) + data.size()));
    data += item;
    data.resize((data.size() + 3) / 4 * 4);
  }
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()),
             static_cast<std::streamsize>(4 * numbers.size()))
      .write(data.data(), static_cast<std::streamsize>(data.size()));
}

class LocaleTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = testing::TempDir() + "/locales";
    std::filesystem::create_directories(folder + "/comma");
    WriteLocale(folder + "/comma/LC_NUMERIC");
    setenv("LOCPATH", folder.c_str(), 1);
#if defined(__GLIBC__)
    ASSERT_NE(std::setlocale(LC_NUMERIC, "comma"), nullptr);
    char text[32];
    std::snprintf(text, sizeof(text), "%'.1f", 1234.5);
    ASSERT_STREQ(text, "1.234,5");
#endif
    before_ = std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
    std::ostringstream stream;
    stream << 1234.5;
    ASSERT_EQ(stream.str(), "1.234,5");
  }
  void TearDown() override {
    std::locale::global(before_);
    std::setlocale(LC_NUMERIC, "C");
  }

  std::locale before_;
};

TEST_F(LocaleTest, Errors) {
  EXPECT_STREQ(InvalidArgument("n ", 1234567, ", x ", 0.5, ", y ", 1.5f, ", ", uint64_t{9999}, ' ',
                               Shape2(1000, 2), TShape({4096, 1}), DType::kFloat32, Device::Gpu(3))
                   .what(),
               "n 1234567, x 0.5, y 1.5, 9999 (1000,2)(4096,1)float32gpu(3)");
  EXPECT_THAT(MessageOf([] { Sgd({{}, 1234.5}); }), HasSubstr("momentum 1234.5,"));
  EXPECT_THAT(MessageOf([] { Storage::Get()->Alloc(int64_t{1} << 60, Device::Cpu()); }),
              HasSubstr("requested 1152921504606846976 bytes"));
  const std::vector<uint8_t> other = {'P', 'Q', 3, 4};
  EXPECT_THAT(MessageOf([&] { ParseIdx(other, "other"); }), HasSubstr("0x50510304"));
  EXPECT_THAT(MessageOf([] { CHECK_EQ(1234567, 2) << 0.5; }), HasSubstr("(1234567 vs. 2) 0.5"));
}

TEST_F(LocaleTest, Shapes) {
  std::stringstream stream;
  stream << Shape3(1000, 20000, 3);
  EXPECT_EQ(stream.str(), "(1000,20000,3)");
  Shape<3> shape;
  stream >> shape;
  EXPECT_EQ(shape, Shape3(1000, 20000, 3));
  EXPECT_EQ(TShape::Parse("(1000, 2)").ToString(), "(1000,2)");
  mshadow::TShape blob;
  std::istringstream("12345") >> blob;
  EXPECT_EQ(blob.ToString(), "(12345,)");
}

TEST_F(LocaleTest, ParametersAndFiles) {
  const Symbol y = Symbol::Variable("x") * 0.0625 + 123456.5;
  const std::string json = y.ToJson();
  EXPECT_THAT(json, AllOf(HasSubstr("\"0.0625\""), HasSubstr("\"123456.5\"")));
  const Symbol read = Symbol::FromJson(json);
  EXPECT_EQ(read.ToJson(), json);
  const auto executor = SimpleBind(read, Device::Cpu(), {.shapes = {{"x", {1200}}}});
  NDArray x = executor->arg_dict().at("x");
  x = 1.0f;
  executor->Forward(/*is_train=*/false);
  EXPECT_EQ(executor->outputs()[0].ToVector()[0], 123456.5625f);
  EXPECT_THAT(executor->DebugString(), HasSubstr("float32(1200,)"));
  EXPECT_EQ((x * 0.5f).ToVector()[0], 0.5f);

  const std::string path = testing::TempDir() + "/locale.params";
  SaveNDArrays(path, {{"x", x}});
  EXPECT_EQ(LoadNDArrays(path).at("x").ToVector(), x.ToVector());
  EXPECT_EQ(CheckpointParametersPath("m", 12345), "m-12345.params");
}

TEST_F(LocaleTest, Optimizers) {
  Sgd sgd({{.learning_rate = 0.0625, .wd = 0.5, .rescale_grad = 1.5}, 0.25});
  NDArray weight({1}), grad({1});
  weight = 1.0f;
  grad = 2.0f;
  sgd.Update(0, weight, grad);
  sgd.Update(0, weight, grad);
  double w = 1, mom = 0;
  for (int step = 0; step < 2; ++step) {
    mom = 0.25 * mom - 0.0625 * (1.5 * 2 + 0.5 * w);
    w += mom;
  }
  EXPECT_NEAR(weight.ToVector()[0], w, 1e-6);
}

/// A layer whose weight has the attribute lr_mult.
Symbol Network(const std::string& lr_mult) {
  Symbol weight = Symbol::Variable("fc_weight");
  weight.SetAttribute("lr_mult", lr_mult);
  const Symbol fc = Symbol::Apply("FullyConnected", {Symbol::Variable("data"), weight},
                                  {{"num_hidden", "2"}}, "fc");
  return Symbol::Apply("SoftmaxOutput", {fc}, {}, "softmax");
}

TEST_F(LocaleTest, FactorsOfTheNetwork) {
  NDArray data({4, 1}), label({4});
  data = 1.0f;
  label = 0.0f;
  const auto change = [&](const std::string& lr_mult) {
    Module module(Network(lr_mult));
    module.Bind({{"data", {4, 1}}}, {{"softmax_label", {4}}});
    module.InitParams(Zero());
    module.InitOptimizer(std::make_shared<Sgd>(SgdOptions{{.learning_rate = 1}}));
    DataBatch batch;
    batch.data = {data};
    batch.label = {label};
    module.Forward(batch, /*is_train=*/true);
    module.Backward();
    module.Update();
    return module.GetParams().arg.at("fc_weight").ToVector()[0];
  };
  EXPECT_EQ(change("1"), 0.5f);
  EXPECT_EQ(change("0.25"), 0.125f);
  for (const char* wrong : {"0,25", "1.000,5", "", "nan", "inf", "1e999", "0.5x"}) {
    EXPECT_THAT(MessageOf([&] { change(wrong); }), HasSubstr("expected a finite number")) << wrong;
  }
}

TEST_F(LocaleTest, ProgressLines) {
  NDArray label({8}), scores({8, 2});
  label = 0.0f;
  scores = 1.0f;
  label.Slice(0, 3) = 1.0f;
  EvalMetric metric = Accuracy();
  metric.Update({&label, 1}, {&scores, 1});
  std::ostringstream log;
  Speedometer speedometer(100000, 2, /*auto_reset=*/true, &log);
  speedometer({.epoch = 1234, .nbatch = 1, .metric = metric});
  speedometer({.epoch = 1234, .nbatch = 1000, .metric = metric});
  EXPECT_THAT(log.str(),
              MatchesRegex("epoch 1234 batch 1000 examples/s [0-9]+ accuracy 0\\.625\n"));
}

TEST_F(LocaleTest, EpochsInLinesAndTables) {
  Module module(Network("1"));
  module.Bind({{"data", {4, 1}}}, {{"softmax_label", {4}}});
  module.InitParams(Zero());
  module.InitOptimizer(std::make_shared<Sgd>());
  const EpochEndParam param = {.epoch = 1233,
                               .samples = 123456,
                               .seconds = 61.728,
                               .training = {{"accuracy", 0.625}},
                               .validation = {{"loss", 1234.5}},
                               .module = module};
  std::ostringstream log;
  ProgressBar bar({.num_epoch = 1235, .out = &log});
  bar(param);
  EXPECT_EQ(log.str(),
            "epoch 1234/1235  accuracy 0.625  validation loss 1234.5  2000 examples/s  "
            "1:02 left\n");
  const std::string path = testing::TempDir() + "/locale.csv";
  std::filesystem::remove(path);
  CsvLog table(path);
  table(param);
  std::ifstream file(path);
  std::string header, row;
  std::getline(file, header);
  std::getline(file, row);
  EXPECT_EQ(row, "1233,0,123456,61.728,0.625,1234.5");
}

TEST_F(LocaleTest, CheckpointsOfTrainings) {
  const std::string path = testing::TempDir() + "/locale_checkpoints";
  std::filesystem::remove_all(path);
  CheckpointFolder folder(path);
  TrainingSnapshot snapshot;
  snapshot.state.integers["count"] = {1234567};
  snapshot.state.numbers["sum"] = {1234.5};
  folder.Save(1234567, snapshot);
  EXPECT_THAT(folder.Steps(), ElementsAre(1234567));
  const TrainingState state = folder.Load(1234567).state;
  EXPECT_EQ(state.Integer("count"), 1234567);
  EXPECT_EQ(state.Number("sum"), 1234.5);
  std::ifstream file(path + "/0001234567/manifest");
  std::string line;
  std::getline(file, line);
  std::getline(file, line);
  EXPECT_EQ(line, "step 1234567");
}

TEST_F(LocaleTest, StatisticsAndPlans) {
  const auto block = Storage::Get()->Alloc(123456, Device::Cpu(), "locale");
  const std::string table = StorageStatsTable(Device::Cpu(), Storage::Get()->Stats(Device::Cpu()),
                                              Storage::Get()->TagStats(Device::Cpu()));
  Storage::Get()->Free(block);
  EXPECT_THAT(table, HasSubstr("tag locale: live 123456,"));
  TensorContainer<cpu, 2, float> a(Shape2(2000, 3000)), r(Shape2(2000, 3000));
  const std::string plan = Inspect(r, a * sum(a));
  EXPECT_THAT(plan, AllOf(HasSubstr("(2000,3000)"), HasSubstr("pass 2: "), HasSubstr("reads 1")));
}

}  // namespace
}  // namespace tessera
