// MXNet's c_predict_api.
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mxnet/c_api.h"
#include "mxnet/c_predict_api.h"
#include "tessera/compat/mxnet/testing/client.h"

namespace tessera::mxnet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Shapes = std::map<std::string, std::vector<uint32_t>>;

/// fc = data · weightᵀ + bias, act = relu(fc), of 3 inputs and 2 outputs.
std::string NetworkJson() {
  const Owned data = MakeVariable("data");
  const Owned weight = MakeVariable("fc_weight"), bias = MakeVariable("fc_bias");
  const Owned fc =
      Apply("FullyConnected", "fc", {data.get(), weight.get(), bias.get()}, {{"num_hidden", "2"}});
  const Owned act = Apply("Activation", "act", {fc.get()}, {{"act_type", "relu"}});
  const char* json = nullptr;
  Check(MXSymbolSaveToJSON(act.get(), &json));
  return json;
}

std::string Parameters(const std::string& dtype = "float32") {
  const Owned weight = MakeArray({1, 2, 3, 4, 5, 6}, {2, 3}), bias = MakeArray({1, -100}, {2});
  const auto cast_weight = Call("Cast", {weight.get()}, {{"dtype", dtype}});
  const auto cast_bias = Call("Cast", {bias.get()}, {{"dtype", dtype}});
  return ParamsFile({{"arg:fc_weight", cast_weight[0].get()},
                     {"arg:fc_bias", cast_bias[0].get()},
                     {"arg:of_another_network", cast_bias[0].get()}});
}

/// Shapes as the API takes them.
struct ShapeLists {
  explicit ShapeLists(const Shapes& shapes) {
    for (const auto& [name, shape] : shapes) {
      names.push_back(name.c_str());
      extents.insert(extents.end(), shape.begin(), shape.end());
      offsets.push_back(static_cast<uint32_t>(extents.size()));
    }
  }

  std::vector<const char*> names;
  std::vector<uint32_t> offsets = {0};
  std::vector<uint32_t> extents;
};

/// The arguments of the functions that create a predictor.
struct Network {
  std::string json = NetworkJson();
  std::string parameters = Parameters();
  Shapes shapes = {{"data", {1, 3}}};

  int Create(PredictorHandle* out) const {
    ShapeLists lists(shapes);
    return MXPredCreate(json.c_str(), parameters.data(), static_cast<int>(parameters.size()), 1, 0,
                        static_cast<uint32_t>(shapes.size()), lists.names.data(),
                        lists.offsets.data(), lists.extents.data(), out);
  }
  int CreateOfType(const std::map<std::string, int>& types, PredictorHandle* out) const {
    ShapeLists lists(shapes);
    std::vector<const char*> names;
    std::vector<int> numbers;
    for (const auto& [name, number] : types) {
      names.push_back(name.c_str());
      numbers.push_back(number);
    }
    return MXPredCreateEx(json.c_str(), parameters.data(), static_cast<int>(parameters.size()), 1,
                          0, static_cast<uint32_t>(shapes.size()), lists.names.data(),
                          lists.offsets.data(), lists.extents.data(),
                          static_cast<uint32_t>(names.size()), names.data(), numbers.data(), out);
  }
  int CreatePartial(std::vector<const char*> outputs, PredictorHandle* out) const {
    ShapeLists lists(shapes);
    return MXPredCreatePartialOut(
        json.c_str(), parameters.data(), static_cast<int>(parameters.size()), 1, 0,
        static_cast<uint32_t>(shapes.size()), lists.names.data(), lists.offsets.data(),
        lists.extents.data(), static_cast<uint32_t>(outputs.size()), outputs.data(), out);
  }
};

Owned MakePredictor(const Network& network = {}) {
  PredictorHandle handle = nullptr;
  Check(network.Create(&handle));
  return {handle, MXPredFree};
}

std::vector<uint32_t> OutputShape(PredictorHandle predictor, uint32_t index = 0) {
  uint32_t* extents = nullptr;
  uint32_t rank = 0;
  Check(MXPredGetOutputShape(predictor, index, &extents, &rank));
  return {extents, extents + rank};
}

std::vector<float> Output(PredictorHandle predictor, uint32_t index = 0) {
  uint32_t size = 1;
  for (const uint32_t extent : OutputShape(predictor, index)) size *= extent;
  std::vector<float> values(size);
  Check(MXPredGetOutput(predictor, index, values.data(), size));
  return values;
}

int SetData(PredictorHandle predictor, const std::vector<float>& values,
            const char* name = "data") {
  return MXPredSetInput(predictor, name, values.data(), static_cast<uint32_t>(values.size()));
}

std::vector<float> Predict(PredictorHandle predictor, const std::vector<float>& values) {
  Check(SetData(predictor, values));
  Check(MXPredForward(predictor));
  return Output(predictor);
}

TEST(PredictTest, ANetworkPredicts) {
  const Owned predictor = MakePredictor();
  EXPECT_THAT(OutputShape(predictor.get()), ElementsAre(1, 2));
  int type = -1;
  Check(MXPredGetOutputType(predictor.get(), 0, &type));
  EXPECT_EQ(type, 0);
  EXPECT_THAT(Predict(predictor.get(), {1, 1, 1}), ElementsAre(7, 0));
  EXPECT_THAT(Predict(predictor.get(), {100, 0, 0}), ElementsAre(101, 300));
}

TEST(PredictTest, WrongInputsAndOutputsAreErrors) {
  const Owned predictor = MakePredictor();
  void* const handle = predictor.get();
  EXPECT_THAT(ErrorOf(SetData(handle, {1, 1})), HasSubstr("input data: the client's memory has 2"));
  EXPECT_THAT(ErrorOf(SetData(handle, {1}, "dat")), HasSubstr("no input \"dat\""));
  EXPECT_THAT(ErrorOf(MXPredSetInput(handle, "data", nullptr, 3)), HasSubstr("null pointer"));
  float values[3] = {};
  EXPECT_THAT(ErrorOf(MXPredGetOutput(handle, 0, values, 3)), HasSubstr("output 0: the client's"));
  EXPECT_THAT(ErrorOf(MXPredGetOutput(handle, 1, values, 2)), HasSubstr("there are 1"));
  EXPECT_THAT(ErrorOf(MXPredForward(values)), HasSubstr("no handle of a Predictor"));
  int left = 0;
  EXPECT_THAT(ErrorOf(MXPredPartialForward(handle, -1, &left)), HasSubstr("step -1"));
}

TEST(PredictTest, NetworksThatDoNotFitAreErrors) {
  PredictorHandle out = nullptr;
  EXPECT_THAT(ErrorOf(Network{.shapes = {}}.Create(&out)), HasSubstr("data"));
  EXPECT_THAT(ErrorOf(Network{.shapes = {{"data", {1, 4}}}}.Create(&out)), HasSubstr("fc_weight"));
  EXPECT_THAT(ErrorOf(Network{.json = "{"}.Create(&out)), HasSubstr("JSON"));
  EXPECT_THAT(ErrorOf(Network{.parameters = "no file"}.Create(&out)), HasSubstr("magic"));
  EXPECT_THAT(ErrorOf(Network().CreatePartial({"conv"}, &out)), HasSubstr("conv_output"));
  EXPECT_THAT(ErrorOf(Network().CreateOfType({{"data", 99}}, &out)), HasSubstr("99"));
  EXPECT_THAT(ErrorOf(MXPredCreate("{}", nullptr, -1, 1, 0, 0, nullptr, nullptr, nullptr, &out)),
              HasSubstr("param_size is -1"));
  // Half-precision parameters need half-precision inputs.
  EXPECT_THAT(ErrorOf(Network{.parameters = Parameters("float16")}.Create(&out)),
              HasSubstr("float16"));
}

TEST(PredictTest, InputsThatTheNetworkLacksAreIgnored) {
  // MXNet does so: programs name labels that the saved network does not have.
  const Network network{.shapes = {{"data", {1, 3}}, {"softmax_label", {1}}}};
  const Owned predictor = MakePredictor(network);
  EXPECT_THAT(Predict(predictor.get(), {1, 1, 1}), ElementsAre(7, 0));
}

TEST(PredictTest, InternalResultsMayBeOutputs) {
  PredictorHandle handle = nullptr;
  Check(Network().CreatePartial({"fc", "act_output"}, &handle));
  const Owned predictor(handle, MXPredFree);
  EXPECT_THAT(Predict(handle, {1, 1, 1}), ElementsAre(7, -85));
  EXPECT_THAT(Output(handle, 1), ElementsAre(7, 0));
}

TEST(PredictTest, OtherTypesAreCopiedAsTheyAre) {
  PredictorHandle handle = nullptr;
  Check(Network{.parameters = Parameters("float64")}.CreateOfType({{"data", 1}}, &handle));
  const Owned predictor(handle, MXPredFree);
  int type = -1;
  Check(MXPredGetOutputType(handle, 0, &type));
  EXPECT_EQ(type, 1);
  // The API declares floats, whatever the type is.
  const double input[3] = {1, 1, 1};
  double output[2] = {};
  Check(MXPredSetInput(handle, "data", reinterpret_cast<const float*>(input), 3));
  Check(MXPredForward(handle));
  Check(MXPredGetOutput(handle, 0, reinterpret_cast<float*>(output), 2));
  EXPECT_THAT(output, ElementsAre(7, 0));
}

TEST(PredictTest, HalfPrecisionTakesTwoBytesAnElement) {
  PredictorHandle handle = nullptr;
  Check(Network{.parameters = Parameters("float16")}.CreateOfType({{"data", 2}}, &handle));
  const Owned predictor(handle, MXPredFree);
  // Exact heap blocks, past whose ends AddressSanitizer sees.
  const std::vector<uint16_t> input(3, 0x3c00);
  std::vector<uint16_t> output(2);
  Check(MXPredSetInput(handle, "data", reinterpret_cast<const float*>(input.data()), 3));
  Check(MXPredForward(handle));
  Check(MXPredGetOutput(handle, 0, reinterpret_cast<float*>(output.data()), 2));
  EXPECT_THAT(output, ElementsAre(0x4700, 0));
}

TEST(PredictTest, AReshapedPredictorLeavesTheFirstAlone) {
  const Owned predictor = MakePredictor();
  const Shapes shapes = {{"data", {2, 3}}};
  ShapeLists lists(shapes);
  PredictorHandle handle = nullptr;
  Check(MXPredReshape(1, lists.names.data(), lists.offsets.data(), lists.extents.data(),
                      predictor.get(), &handle));
  const Owned larger(handle, MXPredFree);
  EXPECT_THAT(OutputShape(handle), ElementsAre(2, 2));
  EXPECT_THAT(Predict(handle, {1, 1, 1, 100, 0, 0}), ElementsAre(7, 0, 101, 300));
  EXPECT_THAT(Predict(predictor.get(), {1, 1, 1}), ElementsAre(7, 0));
  const Shapes wrong = {{"data", {2, 4}}};
  ShapeLists wrong_lists(wrong);
  EXPECT_THAT(ErrorOf(MXPredReshape(1, wrong_lists.names.data(), wrong_lists.offsets.data(),
                                    wrong_lists.extents.data(), predictor.get(), &handle)),
              HasSubstr("fc_weight"));
}

TEST(PredictTest, StepsRunOneByOne) {
  const Owned predictor = MakePredictor();
  Check(SetData(predictor.get(), {1, 1, 1}));
  int left = 1, steps = 0;
  for (; left != 0; ++steps) Check(MXPredPartialForward(predictor.get(), steps, &left));
  EXPECT_THAT(Output(predictor.get()), ElementsAre(7, 0));
  EXPECT_GE(steps, 1);
}

TEST(PredictTest, ThreadsPredictWithPredictorsOfTheirOwn) {
  constexpr int kThreads = 4;
  const Network network;
  ShapeLists lists(network.shapes);
  std::vector<PredictorHandle> handles(kThreads, nullptr);
  Check(MXPredCreateMultiThread(network.json.c_str(), network.parameters.data(),
                                static_cast<int>(network.parameters.size()), 1, 0, 1,
                                lists.names.data(), lists.offsets.data(), lists.extents.data(),
                                kThreads, handles.data()));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      void* const handle = handles[static_cast<size_t>(t)];
      for (int i = 0; i < 20; ++i) {
        const float x = static_cast<float>(100 + 20 * t + i);
        EXPECT_THAT(Predict(handle, {x, 0, 0}), ElementsAre(x + 1, 4 * x - 100));
      }
      Check(MXPredFree(handle));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ErrorOf(MXPredFree(handles[0])), HasSubstr("no handle of a Predictor"));
  EXPECT_THAT(ErrorOf(MXPredCreateMultiThread("{}", nullptr, 0, 1, 0, 0, nullptr, nullptr, nullptr,
                                              -1, handles.data())),
              HasSubstr("num_threads is -1"));
}

/// The values that a monitor has seen, and the call that it makes of the predictor.
struct Seen {
  PredictorHandle predictor = nullptr;
  std::map<std::string, std::vector<float>> arrays = {};
  std::string error = {};
};

void Note(const char* name, NDArrayHandle array, void* data) {
  auto* const seen = static_cast<Seen*>(data);
  const Owned owned(array, MXNDArrayFree);
  seen->arrays[name] = ValuesOf(array);
  OutputShape(seen->predictor);
  seen->error = ErrorOf(MXPredForward(seen->predictor));
}

TEST(PredictTest, AMonitorSeesResultsAndMayNotRunThePredictor) {
  const Owned predictor = MakePredictor();
  Seen seen{.predictor = predictor.get()};
  Check(MXPredSetMonitorCallback(predictor.get(), Note, &seen, true));
  Check(SetData(predictor.get(), {1, 1, 1}));
  uint32_t* extents = nullptr;
  uint32_t rank = 0;
  Check(MXPredGetOutputShape(predictor.get(), 0, &extents, &rank));
  Check(MXPredForward(predictor.get()));
  EXPECT_THAT(std::vector<uint32_t>(extents, extents + rank), ElementsAre(1, 2));
  EXPECT_THAT(Output(predictor.get()), ElementsAre(7, 0));
  EXPECT_THAT(seen.arrays["fc_output"], ElementsAre(7, -85));
  EXPECT_THAT(seen.arrays["act_output"], ElementsAre(7, 0));
  EXPECT_THAT(seen.arrays["data"], ElementsAre(1, 1, 1));
  EXPECT_THAT(seen.arrays["fc_data"], ElementsAre(1, 1, 1));
  EXPECT_THAT(seen.arrays["act_input0"], ElementsAre(7, -85));
  EXPECT_THAT(seen.error, HasSubstr("runs in another call"));
  seen.arrays.clear();
  Check(MXPredSetMonitorCallback(predictor.get(), nullptr, nullptr, false));
  EXPECT_THAT(Predict(predictor.get(), {1, 1, 1}), ElementsAre(7, 0));
  EXPECT_TRUE(seen.arrays.empty());
}

TEST(PredictTest, ListsOfArraysAreRead) {
  const Owned a = MakeArray({1, 2, 3, 4}, {2, 2}), b = MakeArray({5, 6}, {2});
  const auto integers = Call("Cast", {b.get()}, {{"dtype", "int32"}});
  const std::string file = ParamsFile({{"a", a.get()}, {"b", integers[0].get()}});
  NDListHandle handle = nullptr;
  uint32_t length = 0;
  Check(MXNDListCreate(file.data(), static_cast<int>(file.size()), &handle, &length));
  ASSERT_EQ(length, 2u);
  const char* key = nullptr;
  const float* data = nullptr;
  const uint32_t* shape = nullptr;
  uint32_t rank = 0;
  Check(MXNDListGet(handle, 0, &key, &data, &shape, &rank));
  EXPECT_STREQ(key, "a");
  EXPECT_THAT(std::vector<uint32_t>(shape, shape + rank), ElementsAre(2, 2));
  EXPECT_THAT(std::vector<float>(data, data + 4), ElementsAre(1, 2, 3, 4));
  Check(MXNDListGet(handle, 1, &key, &data, &shape, &rank));
  EXPECT_STREQ(key, "b");
  EXPECT_THAT(std::vector<float>(data, data + 2), ElementsAre(5, 6));
  EXPECT_THAT(ErrorOf(MXNDListGet(handle, 2, &key, &data, &shape, &rank)),
              HasSubstr("there are 2"));
  Check(MXNDListFree(handle));
  EXPECT_THAT(ErrorOf(MXNDListGet(handle, 0, &key, &data, &shape, &rank)),
              HasSubstr("no handle of an NDList"));
  EXPECT_THAT(ErrorOf(MXNDListCreate(file.data(), -1, &handle, &length)), HasSubstr("is -1"));
}

}  // namespace
}  // namespace tessera::mxnet
