#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Symbol Network() {
  Symbol x = Symbol::Variable("data");
  x = Symbol::Apply("Convolution", {x},
                    {{"kernel", "(3,3)"}, {"num_filter", "4"}, {"pad", "(1,1)"}}, "conv");
  x = Symbol::Apply("Flatten", {x}, {}, "flat");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "3"}}, "fc");
  x.SetAttribute("lr_mult", "0.5");
  return Symbol::Apply("SoftmaxOutput", {x}, {{"grad_scale", "0.25"}}, "softmax");
}

TEST(SymbolJsonTest, ReadsWhatItWrites) {
  const std::string json = Network().ToJson();
  const Symbol back = Symbol::FromJson(json);
  EXPECT_EQ(back.ToJson(), json);
  EXPECT_EQ(back.ListArguments(), Network().ListArguments());
  EXPECT_EQ(back.InferShape({{"data", {2, 1, 8, 8}}}).arguments,
            Network().InferShape({{"data", {2, 1, 8, 8}}}).arguments);
  EXPECT_EQ(back.GetInternals()["fc_output"].GetAttribute("lr_mult"), "0.5");
}

TEST(SymbolJsonTest, ReadsTheFormatOf2016) {
  // Parameters under "param", two numbers an input, "backward_source_id".
  const Symbol symbol = Symbol::FromJson(R"({
    "nodes": [
      {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
      {"op": "null", "param": {}, "name": "fc_weight", "inputs": [], "backward_source_id": -1},
      {"op": "null", "param": {}, "name": "fc_bias", "inputs": [], "backward_source_id": -1},
      {"op": "FullyConnected", "param": {"num_hidden": "5", "no_bias": "False"}, "name": "fc",
       "inputs": [[0, 0], [1, 0], [2, 0]], "backward_source_id": -1,
       "attr": {"ctx_group": "stage1"}}],
    "arg_nodes": [0, 1, 2], "heads": [[3, 0]]})");
  EXPECT_THAT(symbol.ListArguments(), ElementsAre("data", "fc_weight", "fc_bias"));
  EXPECT_EQ(symbol.GetAttribute("ctx_group"), "stage1");
  EXPECT_EQ(symbol.InferShape({{"data", {4, 7}}}).outputs[0], (TShape{4, 5}));
}

/// A graph of data, fc_weight, fc_bias and a FullyConnected with the given fields.
Symbol OfFullyConnected(const std::string& fields) {
  return Symbol::FromJson(R"({"nodes": [{"op": "null", "name": "data", "inputs": []},
                                        {"op": "null", "name": "fc_weight", "inputs": []},
                                        {"op": "null", "name": "fc_bias", "inputs": []},
                                        {"op": "FullyConnected", "name": "fc",
                                         "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]], )" +
                          fields + R"(}], "arg_nodes": [0, 1, 2], "heads": [[3, 0, 0]]})");
}

TEST(SymbolJsonTest, AnnotationsOfEveryAgeAreNoParametersAndSurviveSaving) {
  const std::string annotations =
      R"("weight_lr_mult": "2.5", "bias_wd_mult": "0", "lr_mult": "0.3", "ctx_group": "a",
         "other_lr_mult": "7", "data_force_mirroring": "1", "__mine__": "m")";
  for (const std::string& fields : {
           R"("param": {"num_hidden": "4"}, "attr": {)" + annotations + "}",  // to 2016
           R"("attr": {"num_hidden": "4", )" + annotations + "}",
           R"("attrs": {"num_hidden": "4", )" + annotations + "}",
       }) {
    Symbol symbol = OfFullyConnected(fields);
    for (int round = 0; round < 2; ++round) {
      const Symbol internals = symbol.GetInternals();
      EXPECT_EQ(symbol.InferShape({{"data", {2, 3}}}).outputs[0], (TShape{2, 4}));
      EXPECT_EQ(internals["fc_weight"].GetAttribute("lr_mult"), "2.5") << fields;
      EXPECT_EQ(internals["fc_weight"].GetAttribute("__lr_mult__"), "2.5");
      EXPECT_EQ(internals["fc_bias"].GetAttribute("wd_mult"), "0");
      EXPECT_EQ(internals["data"].GetAttribute("force_mirroring"), "1");
      EXPECT_EQ(symbol.GetAttribute("lr_mult"), "0.3");
      EXPECT_EQ(symbol.GetAttribute("ctx_group"), "a");
      EXPECT_EQ(symbol.GetAttribute("other_lr_mult"), "7");
      EXPECT_EQ(symbol.GetAttribute("mine"), "m");
      EXPECT_FALSE(symbol.GetAttribute("weight_lr_mult").has_value());
      symbol = Symbol::FromJson(symbol.ToJson());
    }
  }
}

TEST(SymbolJsonTest, AnAnnotationForAnArgumentThatIsNoVariableStaysWithTheNode) {
  const Symbol symbol = Symbol::FromJson(R"({"nodes": [
      {"op": "null", "name": "x", "inputs": []},
      {"op": "Flatten", "name": "flat", "inputs": [[0, 0, 0]]},
      {"op": "Flatten", "name": "flat2", "inputs": [[1, 0, 0]], "attrs": {"data_lr_mult": "3"}}],
      "heads": [[2, 0, 0]]})");
  EXPECT_EQ(symbol.GetAttribute("data_lr_mult"), "3");
  EXPECT_EQ(Symbol::FromJson(symbol.ToJson()).GetAttribute("data_lr_mult"), "3");
}

TEST(SymbolJsonTest, ParametersThatMxnetCopiesToVariablesStateNothing) {
  const Symbol symbol = Symbol::FromJson(R"json({"nodes": [
      {"op": "null", "name": "x", "inputs": [],
       "attrs": {"shape": "(0, -1)", "dtype": "float32", "__shape__": "(2, 3)"
}
},
      {"op": "Flatten", "name": "flat", "inputs": [[0, 0, 0]]}], "heads": [[1, 0, 0]]
})json");
  for (const Symbol& each : {symbol, Symbol::FromJson(symbol.ToJson())}) {
    EXPECT_EQ(each.InferShape({}).outputs[0], (TShape{2, 3}));
    EXPECT_EQ(each.InferType({}).outputs[0], DType::kFloat32);
    EXPECT_EQ(each.GetInternals()["x"].GetAttribute("shape"), "(0, -1)");
    EXPECT_EQ(each.GetInternals()["x"].GetAttribute("__shape__"), "(2, 3)");
  }
}

TEST(SymbolJsonTest, AttributesOfAnyNameSurviveSaving) {
  for (const std::string name :
       {"lr_mult", "weight_lr_mult", "num_hidden", "unheard_of", "a b", "", "_", "__", "___",
        "____", "_____", "__a__", "____a____", "__a", "a__", "shape_of_things"}) {
    Symbol variable = Symbol::Variable("x");
    variable.SetAttribute(name, "of the variable");
    Symbol symbol = Symbol::Apply("FullyConnected", {variable}, {{"num_hidden", "3"}}, "fc");
    symbol.SetAttribute(name, "of the node");
    const Symbol back = Symbol::FromJson(symbol.ToJson());
    EXPECT_EQ(back.GetAttribute(name), "of the node") << name;
    EXPECT_EQ(back.GetInternals()["x"].GetAttribute(name), "of the variable") << name;
    EXPECT_EQ(back.ToJson(), symbol.ToJson());
    EXPECT_EQ(back.InferShape({{"x", {2, 3}}}).outputs[0], (TShape{2, 3})) << name;
  }
}

TEST(SymbolJsonTest, DamagedGraphsAreErrorsThatSayWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not JSON"},
      {"[]", "not a JSON object"},
      {"{}", "\"nodes\""},
      {R"({"nodes": 3})", "\"nodes\""},
      {R"({"nodes": []})", "\"heads\""},
      {R"({"nodes": [], "heads": []})", "\"heads\""},
      {R"({"nodes": [], "heads": [[0, 0, 0]]})", "[0, 0)"},
      {R"({"nodes": [{"op": "null"}], "heads": []})", "\"name\""},
      {R"({"nodes": [{"op": "Flatten", "name": "f", "inputs": [[0, 0, 0]]}], "heads": []})",
       "node 0 (f)"},
      {R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
                     {"op": "Flatten", "name": "f", "inputs": [[0, 7, 0]]}], "heads": []})",
       "node 1 (f)"},
      {R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
                     {"op": "Flatten", "name": "f", "inputs": []}], "heads": []})",
       "0 inputs"},
      {R"({"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[-1, 0, 0]]})", "-1"},
      {R"({"nodes": [{"op": "null", "name": "x", "inputs": [], "attrs": {"a": 1}}],
           "heads": [[0, 0, 0]]})",
       "not a string"},
  };
  for (const auto& [json, words] : cases) {
    try {
      Symbol::FromJson(json);
      ADD_FAILURE() << json;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

TEST(SymbolJsonTest, EveryTruncationIsAnErrorAndNothingWorse) {
  const std::string json = Network().ToJson();
  const size_t end = json.find_last_of('}');
  for (size_t size = 0; size < end; ++size) {
    EXPECT_THROW(Symbol::FromJson(json.substr(0, size)), Error) << size;
  }
}

TEST(SymbolJsonTest, UnknownOperatorsKeepTheirOwnError) {
  try {
    Symbol::FromJson(R"({"nodes": [{"op": "Convolutoin", "name": "c", "inputs": []}],
                         "heads": [[0, 0, 0]]})");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kNotFound);
    EXPECT_STREQ(error.what(),
                 "node \"c\": unknown operator \"Convolutoin\"; did you mean \"Convolution\"?");
  }
}

TEST(SymbolJsonTest, AllUnknownOperatorsAreToldAtOnce) {
  try {
    Symbol::FromJson(R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
        {"op": "BatchNorm", "name": "bn1", "inputs": [[0, 0, 0]]},
        {"op": "Flatten", "name": "flat", "inputs": [[0, 0, 0]]},
        {"op": "BatchNorm", "name": "bn2", "inputs": [[2, 0, 0]]},
        {"op": "softmax", "name": "prob", "inputs": [[3, 0, 0]]},
        {"op": "Poolin", "name": "pool", "inputs": [[4, 0, 0]]}],
        "heads": [[5, 0, 0]]})");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kNotFound);
    EXPECT_STREQ(error.what(),
                 "node \"bn1\": operator \"BatchNorm\" of MXNet is not implemented; "
                 "node \"prob\": operator \"softmax\" of MXNet is not implemented; "
                 "node \"pool\": unknown operator \"Poolin\"; did you mean \"Pooling\"?");
  }
}

TEST(SymbolJsonTest, ErrorsAboutParametersNameTheNode) {
  try {
    OfFullyConnected(R"("attrs": {"num_hidden": "4", "num_hiden": "4"})");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("node \"fc\": FullyConnected: unknown parameter"));
  }
}

TEST(SymbolJsonTest, NamesThatAreNoUtf8AreRefused) {
  try {
    Symbol::Variable("\xff").ToJson();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("not UTF-8"));
  }
}

TEST(SymbolJsonTest, FilesAreNamedInErrors) {
  const std::string path = testing::TempDir() + "/symbol_json_test.json";
  Network().Save(path);
  EXPECT_EQ(Symbol::Load(path).ToJson(), Network().ToJson());
  std::ofstream(path, std::ios::app) << "x";
  // A pipe to which nobody writes, and a folder, are no files.
  const std::string pipe = testing::TempDir() + "/symbol_json_test_pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [bad, code] : std::initializer_list<std::pair<std::string, absl::StatusCode>>{
           {path, Error::kDataLoss},
           {testing::TempDir() + "/no_such_file.json", Error::kNotFound},
           {path + "/below_a_file.json", Error::kNotFound},
           {pipe, Error::kFailedPrecondition},
           {testing::TempDir(), Error::kFailedPrecondition}}) {
    try {
      Symbol::Load(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(bad));
    }
  }
  EXPECT_THROW(Network().Save(testing::TempDir() + "/no_such_folder/x.json"), Error);
}

}  // namespace
}  // namespace tessera
