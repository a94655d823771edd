#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/train/metrics.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using testing::AllOf;
using testing::HasSubstr;

NDArray Array(const std::vector<float>& values, const TShape& shape) {
  return NDArray::FromVector(values, shape);
}

void Update(EvalMetric* metric, const NDArray& label, const NDArray& prediction,
            index_t valid_rows = -1) {
  metric->Update({&label, 1}, {&prediction, 1}, valid_rows);
}

double Value(const EvalMetric& metric) { return metric.Get()[0].value; }

TEST(MetricTest, AccuracyIsTheShareOfHits) {
  Accuracy metric;
  const NDArray scores = Array({0.1f, 0.9f, 0.8f, 0.2f, 0.3f, 0.7f}, {3, 2});
  Update(&metric, Array({1, 0, 0}, {3}), scores);
  EXPECT_DOUBLE_EQ(Value(metric), 2.0 / 3);
  Update(&metric, Array({1, 0, 1}, {3}), scores);
  EXPECT_DOUBLE_EQ(Value(metric), 5.0 / 6);
  EXPECT_EQ(metric.Get()[0].name, "accuracy");
}

TEST(MetricTest, PaddingDoesNotCount) {
  Accuracy metric;
  Update(&metric, Array({0, 0, 0}, {3}), Array({1, 0, 1, 0, 0, 1}, {3, 2}), 2);
  EXPECT_DOUBLE_EQ(Value(metric), 1);
  Update(&metric, Array({1, 0, 0}, {3}), Array({1, 0, 1, 0, 0, 1}, {3, 2}), 0);
  EXPECT_DOUBLE_EQ(Value(metric), 1);
}

TEST(MetricTest, OfEqualScoresTheFirstCounts) {
  Accuracy metric;
  Update(&metric, Array({0, 1}, {2}), Array({0.5f, 0.5f, 0.5f, 0.5f}, {2, 2}));
  EXPECT_DOUBLE_EQ(Value(metric), 0.5);
}

TEST(MetricTest, TheFirstNanCountsAsTheLargestScore) {
  const auto hits = [](const std::vector<float>& scores) {
    std::vector<double> at;
    for (float label = 0; label < 3; ++label) {
      Accuracy metric;
      Update(&metric, Array({label}, {1}), Array(scores, {1, 3}));
      at.push_back(Value(metric));
    }
    return at;
  };
  using testing::ElementsAre;
  EXPECT_THAT(hits({NAN, 1, 2}), ElementsAre(1, 0, 0));
  EXPECT_THAT(hits({1, NAN, 2}), ElementsAre(0, 1, 0));
  EXPECT_THAT(hits({1, NAN, NAN}), ElementsAre(0, 1, 0));
  EXPECT_THAT(hits({INFINITY, 1, NAN}), ElementsAre(0, 0, 1));
  EXPECT_THAT(hits({NAN, NAN, NAN}), ElementsAre(1, 0, 0));
}

TEST(MetricTest, AccuracyTakesPositionsAndClasses) {
  Accuracy metric;
  // Two examples, two classes, two positions.
  Update(&metric, Array({0, 1, 1, 1}, {2, 2}), Array({9, 0, 0, 9, 9, 0, 0, 9}, {2, 2, 2}));
  EXPECT_DOUBLE_EQ(Value(metric), 0.75);
  metric.Reset();
  Update(&metric, Array({0, 3, 2}, {3}), Array({0, 3, 4}, {3}));
  EXPECT_DOUBLE_EQ(Value(metric), 2.0 / 3);
}

TEST(MetricTest, LabelsMayHaveAnyType) {
  NDArray labels({2}, Device::Cpu(), DType::kInt32);
  const int32_t classes[] = {1, 7};
  labels.SyncCopyFromCPU(classes, 2);
  Accuracy metric;
  Update(&metric, labels, Array({0, 1, 0, 1}, {2, 2}));
  EXPECT_DOUBLE_EQ(Value(metric), 0.5);  // class 7 is none of the two
}

TEST(MetricTest, CrossEntropyIsTheMeanLogLoss) {
  CrossEntropy metric;
  Update(&metric, Array({0, 1}, {2}), Array({0.25f, 0.75f, 0.5f, 0.5f}, {2, 2}));
  EXPECT_NEAR(Value(metric), (std::log(4.0) + std::log(2.0)) / 2, 1e-9);
  metric.Reset();
  Update(&metric, Array({0}, {1}), Array({0, 1}, {1, 2}));
  EXPECT_NEAR(Value(metric), -std::log(1e-12), 1e-9);
}

TEST(MetricTest, NothingCountedIsNotANumber) {
  Accuracy metric;
  EXPECT_TRUE(std::isnan(Value(metric)));
  Update(&metric, Array({0}, {1}), Array({1, 0}, {1, 2}));
  metric.Reset();
  EXPECT_TRUE(std::isnan(Value(metric)));
}

TEST(MetricTest, ACompositeHasSumsOfItsOwn) {
  Accuracy accuracy;
  CompositeMetric both({accuracy, CrossEntropy()});
  Update(&both, Array({0}, {1}), Array({0.5f, 0.5f}, {1, 2}));
  const std::vector<NamedValue> values = both.Get();
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].name, "accuracy");
  EXPECT_DOUBLE_EQ(values[0].value, 1);
  EXPECT_EQ(values[1].name, "cross-entropy");
  EXPECT_NEAR(values[1].value, std::log(2.0), 1e-9);
  EXPECT_TRUE(std::isnan(Value(accuracy)));
}

TEST(MetricTest, UpdateReadsTheArraysAsTheyAreAtTheCall) {
  Accuracy metric;
  NDArray scores = Array({1, 0}, {1, 2});
  const NDArray label = Array({0}, {1});
  for (int i = 0; i < 100; ++i) {
    scores *= 1.0f;
    Update(&metric, label, scores);
    scores -= Array({1, -1}, {1, 2});  // now the other class
    Update(&metric, label, scores);
    scores += Array({1, -1}, {1, 2});
  }
  EXPECT_DOUBLE_EQ(Value(metric), 0.5);
}

TEST(MetricTest, AFailedComputationSurfacesAtGet) {
  Accuracy metric;
  NDArray scores = Array({1, 0}, {1, 2});
  Engine::Get()->PushSync([](RunContext) { throw DataLoss("the scores are gone"); }, Device::Cpu(),
                          {}, {scores.var()});
  Update(&metric, Array({0}, {1}), scores);
  Update(&metric, Array({0}, {1}), Array({1, 0}, {1, 2}));
  EXPECT_THAT(ErrorOf([&] { metric.Get(); }).what(), HasSubstr("the scores are gone"));
  metric.Reset();
  Update(&metric, Array({0}, {1}), Array({1, 0}, {1, 2}));
  EXPECT_DOUBLE_EQ(Value(metric), 1);
}

TEST(MetricTest, ALabelOutsideTheClassesSurfacesAtGet) {
  CrossEntropy metric;
  Update(&metric, Array({0, 2}, {2}), Array({1, 0, 0, 1}, {2, 2}));
  const Error error = ErrorOf([&] { metric.Get(); });
  EXPECT_EQ(error.code(), Error::kOutOfRange);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("label 2 at row 1"), HasSubstr("from 0 to 1")));
}

TEST(MetricTest, ShapesThatDoNotFitAreRefusedAtOnce) {
  Accuracy accuracy;
  const auto refused = [](EvalMetric metric, const NDArray& label, const NDArray& prediction) {
    const Error error = ErrorOf([&] { Update(&metric, label, prediction); });
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_TRUE(std::isnan(Value(metric)));
    return std::string(error.what());
  };
  EXPECT_THAT(refused(accuracy, Array({0, 1, 1}, {3}), Array({0, 1, 1, 0}, {2, 2})),
              AllOf(HasSubstr("(3,)"), HasSubstr("(2,2)")));
  EXPECT_THAT(refused(CrossEntropy(), Array({0, 1}, {2, 1}), Array({0, 1, 1, 0}, {2, 2})),
              HasSubstr("(2,1)"));
  EXPECT_THAT(refused(accuracy, Array({0, 1}, {2}), NDArray({2, 2}, Device::Cpu(), DType::kInt32)),
              HasSubstr("int32"));
  const NDArray label = Array({0}, {1}), prediction = Array({0, 1}, {1, 2});
  EXPECT_THAT(ErrorOf([&] {
                accuracy.Update({&label, 1}, {});
              }).what(),
              HasSubstr("1 labels for 0"));
  EXPECT_THAT(ErrorOf([&] { Update(&accuracy, label, prediction, 2); }).what(),
              HasSubstr("valid_rows 2"));
}

TEST(MetricTest, IsMadeByName) {
  EXPECT_EQ(EvalMetric::Create("acc").Get()[0].name, "accuracy");
  EXPECT_EQ(EvalMetric::Create("cross-entropy").Get()[0].name, "cross-entropy");
  for (const char* const name : {"accuracy", "cross-entropy", "nll-loss", "perplexity", "f1", "mcc",
                                 "roc-auc", "mae", "mse", "rmse", "pearsonr", "loss"}) {
    EXPECT_EQ(EvalMetric::Create(name).Get()[0].name, name);
  }
  const Error error = ErrorOf([] { EvalMetric::Create("f2"); });
  EXPECT_EQ(error.code(), Error::kNotFound);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'f2'"), HasSubstr("accuracy, cross-entropy")));
}

/// One metric, batches of labels and predictions, and the values after each batch.
struct Table {
  EvalMetric metric;
  struct Batch {
    std::vector<float> labels, predictions;
    TShape label_shape, prediction_shape;
    double value;
  };
  std::vector<Batch> batches;
};

TEST(MetricTest, ValuesAreThoseOfTheTables) {
  const std::vector<float> four = {0.1f, 0.9f, 0.8f, 0.2f, 0.3f, 0.7f, 0.4f, 0.6f};
  const std::vector<float> scores = {0.1f, 0.2f, 0.3f, 0.4f,  0.4f, 0.1f,
                                     0.3f, 0.2f, 0.5f, 0.25f, 0.5f, 0.25f};
  const Table tables[] = {
      {TopKAccuracy(2),
       {{{2, 1, 0}, scores, {3}, {3, 4}, 2 / 3.0}, {{1, 2, 3}, scores, {3}, {3, 4}, 3 / 6.0}}},
      {TopKAccuracy(9), {{{2, 1, 4}, scores, {3}, {3, 4}, 2 / 3.0}}},
      {NegativeLogLikelihood(),
       {{{1, 0}, {0.5f, 0.5f, 0.25f, 0.75f}, {2}, {2, 2}, std::log(8) / 2}}},
      {Perplexity(),
       {{{1, 0}, {0.5f, 0.5f, 0.25f, 0.75f}, {2}, {2, 2}, std::sqrt(8.0)},
        {{0}, {0, 1}, {1}, {1, 2}, std::cbrt(8e10)}}},
      {Perplexity(-1), {{{1, -1, 0, -1}, four, {2, 2}, {2, 2, 2}, 1 / std::sqrt(0.9 * 0.3)}}},
      // Predictions are 1, 0, 1, 1.
      {F1(),
       {{{1, 0, 0, 1}, four, {4}, {4, 2}, 2 * 2 / (2 * 2 + 1.0)},
        {{1, 1, 1, 0}, four, {4}, {4, 2}, 2 * 4 / (2 * 4 + 2 + 1.0)}}},
      {F1(), {{{1, 0}, {0.5f, 0.25f}, {2}, {2}, 0}, {{1, 1}, {0.75f, 0.5f}, {2}, {2, 1}, 0.5}}},
      {Mcc(),
       {{{1, 0, 0, 1}, four, {4}, {4, 2}, (2 * 1 - 1 * 0) / std::sqrt(3.0 * 2 * 2 * 1)},
        {{1, 1, 1, 0}, four, {4}, {4, 2}, (4 * 1 - 2 * 1) / std::sqrt(6.0 * 5 * 3 * 2)}}},
      {Mcc(), {{{0, 0}, {0.1f, 0.2f}, {2}, {2}, 0}}},
      // Scores 0.9, 0.2, 0.7, 0.6.
      {RocAuc(),
       {{{1, 1, 1, 1}, four, {4}, {4, 2}, NAN},
        {{0, 0, 0, 1}, four, {4}, {4, 2}, (2.5 + 0.5 + 1.5 + 1 + 1) / (5 * 3)}}},
      {RocAuc(), {{{0, 1, 0, 1}, {0.1f, 0.4f, 0.35f, 0.8f}, {4}, {4}, 1}}},
      {Mae(), {{{1, 2}, {3, 1}, {2}, {2, 1}, 1.5}, {{0}, {-3}, {1}, {1}, 2}}},
      {Mse(), {{{1, 2}, {3, 1}, {2}, {2, 1}, 2.5}, {{0}, {-4}, {1}, {1}, 7}}},
      {Rmse(),
       {{{1, 2}, {3, 1}, {2}, {2, 1}, std::sqrt(2.5)}, {{0}, {-4}, {1}, {1}, std::sqrt(7)}}},
      {PearsonCorrelation(),
       {{{1, 2}, {10, 8}, {2}, {2}, -1},
        // All: labels 1, 2, 3, 6 and predictions 10, 8, 8, 2.
        {{3, 6}, {8, 2}, {2}, {2}, -22 / std::sqrt(14.0 * 36)}}},
      {PearsonCorrelation(), {{{1, 2}, {3, 3}, {2}, {2}, NAN}}},
      {Loss(), {{{0, 0}, {1, 2, 3, 6}, {2}, {2, 2}, 3}, {{0, 0}, {13}, {2}, {1}, 5}}},
  };
  for (const Table& table : tables) {
    EvalMetric metric = table.metric;
    for (const Table::Batch& batch : table.batches) {
      Update(&metric, Array(batch.labels, batch.label_shape),
             Array(batch.predictions, batch.prediction_shape));
      const NamedValue found = metric.Get()[0];
      if (std::isnan(batch.value)) {
        EXPECT_TRUE(std::isnan(found.value)) << found.name << " is " << found.value;
      } else {
        EXPECT_NEAR(found.value, batch.value, 1e-6 * (1 + std::abs(batch.value))) << found.name;
      }
    }
  }
}

TEST(MetricTest, PaddingCountsInNoMetric) {
  const NDArray labels = Array({1, 0, 1}, {3}), predictions = Array({0.9f, 0.6f, 0.1f}, {3});
  const NDArray one = Array({1, 0}, {2}), two = Array({0.9f, 0.6f}, {2});
  for (const char* const name :
       {"f1", "mcc", "roc-auc", "mae", "mse", "rmse", "pearsonr", "loss"}) {
    EvalMetric padded = EvalMetric::Create(name), exact = EvalMetric::Create(name);
    Update(&padded, labels, predictions, 2);
    Update(&exact, one, two);
    EXPECT_EQ(Value(padded), Value(exact)) << name;
  }
}

TEST(MetricTest, TopKCountsTheFirstOfEqualsAndNan) {
  const auto hits = [](float label, std::vector<float> scores) {
    TopKAccuracy metric(2);
    Update(&metric, Array({label}, {1}), Array(scores, {1, 3}));
    return Value(metric);
  };
  EXPECT_EQ(hits(1, {5, 5, 5}), 1);
  EXPECT_EQ(hits(2, {5, 5, 5}), 0);
  EXPECT_EQ(hits(2, {1, 5, NAN}), 1);
  EXPECT_EQ(hits(0, {1, INFINITY, NAN}), 0);
  EXPECT_EQ(hits(1, {1, INFINITY, NAN}), 1);
}

TEST(MetricTest, PearsonKeepsSmallDeviationsOfLargeNumbers) {
  PearsonCorrelation metric;
  for (const float base : {8e6f, 8e6f + 4}) {
    Update(&metric, Array({0, 1}, {2}), Array({base, base + 1}, {2}));
  }
  // Predictions deviate by -2.5, -1.5, 1.5, 2.5; labels by -0.5, 0.5, -0.5, 0.5.
  EXPECT_NEAR(Value(metric), 1 / std::sqrt(17.0), 1e-9);
}

TEST(MetricTest, AFunctionOfTheProgramIsAMetric) {
  CustomMetric metric("largest", [](const TBlob&, const TBlob& prediction, index_t valid_rows) {
    const auto* const values = static_cast<const float*>(prediction.dptr_);
    return MetricSum{static_cast<double>(*std::max_element(values, values + valid_rows)), 1};
  });
  Update(&metric, Array({0, 0}, {2}), Array({3, 7}, {2}));
  Update(&metric, Array({0, 0}, {2}), Array({3, 7}, {2}), 1);
  EXPECT_EQ(Value(metric), 5);
  EXPECT_EQ(metric.Get()[0].name, "largest");
  EXPECT_THROW(CustomMetric("none", nullptr), Error);
}

TEST(MetricTest, AStateContinuesBitForBit) {
  const NDArray labels = Array({1, 0, 0}, {3}), predictions = Array({0.9f, 0.8f, 0.1f}, {3});
  const NDArray later = Array({1, 1, 0}, {3});
  for (const char* const name : {"f1", "mcc", "roc-auc", "mae", "rmse", "pearsonr", "loss"}) {
    EvalMetric whole = EvalMetric::Create(name), rest = EvalMetric::Create(name);
    Update(&whole, labels, predictions);
    const TrainingState state = whole.SaveState();
    Update(&rest, later, predictions);  // is forgotten
    rest.LoadState(state);
    EXPECT_EQ(Value(rest), Value(whole)) << name;
    Update(&whole, later, predictions);
    Update(&rest, later, predictions);
    EXPECT_EQ(Value(rest), Value(whole)) << name;
  }
  EvalMetric both = CompositeMetric({Accuracy(), CrossEntropy()});
  EXPECT_THROW(both.LoadState(Accuracy().SaveState()), Error);
  EXPECT_THROW(Mae().LoadState(Mse().SaveState()), Error);
  both.LoadState(both.SaveState());
  EXPECT_TRUE(std::isnan(Value(both)));
}

TEST(MetricTest, LabelsAndShapesOfOtherMetricsAreChecked) {
  F1 f1;
  Update(&f1, Array({0, 2}, {2}), Array({0.5f, 0.5f}, {2}));
  EXPECT_THAT(ErrorOf([&] { f1.Get(); }).what(), HasSubstr("label 2 at row 1"));
  Perplexity perplexity;
  Update(&perplexity, Array({2}, {1}), Array({0, 1}, {1, 2}));
  EXPECT_EQ(ErrorOf([&] { perplexity.Get(); }).code(), Error::kOutOfRange);
  const NDArray label = Array({0, 1}, {2}), three = Array({1, 2, 3}, {3});
  for (const char* const name : {"f1", "roc-auc", "mae", "pearsonr", "perplexity"}) {
    EvalMetric metric = EvalMetric::Create(name);
    EXPECT_EQ(ErrorOf([&] { Update(&metric, label, three); }).code(), Error::kInvalidArgument)
        << name;
  }
  EXPECT_THROW(TopKAccuracy(0), Error);
}

}  // namespace
}  // namespace tessera
