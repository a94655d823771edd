#include "tessera/train/metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"

namespace tessera {
namespace {

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

Error ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(absl::StatusCode{}, "");
}

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
  const Error error = ErrorOf([] { EvalMetric::Create("f1"); });
  EXPECT_EQ(error.code(), Error::kNotFound);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'f1'"), HasSubstr("accuracy, cross-entropy")));
}

}  // namespace
}  // namespace tessera
