#include "tessera/ops/benchmark/peer_cases.h"

#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/benchmark/layer.h"

namespace tessera::ops_benchmark {
namespace {

const PeerCase& Find(const std::vector<PeerCase>& cases, const std::string& name) {
  for (const PeerCase& c : cases) {
    if (c.name == name) return c;
  }
  throw std::out_of_range(name);
}

TEST(PeerCasesTest, NamesDifferAndEveryCaseHasAPeer) {
  std::set<std::string> names;
  for (const PeerCase& c : PeerCases()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_FALSE(c.bounds.empty()) << c.name;
    EXPECT_EQ(c.name.find(' '), std::string::npos) << c.name;
  }
}

TEST(PeerCasesTest, ShapesFollowFromWhatIsStated) {
  for (const PeerCase& c : PeerCases()) EXPECT_GT(BytesOf(c.call), 0) << c.name;
}

TEST(PeerCasesTest, EveryMeanHasCases) {
  const std::vector<PeerCase> cases = PeerCases();
  for (const benchmarking::Mean& mean : PeerMeans()) {
    const std::regex wanted(mean.cases);
    size_t count = 0;
    for (const PeerCase& c : cases) count += std::regex_search(c.name, wanted) ? 1 : 0;
    EXPECT_GT(count, 30u) << mean.name;
  }
}

TEST(PeerCasesTest, BytesAreThoseThatMustMove) {
  const std::vector<PeerCase> cases = PeerCases();
  EXPECT_EQ(BytesOf(Find(cases, "elementwise/add").call), 4.0 * 3 * (1 << 22));
  EXPECT_EQ(BytesOf(Find(cases, "reduction/sum_axis1").call), 4.0 * (2048 * 2048 + 2048));
  // Rows of the table are read and written; the table's other rows are not touched.
  EXPECT_EQ(BytesOf(Find(cases, "movement/embedding").call), 4.0 * 32 * 128 * (2 * 256 + 1));
  EXPECT_EQ(BytesOf(Find(cases, "movement/one_hot").call), 4.0 * 1024 * (1000 + 1));
}

TEST(PeerCasesTest, FlopsCountAMultiplyAddTwice) {
  const std::vector<PeerCase> cases = PeerCases();
  EXPECT_EQ(Find(cases, "convolution/f1/r50_7x7s2").flops, 2.0 * 112 * 112 * 64 * 3 * 49);
  EXPECT_EQ(Find(cases, "convolution/fb8/grp32_256").flops, 6.0 * 8 * 28 * 28 * 256 * 8 * 9);
  EXPECT_EQ(Find(cases, "depthwise/f8/mb2_dw96s2").flops, 2.0 * 8 * 56 * 56 * 96 * 9);
}

constexpr char kParameters[] = "kernel=(3,3);num_filter=4;pad=(1,1)";

OperatorCall SmallConvolution(Work work) {
  return {.op = "Convolution",
          .parameters = {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", "4"}},
          .inputs = {{2, 3, 5, 6}, {}, {}},
          .work = work};
}

TEST(LayerTest, RequestSaysWhatIsTimed) {
  const std::string end = std::string(" -1 1 ") + kParameters + " 2x3x5x6,4x3x3x3,4";
  EXPECT_EQ(Layer(SmallConvolution(Work::kForward)).PeerRequest(), "Convolution forward -" + end);
  EXPECT_EQ(Layer(SmallConvolution(Work::kForwardAndBackward)).PeerRequest(),
            "Convolution forward 0,1,2" + end);
  EXPECT_EQ(Layer(SmallConvolution(Work::kDataGradient)).PeerRequest(),
            "Convolution gradients 0" + end);
  EXPECT_EQ(Layer(SmallConvolution(Work::kWeightGradient)).PeerRequest(),
            "Convolution gradients 1" + end);
  EXPECT_EQ(Layer(OperatorCall{.op = "one_hot",
                               .parameters = {{"depth", "7"}},
                               .inputs = {{3}},
                               .index_input = 0,
                               .index_below = 7})
                .PeerRequest(),
            "one_hot forward - -1 1 depth=7 3:7");
  EXPECT_EQ(
      Layer(OperatorCall{.op = "_random_uniform", .parameters = {{"shape", "(4,)"}}}).PeerRequest(),
      "_random_uniform forward - -1 1 shape=(4,) -");
}

TEST(LayerTest, EveryPartOfTheWorkMatchesTheReference) {
  for (const Work work :
       {Work::kForward, Work::kForwardAndBackward, Work::kDataGradient, Work::kWeightGradient}) {
    EXPECT_TRUE(Layer(SmallConvolution(work)).MatchesReference()) << static_cast<int>(work);
  }
}

TEST(LayerTest, ChecksumIsOfTheOutputAndTheFirstGradient) {
  // The elements 0.25 of a sum of 14: (1 + i % 7 / 7) has the sum 20.
  const OperatorCall ones = {.op = "relu", .inputs = {{14}}, .low = 0.25, .high = 0.25};
  Layer layer(ones);
  layer.Run();
  EXPECT_DOUBLE_EQ(layer.Checksum(), 0.25 * 20);
}

TEST(LayerTest, IndexesAreIntegersBelowTheBound) {
  // Sums of rows that have a single 1.
  Layer layer(OperatorCall{.op = "one_hot",
                           .parameters = {{"depth", "5"}},
                           .inputs = {{1000}},
                           .index_input = 0,
                           .index_below = 5});
  layer.Run();
  EXPECT_GE(layer.Checksum(), 1000);
  EXPECT_LT(layer.Checksum(), 2000);
}

}  // namespace
}  // namespace tessera::ops_benchmark
