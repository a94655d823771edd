// A training that is stopped and continued in a new process is, bit for bit, one that was never
// stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/io/ndarray_iter.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/train/checkpoint_folder.h"
#include "tessera/train/module.h"
#include "tessera/train/stop_signals.h"

namespace tessera {
namespace {

using testing::HasSubstr;

constexpr int kEpochs = 3;
constexpr index_t kExamples = 18, kBatch = 4;
constexpr int kBatches = 5;  // in an epoch, the last one padded

Symbol Network(const char* act_type = "relu") {
  Symbol x = Symbol::Variable("data");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "6"}}, "fc1");
  x = Symbol::Apply("BatchNorm", {x}, {{"fix_gamma", "False"}}, "bn1");
  x = Symbol::Apply("Activation", {x}, {{"act_type", act_type}}, "act1");
  x = Symbol::Apply("Dropout", {x}, {{"p", "0.4"}}, "drop1");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "3"}}, "fc2");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

std::unique_ptr<NDArrayIter> Data(uint64_t seed) {
  std::vector<float> values, labels;
  for (index_t i = 0; i < kExamples; ++i) {
    for (index_t k = 0; k < 3; ++k) {
      values.push_back(static_cast<float>((i * 7 + k * 5) % 13) / 13 + (i % 3 == k ? 1.0f : 0.0f));
    }
    labels.push_back(static_cast<float>(i % 3));
  }
  return std::make_unique<NDArrayIter>(
      NamedArrays{{"data", NDArray::FromVector(values, {kExamples, 3})}},
      NamedArrays{{"softmax_label", NDArray::FromVector(labels, {kExamples})}},
      BatchingOptions{.batch_size = kBatch, .shuffle = true, .seed = seed});
}

/// What a training leaves.
struct Outcome {
  std::map<std::string, std::vector<float>>
      arrays;                                  // parameters, aux states, the optimizer's states
  std::map<int, std::vector<double>> metrics;  // training and validation by epoch
  FitResult result;

  bool operator==(const Outcome& other) const {
    return arrays == other.arrays && metrics == other.metrics;
  }
};

/// The pieces of one process.
struct Process {
  explicit Process(uint64_t random_seed, const char* act_type = "relu")
      : module(Network(act_type)) {
    ResourceManager::Get()->SeedRandom(random_seed);
    options.num_epoch = kEpochs;
    options.eval_data = eval.get();
    options.metric = CompositeMetric({Accuracy(), CrossEntropy()});
    options.validation_metric = CrossEntropy();
    options.optimizer = std::make_shared<Adam>(
        AdamOptions{{.learning_rate = 0.05,
                     .wd = 1e-3,
                     .lr_scheduler = std::make_shared<CosineScheduler>(kEpochs * kBatches)}});
    options.initializer = std::make_shared<Xavier>();
    options.seed = 3;
    options.epoch_end.push_back([this](const EpochEndParam& param) {
      for (const auto* values : {&param.training, &param.validation}) {
        for (const NamedValue& value : *values) {
          outcome.metrics[param.epoch].push_back(value.value);
        }
      }
      outcome.metrics[param.epoch].push_back(static_cast<double>(param.samples));
    });
  }

  Outcome Train() {
    outcome.result = module.Fit(train.get(), options);
    const ModelParameters parameters = module.GetParams();
    for (const auto& [name, array] : parameters.arg) outcome.arrays[name] = array.ToVector();
    for (const auto& [name, array] : parameters.aux) outcome.arrays[name] = array.ToVector();
    for (const auto& [name, array] : options.optimizer->SaveState().arrays) {
      outcome.arrays[name] = array.ToVector();
    }
    return outcome;
  }

  std::unique_ptr<NDArrayIter> train = Data(5), eval = Data(6);
  Module module;
  FitOptions options;
  Outcome outcome;
};

Outcome Whole(std::shared_ptr<KVStore> kvstore = nullptr) {
  Process process(11);
  process.options.kvstore = std::move(kvstore);
  return process.Train();
}

std::string NewFolder() {
  const std::string path = testing::TempDir() + "/resume_" +
                           testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(path);
  return path;
}

/// Calls `act` after the batch of that number, counted from 1 over all epochs.
BatchEndCallback After(int batch, std::function<void()> act) {
  return [batch, act = std::move(act)](const BatchEndParam& param) {
    if (param.epoch * kBatches + param.nbatch == batch) act();
  };
}

TEST(ResumeTest, StoppedAfterEachBatchItEndsAsIfItHadNotBeen) {
  const Outcome whole = Whole();
  EXPECT_FALSE(whole.result.stopped);
  EXPECT_EQ(whole.metrics.size(), static_cast<size_t>(kEpochs));
  for (int batch = 1; batch <= kEpochs * kBatches; ++batch) {
    CheckpointFolder folder(NewFolder());
    Process first(11);
    first.options.checkpoints = &folder;
    first.options.batch_end.push_back(After(batch, [] { std::raise(SIGTERM); }));
    {
      const StopSignals signals;
      const Outcome stopped = first.Train();
      EXPECT_TRUE(stopped.result.stopped);
      EXPECT_EQ(stopped.result.num_epoch, (batch - 1) / kBatches);
      EXPECT_EQ(StopSignals::exit_code(), 143);
      EXPECT_EQ(folder.Latest(), batch);
    }
    Process second(999);  // other random numbers, were they not set
    second.outcome.metrics = first.outcome.metrics;
    second.options.checkpoints = &folder;
    second.options.resume = true;
    const StopSignals signals;
    EXPECT_EQ(second.Train(), whole) << "stopped after batch " << batch;
    EXPECT_EQ(second.outcome.result.num_epoch, kEpochs);
    EXPECT_FALSE(second.outcome.result.stopped);
    EXPECT_EQ(StopSignals::exit_code(), 0);
  }
}

TEST(ResumeTest, StoppedTwiceWithAStore) {
  const Outcome whole = Whole(KVStore::Create("local"));
  EXPECT_EQ(whole, Whole());
  CheckpointFolder folder(NewFolder());
  std::map<int, std::vector<double>> metrics;
  for (const int batch : {4, 11, 1000}) {
    Process process(static_cast<uint64_t>(batch == 4 ? 11 : batch));
    process.outcome.metrics = metrics;
    process.options.kvstore = KVStore::Create("local");
    process.options.checkpoints = &folder;
    process.options.resume = true;  // also where there is nothing to continue
    process.options.batch_end.push_back(After(batch, [] { std::raise(SIGINT); }));
    const StopSignals signals;
    const Outcome outcome = process.Train();
    EXPECT_EQ(StopSignals::exit_code(), batch == 1000 ? 0 : 130);
    if (batch == 1000) {
      EXPECT_EQ(outcome, whole);
    }
    metrics = outcome.metrics;
  }
}

TEST(ResumeTest, WhatWasNotSavedIsRepeated) {
  const Outcome whole = Whole();
  CheckpointFolder folder(NewFolder());
  Process first(11);
  first.options.checkpoints = &folder;
  first.options.checkpoint_batches = 2;
  first.options.batch_end.push_back(After(8, [] { throw std::runtime_error("power is gone"); }));
  EXPECT_THROW(first.Train(), std::runtime_error);
  EXPECT_THAT(folder.Steps(), testing::ElementsAre(4, 5, 7));
  Process second(999);
  second.outcome.metrics = first.outcome.metrics;
  second.options.checkpoints = &folder;
  second.options.resume = true;
  EXPECT_EQ(second.Train(), whole);
}

TEST(ResumeTest, ATrainingMayGetMoreEpochs) {
  const Outcome whole = Whole();
  CheckpointFolder folder(NewFolder());
  Outcome last;
  for (int num_epoch = 1; num_epoch <= kEpochs; ++num_epoch) {
    Process process(num_epoch == 1 ? 11 : 999);
    process.outcome.metrics = last.metrics;
    process.options.num_epoch = num_epoch;
    process.options.checkpoints = &folder;
    process.options.resume = true;
    last = process.Train();
  }
  EXPECT_EQ(last, whole);
  // There is nothing left to do.
  Process idle(1);
  idle.options.checkpoints = &folder;
  idle.options.resume = true;
  EXPECT_EQ(idle.Train().arrays, whole.arrays);
  EXPECT_TRUE(idle.outcome.metrics.empty());
}

TEST(ResumeTest, ATrainingThatEndedItselfIsNotContinued) {
  CheckpointFolder folder(NewFolder());
  Process first(11);
  first.options.checkpoints = &folder;
  first.options.epoch_end.push_back([](const EpochEndParam& param) { param.module.StopFit(); });
  const Outcome stopped = first.Train();
  EXPECT_TRUE(stopped.result.stopped);
  EXPECT_EQ(stopped.result.num_epoch, 1);
  Process second(11);
  second.options.checkpoints = &folder;
  second.options.resume = true;
  const Outcome outcome = second.Train();
  EXPECT_EQ(outcome.arrays, stopped.arrays);
  EXPECT_TRUE(outcome.result.stopped);
  EXPECT_EQ(outcome.result.num_epoch, 1);
}

TEST(ResumeTest, StopFitEndsAfterTheBatch) {
  Process process(11);
  int64_t batches = 0;
  process.options.batch_end.push_back([&](const BatchEndParam& param) {
    batches = param.nbatch;
    EXPECT_EQ(param.num_update, param.nbatch);
    if (param.nbatch == 2) process.module.StopFit();
  });
  EXPECT_TRUE(process.Train().result.stopped);
  EXPECT_EQ(batches, 2);
}

TEST(ResumeTest, OtherCoursesAreRefused) {
  const auto error_of = [](Process* process) {
    try {
      process->Train();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(absl::StatusCode{}, "");
  };
  Process no_folder(11);
  no_folder.options.resume = true;
  EXPECT_EQ(error_of(&no_folder).code(), Error::kInvalidArgument);

  CheckpointFolder folder(NewFolder());
  Process first(11);
  first.options.num_epoch = 1;
  first.options.checkpoints = &folder;
  first.Train();
  Process anew(11);
  anew.options.checkpoints = &folder;
  EXPECT_EQ(error_of(&anew).code(), Error::kFailedPrecondition);
  Process network(11, "tanh");
  network.options.checkpoints = &folder;
  network.options.resume = true;
  EXPECT_THAT(error_of(&network).what(), HasSubstr("another network"));
  Process optimizer(11);
  optimizer.options.checkpoints = &folder;
  optimizer.options.resume = true;
  optimizer.options.optimizer = std::make_shared<Sgd>();
  EXPECT_THAT(error_of(&optimizer).what(), HasSubstr("expected SGD"));
  EXPECT_THAT(folder.Steps(), testing::ElementsAre(kBatches));
}

TEST(StopSignalsTest, HandlersAreRestoredAndAnIgnoredSignalStaysIgnored) {
  struct sigaction before, after;
  std::signal(SIGINT, SIG_IGN);
  sigaction(SIGTERM, nullptr, &before);
  {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(SIGINT);
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(SIGTERM);
    EXPECT_EQ(StopSignals::received(), SIGTERM);
    // The next one would end the process.
    sigaction(SIGTERM, nullptr, &after);
    EXPECT_EQ(after.sa_handler, SIG_DFL);
  }
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace
}  // namespace tessera
