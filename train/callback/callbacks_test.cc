#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/io/ndarray_iter.h"
#include "tessera/train/best_epoch.h"
#include "tessera/train/event_file.h"
#include "tessera/train/module.h"
#include "tessera/train/progress_bar.h"
#include "tessera/train/training_log.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

/// A module that is ready to be trained.
class CallbacksTest : public testing::Test {
 protected:
  CallbacksTest()
      : data_({{"data", NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {4, 1})}},
              {{"softmax_label", NDArray::FromVector(std::vector<float>{0, 1, 0, 1}, {4})}},
              {.batch_size = 2}),
        module_(Symbol::Apply("SoftmaxOutput",
                              {Symbol::Apply("FullyConnected", {Symbol::Variable("data")},
                                             {{"num_hidden", "2"}}, "fc")},
                              {}, "softmax")) {
    module_.Bind(data_.ProvideData(), data_.ProvideLabel());
    module_.InitParams(Zero());
    module_.InitOptimizer(std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.25}}));
  }

  EpochEndParam Epoch(int epoch, double training, double validation) {
    return {.epoch = epoch,
            .samples = 100,
            .seconds = 0.5,
            .training = {{"accuracy", training}},
            .validation = {{"accuracy", validation}},
            .module = module_};
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  NDArrayIter data_;
  Module module_;
};

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST_F(CallbacksTest, TheBestValueIsThatOfTheValidation) {
  BestValue best({.min_delta = 0.1});
  EXPECT_FALSE(best.value().has_value());
  EXPECT_FALSE(best.Update(Epoch(0, 0.9, kNaN)));
  EXPECT_TRUE(best.Update(Epoch(0, 0.9, 0.5)));
  EXPECT_FALSE(best.Update(Epoch(1, 0.9, 0.55)));
  EXPECT_FALSE(best.Update(Epoch(2, 0.9, kNaN)));
  EXPECT_TRUE(best.Update(Epoch(3, 0.9, 0.75)));
  EXPECT_EQ(best.value(), 0.75);

  BestValue loaded({.min_delta = 0.1});
  loaded.LoadState(best.SaveState());
  EXPECT_EQ(loaded.value(), 0.75);
  loaded.LoadState(BestValue(WatchedMetric()).SaveState());
  EXPECT_FALSE(loaded.value().has_value());

  BestValue smaller({.better = WatchedMetric::Better::kSmaller});
  EpochEndParam training = Epoch(0, 2, 0);
  training.validation.clear();
  EXPECT_TRUE(smaller.Update(training));
  EXPECT_FALSE(smaller.Update(Epoch(1, 0, 2)));
  EXPECT_TRUE(smaller.Update(Epoch(2, 5, 1.5)));

  const auto message_of = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  BestValue other({.name = "f1"});
  EXPECT_THAT(message_of([&] { other.Update(Epoch(0, 1, 1)); }),
              testing::AllOf(HasSubstr("f1"), HasSubstr("accuracy")));
  EXPECT_THAT(message_of([&] { other.LoadState(best.SaveState()); }), HasSubstr("f1"));
  EXPECT_THAT(message_of([] { BestValue({.min_delta = -1}); }), HasSubstr("min_delta -1"));
  EXPECT_THAT(message_of([] { EarlyStop({}, 0); }), HasSubstr("patience 0"));
}

TEST_F(CallbacksTest, ATrainingEndsWhenItDoesNotImprove) {
  // The accuracy of the training is the same in all epochs, because the rate is 0.
  const auto epochs_of = [&](EarlyStop* early_stop) {
    int epochs = 0;
    module_.Fit(&data_,
                {.num_epoch = 10,
                 .optimizer = std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0}}),
                 .epoch_end = {std::ref(*early_stop), [&](const EpochEndParam&) { ++epochs; }}});
    return epochs;
  };
  EarlyStop early_stop({}, 3);
  EXPECT_EQ(epochs_of(&early_stop), 4);
  EXPECT_EQ(early_stop.best().value(), 0.5);
  EarlyStop continued({}, 3);
  EarlyStop after_one({}, 3);
  after_one(Epoch(0, 0, 0.5));
  after_one(Epoch(1, 0, 0.5));
  continued.LoadState(after_one.SaveState());
  EXPECT_EQ(epochs_of(&continued), 2);
}

TEST_F(CallbacksTest, TheBestModelIsSaved) {
  const std::string path = testing::TempDir() + "/best";
  std::filesystem::remove_all(path);
  CheckpointFolder folder(path, {.keep_last = 1});
  SaveBest save_best(&folder, {});
  ASSERT_TRUE(data_.Next());
  int64_t step = 0;
  for (const double accuracy : {0.5, 0.25, 0.75, 0.75}) {
    module_.Forward(data_.GetBatch(), /*is_train=*/true);
    module_.Backward();
    module_.Update();
    save_best(Epoch(static_cast<int>(step++), 0, accuracy));
  }
  EXPECT_THAT(folder.Steps(), ElementsAre(3));
  EXPECT_EQ(save_best.best().value(), 0.75);
  const auto saved = folder.Load(3).model->parameters.arg.at("fc_weight").ToVector();
  EXPECT_NE(saved, module_.GetParams().arg.at("fc_weight").ToVector());  // of step 4
  EXPECT_NE(saved, std::vector<float>({0, 0}));
  SaveBest continued(&folder, {});
  continued.LoadState(save_best.SaveState());
  continued(Epoch(4, 0, 0.75));
  EXPECT_THAT(folder.Steps(), ElementsAre(3));
}

TEST_F(CallbacksTest, ALineStaysForEachEpoch) {
  std::ostringstream out;
  ProgressBar bar({.num_epoch = 3, .out = &out});
  EvalMetric metric = Accuracy();
  for (int64_t nbatch = 1; nbatch <= 3; ++nbatch) {
    bar(BatchEndParam{.epoch = 0, .nbatch = nbatch, .metric = metric});
  }
  EXPECT_EQ(out.str(), "");
  bar(Epoch(0, 0.5, 0.25));
  bar(Epoch(2, 0.75, 0.5));
  EXPECT_EQ(out.str(),
            "epoch 1/3  accuracy 0.5  validation accuracy 0.25  200 examples/s  0:01 left\n"
            "epoch 3/3  accuracy 0.75  validation accuracy 0.5  200 examples/s  0:00 left\n");
}

TEST_F(CallbacksTest, ATerminalShowsABar) {
  std::ostringstream out;
  ProgressBar bar(
      {.num_epoch = 2, .num_batches = 4, .batch_size = 8, .out = &out, .is_terminal = true});
  EvalMetric metric = Accuracy();
  const auto batch = [&](int64_t nbatch) {
    bar(BatchEndParam{.epoch = 0, .nbatch = nbatch, .metric = metric});
  };
  batch(1);
  EXPECT_EQ(out.str(), "");
  // Lines follow each other no faster than ten in a second.
  for (int i = 0; out.str().empty() && i < 100'000'000; ++i) batch(2);
  EXPECT_THAT(out.str(),
              MatchesRegex("\repoch 1/2 \\[============            \\] 2/4  [0-9]+ examples/s  "
                           "0:00 left  accuracy nan"));
  const size_t width = out.str().size() - 1;
  out.str("");
  bar(Epoch(0, 0.5, 0.25));
  // The rest of the longer line is gone.
  EXPECT_THAT(out.str(), StartsWith("\repoch 1/2  accuracy 0.5"));
  EXPECT_THAT(out.str(),
              EndsWith("left" + std::string(width - out.str().find("left") - 3, ' ') + "\n"));
}

TEST(ProgressBarTest, Durations) {
  using train_internal::DurationText;
  EXPECT_EQ(DurationText(-1), "0:00");
  EXPECT_EQ(DurationText(7.4), "0:07");
  EXPECT_EQ(DurationText(59.6), "1:00");
  EXPECT_EQ(DurationText(3599), "59:59");
  EXPECT_EQ(DurationText(3723), "1:02:03");
  EXPECT_EQ(DurationText(360000), "100:00:00");
}

TEST(ProgressBarTest, ImpossibleOptionsAreRefused) {
  EXPECT_THROW(ProgressBar({.num_epoch = 0}), Error);
  EXPECT_THROW(ProgressBar({.num_batches = -1}), Error);
  EXPECT_THROW(ProgressBar({.batch_size = 0}), Error);
}

TEST_F(CallbacksTest, ATableHasARowForEachEpoch) {
  const std::string path = testing::TempDir() + "/training.csv";
  std::filesystem::remove(path);
  CsvLog log(path);
  log(Epoch(0, 0.1, kNaN));
  log(Epoch(1, 0.5, 1e-300));
  const std::string head = "epoch,update,samples,seconds,accuracy,validation_accuracy\n";
  EXPECT_EQ(Read(path), head + "0,0,100,0.5,0.1,nan\n1,0,100,0.5,0.5,1e-300\n");
  // A process that continues after epoch 0 repeats epoch 1; a damaged row is left out.
  std::ofstream(path, std::ios::app) << "2,0,\nx\n";
  CsvLog continued(path);
  continued(Epoch(1, 0.25, 2));
  EXPECT_EQ(Read(path), head + "0,0,100,0.5,0.1,nan\n1,0,100,0.5,0.25,2\n");
  EpochEndParam other = Epoch(2, 0, 0);
  other.training[0].name = "a \"b\", c";
  try {
    continued(other);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("training.csv"));
  }
  std::filesystem::remove(path);
  continued(other);
  EXPECT_THAT(Read(path), StartsWith("epoch,update,samples,seconds,\"a \"\"b\"\", c\","));
}

TEST_F(CallbacksTest, TensorBoardGetsMetricsRateAndSpeed) {
  const std::string folder = testing::TempDir() + "/board";
  TensorBoardLog log(folder, 2);
  log(Epoch(0, 0.5, 0.25));
  EvalMetric metric = Accuracy();
  for (int64_t nbatch = 1; nbatch <= 2; ++nbatch) {
    log(BatchEndParam{.epoch = 1, .nbatch = nbatch, .metric = metric, .num_update = 40 + nbatch});
  }
  std::string rest = Read(log.file().path());
  const auto expect = [&](const std::string& tag, float value, int64_t step) {
    // Behind the time, which changes.
    const std::string event = train_internal::ScalarEvent(0, step, tag, value).substr(9);
    const size_t at = rest.find(event);
    ASSERT_NE(at, std::string::npos) << tag;
    rest = rest.substr(at + event.size());
  };
  expect("training/accuracy", 0.5f, 0);
  expect("validation/accuracy", 0.25f, 0);
  expect("training/examples_per_second", 200, 0);
  expect("training/learning_rate", 0.25f, 0);
  EXPECT_THAT(rest, HasSubstr("batch/accuracy"));
  EXPECT_EQ(rest.find("batch/accuracy"), rest.rfind("batch/accuracy"));
  EXPECT_THROW(TensorBoardLog(folder, 0), Error);
}

TEST_F(CallbacksTest, DataAreMeasuredWithinAnEpoch) {
  std::vector<double> values;
  std::vector<int64_t> batches;
  NDArrayIter eval({{"data", NDArray::FromVector(std::vector<float>{1, 2, 3}, {3, 1})}},
                   {{"softmax_label", NDArray::FromVector(std::vector<float>{0, 1, 1}, {3})}},
                   {.batch_size = 3});
  module_.Fit(&data_, {.num_epoch = 2,
                       .batch_end = {ValidateEvery(
                           2, &module_, &eval, CrossEntropy(),
                           [&](const BatchEndParam& param, const std::vector<NamedValue>& found) {
                             batches.push_back(param.epoch * 10 + param.nbatch);
                             values.push_back(found[0].value);
                           })}});
  EXPECT_THAT(batches, ElementsAre(2, 12));
  EXPECT_NE(values[0], values[1]);
  EXPECT_THROW(ValidateEvery(0, &module_, &eval, CrossEntropy(), {}), Error);
}

}  // namespace
}  // namespace tessera
