#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

// The sizes of all memory that operator new has given out and of the most at one time.
std::atomic<int64_t> live_bytes = 0;
std::atomic<int64_t> peak_bytes = 0;

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
    // Without underscores, this is the operator's parameter.
    const std::string key = name == "num_hidden" ? "__num_hidden__" : name;
    symbol.SetAttribute(key, "of the node");
    const Symbol back = Symbol::FromJson(symbol.ToJson());
    EXPECT_EQ(back.GetAttribute(key), "of the node") << name;
    EXPECT_EQ(back.GetInternals()["x"].GetAttribute(name), "of the variable") << name;
    EXPECT_EQ(back.ToJson(), symbol.ToJson());
    EXPECT_EQ(back.InferShape({{"x", {2, 3}}}).outputs[0], (TShape{2, 3})) << name;
  }
}

TEST(SymbolJsonTest, OperatorsWithoutParametersKeepTheTextsThatTheyIgnore) {
  for (const auto& [op, inputs] : {std::pair<std::string, std::string>("relu", "[[0, 0, 0]]"),
                                   {"elemwise_add", "[[0, 0, 0], [0, 0, 0]]"}}) {
    Symbol symbol = Symbol::FromJson(
        R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": ")" + op +
        R"(", "name": "f", "inputs": )" + inputs +
        R"(, "attrs": {"axis": "0", "my key": "mine", "__note__": "n", "shape": "[7]"}}],
            "heads": [[1, 0, 0]]})");
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(symbol.GetAttribute("axis"), "0") << op;
      EXPECT_EQ(symbol.GetAttribute("my key"), "mine") << op;
      EXPECT_EQ(symbol.GetAttribute("__note__"), "n") << op;
      EXPECT_EQ(symbol.ListAttributes()["my key"], "mine") << op;
      EXPECT_EQ(symbol.ListAttributesRecursive()["f$axis"], "0") << op;
      EXPECT_EQ(symbol.InferShape({{"x", {2, 3}}}).outputs[0], (TShape{2, 3})) << op;
      symbol = Symbol::FromJson(symbol.Copy().ToJson());
    }
    symbol.SetAttribute("axis", "1");
    EXPECT_EQ(symbol.GetAttribute("axis"), "1") << op;
    EXPECT_EQ(Symbol::FromJson(symbol.ToJson()).GetAttribute("axis"), "1") << op;
    // What a program writes itself is an error.
    EXPECT_THROW(Symbol::Apply(op, {symbol}, {{"my key", "mine"}}), Error) << op;
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
                     {"op": "Flatten", "name": "f", "inputs": []}],
           "attrs": {"mxnet_version": ["int", 900]}, "heads": []})",
       "0 inputs"},
      {R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
                     {"op": "Flatten", "name": "f", "inputs": [[0, 0], [0, 0]]}], "heads": []})",
       "2 inputs"},
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

TEST(SymbolJsonTest, FilesBeforeVersion0Point9MayLeaveVariablesOut) {
  const std::string nodes = R"({"nodes": [{"op": "null", "name": "data", "inputs": []},
      {"op": "FullyConnected", "name": "fc", "param": {"num_hidden": "4"}, "inputs": [[0, 0]]},
      {"op": "FullyConnected", "name": "", "param": {"num_hidden": "4"}, "inputs": [[1, 0]]}],
      "heads": [[2, 0]])";
  for (const std::string& version :
       {std::string(), std::string(R"(, "attrs": {})"),
        std::string(R"(, "attrs": {"mxnet_version": ["int", 804]})")}) {
    const Symbol symbol = Symbol::FromJson(nodes + version + "}");
    EXPECT_THAT(symbol.ListArguments(),
                ElementsAre("data", "fc_weight", "fc_bias", "weight", "bias"));
    EXPECT_EQ(symbol.InferShape({{"data", {2, 3}}}).arguments[1], (TShape{4, 3}));
  }
  try {
    Symbol::FromJson(nodes + R"(, "attrs": {"mxnet_version": ["int", 10901]}})");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("node 1 (fc) has 1 inputs"));
  }
}

// As MXNet 1.9.1 upgrades such a graph, except that it copies parameters to the variables too.
TEST(SymbolJsonTest, VariablesThatOldFilesLeaveOutHaveTheNodesAttributes) {
  const Symbol symbol = Symbol::FromJson(R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
      {"op": "null", "name": "g", "inputs": []}, {"op": "null", "name": "b", "inputs": []},
      {"op": "BatchNorm", "name": "bn", "param": {"eps": "0.1"}, "inputs": [[0, 0], [1, 0], [2, 0]],
       "attr": {"lr_mult": "2", "gamma_wd_mult": "3", "ctx_group": "q"}}], "heads": [[3, 0]]})");
  EXPECT_THAT(symbol.ListAuxiliaryStates(), ElementsAre("bn_moving_mean", "bn_moving_var"));
  const Symbol inputs = symbol.GetInputs();
  EXPECT_EQ(inputs["g"].GetAttribute("wd_mult"), "3");
  EXPECT_EQ(inputs["bn_moving_mean"].GetAttribute("ctx_group"), "q");
  EXPECT_EQ(inputs["bn_moving_mean"].GetAttribute("__init__"), "[\"zero\", {}]");
  EXPECT_EQ(inputs["bn_moving_var"].GetAttribute("lr_mult"), "2");
  EXPECT_EQ(symbol.GetAttribute("eps"), "0.1");
}

/// A graph of x and a node f with the given operator and further fields.
std::string OneOperator(const std::string& op, const std::string& fields) {
  return R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
                       {"op": ")" +
         op + R"(", "name": "f", "inputs": [[0, 0, 0]])" + fields + R"(}], "heads": [[1, 0, 0]]})";
}

TEST(SymbolJsonTest, ControlDependenciesAreNotIgnored) {
  EXPECT_FALSE(Symbol::FromJson(OneOperator("Flatten", R"(, "control_deps": [])")).is_none());
  try {
    Symbol::FromJson(OneOperator("Flatten", R"(, "control_deps": [0])"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("node 1 (f) has \"control_deps"));
  }
}

TEST(SymbolJsonTest, SubgraphsSurviveSavingAndAreNotRun) {
  // A subgraph that has a node of subgraphs too.
  const std::string inner = R"({"nodes": [{"op": "null", "name": "y", "inputs": []},
      {"op": "Flatten", "name": "flat", "inputs": [[0, 0, 0]], "attrs": {"__note__": "inner"}}],
      "arg_nodes": [0], "heads": [[1, 0, 0]]})";
  const std::string body = R"({"nodes": [{"op": "null", "name": "y", "inputs": []},
      {"op": "Activation", "name": "act", "inputs": [[0, 0, 0]], "attrs": {"act_type": "tanh"},
       "subgraphs": [)" + inner +
                           R"(]}], "arg_nodes": [0], "heads": [[1, 0, 0], [0, 0, 0]]})";
  for (const std::string op : {"_contrib_dgl_subgraph", "Flatten"}) {
    Symbol symbol =
        Symbol::FromJson(OneOperator(op, R"(, "subgraphs": [)" + body + ", " + inner + "]"));
    const std::string saved = symbol.ToJson();
    EXPECT_THAT(saved, HasSubstr("\"act_type\": \"tanh\""));
    EXPECT_THAT(saved, HasSubstr("\"__note__\": \"inner\""));
    symbol = Symbol::FromJson(saved);
    EXPECT_EQ(symbol.ToJson(), saved);
    EXPECT_THAT(symbol.ListArguments(), ElementsAre("x"));
    const auto& subgraphs = symbol.outputs()[0].node->subgraphs;
    ASSERT_EQ(subgraphs.size(), 2u);
    EXPECT_EQ(subgraphs[0].size(), 2u);
    EXPECT_EQ(subgraphs[0][0].node->subgraphs.size(), 1u);
    try {
      symbol.InferShape({{"x", {2, 3}}});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(
          error.what(),
          op == "_contrib_dgl_subgraph"
              ? "node \"f\": operator \"_contrib_dgl_subgraph\" of MXNet is not implemented"
              : "node \"f\": operator Flatten holds subgraphs, which are "
                "not implemented");
    }
  }
}

TEST(SymbolJsonTest, DamagedSubgraphsAreErrorsThatSayWhere) {
  for (const auto& [subgraphs, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {"3", "node 1 (f): \"subgraphs\" is not an array"},
           {"[3]", "node \"f\", subgraph 0: symbol JSON: the text is not a JSON object"},
           {R"([{"nodes": []}])", "has no \"heads\""},
           {R"([{"nodes": [{"op": "null", "name": "y", "inputs": []}], "heads": [[1, 0, 0]]}])",
            "[0, 1)"}}) {
    try {
      Symbol::FromJson(OneOperator("_foreach", std::string(R"(, "subgraphs": )") + subgraphs));
      ADD_FAILURE() << subgraphs;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

TEST(SymbolJsonTest, FilesInThePlaceOfGraphsAreRecognized) {
  for (const auto& [text, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "Git LFS pointer"},
           {"<!DOCTYPE html>\n<html>", "HTML page"}}) {
    try {
      Symbol::FromJson(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kDataLoss);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

std::string Repeat(const std::string& text, int64_t count) {
  std::string repeated;
  for (int64_t i = 0; i < count; ++i) repeated += text;
  return repeated;
}

/// A graph of one variable with the given fields in its node and in the graph.
std::string OneVariable(const std::string& node_field, const std::string& graph_field) {
  return R"({"nodes": [{"op": "null", "name": "x", "inputs": [])" + node_field +
         R"(}], "heads": [[0, 0, 0]])" + graph_field + "}";
}

TEST(SymbolJsonTest, NestingIsLimitedInEveryField) {
  const auto nested = [](int64_t depth) { return Repeat("[", depth) + Repeat("]", depth); };
  const auto objects = [](int64_t depth) {
    return Repeat("{\"a\": ", depth) + "1" + Repeat("}", depth);
  };
  // Fields that nobody reads may be nested as deeply as the limit allows.
  EXPECT_FALSE(Symbol::FromJson(OneVariable("", ", \"new\": " + nested(63))).is_none());
  EXPECT_FALSE(Symbol::FromJson(OneVariable(", \"new\": " + objects(61), "")).is_none());
  for (const std::string& value : {nested(100000), objects(100000), Repeat("[", 1000000)}) {
    std::vector<std::string> texts = {value};
    for (const char* key : {"op", "name", "inputs", "attrs", "attr", "param", "subgraphs", "new"}) {
      texts.push_back(OneVariable(", \"" + std::string(key) + "\": " + value, ""));
    }
    for (const char* key : {"nodes", "heads", "attrs", "new"}) {
      texts.push_back(OneVariable("", ", \"" + std::string(key) + "\": " + value));
    }
    for (const std::string& text : texts) {
      try {
        Symbol::FromJson(text);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Error::kDataLoss);
        EXPECT_THAT(error.what(), HasSubstr("nested deeper than 64"));
      }
    }
  }
}

TEST(SymbolJsonTest, ObjectsOfManyKeysTakeLinearTime) {
  std::string keys;
  for (int i = 0; i < 100000; ++i) {
    keys += (i == 0 ? "\"key" : ", \"key") + std::to_string(i) + "\": \"1\"";
  }
  const Symbol symbol = Symbol::FromJson(
      OneVariable(", \"attrs\": {" + keys + "}", ", " + keys + ", \"new\": {" + keys + "}"));
  EXPECT_EQ(symbol.GetAttribute("key99999"), "1");
  EXPECT_EQ(Symbol::FromJson(symbol.ToJson()).GetAttribute("key99999"), "1");
  EXPECT_THROW(OfFullyConnected("\"attrs\": {" + keys + "}"), Error);
}

TEST(SymbolJsonTest, MessagesQuoteLongTextsInPartAndListTenNames) {
  const std::string text(1000000, 'n');
  const std::string name = "\"" + text + "\"";
  std::string unknown = R"({"nodes": [)";
  std::string heads;
  for (int i = 0; i < 1000; ++i) {
    heads += (i == 0 ? "[" : ", [") + std::to_string(i) + ", 0]";
    unknown += (i == 0 ? "" : ",") +
               (R"({"inputs": [], "name": "n", "op": "Op)" + text.substr(0, 300)) +
               std::to_string(i) + "\"}";
  }
  for (const std::string& json :
       {text, name, "[" + Repeat("1,", 100000), OneVariable(", \"op\": " + name, ""),
        OneVariable(", \"attrs\": {" + name + ": 1}", ""),
        OneVariable(", \"name\": " + name + ", \"attrs\": 1", ""),
        OneVariable(", \"inputs\": [[" + name + ", 0, 0]]", ""),
        OneVariable("", ", \"heads\": [[" + name + ", 0, 0]]"),
        OneVariable("", ", \"heads\": [[0, " + Repeat("9", 100000) + "]]"),
        OneVariable("", ", \"heads\": [" + name + "]"),
        unknown + "], \"heads\": [" + heads + "]}"}) {
    try {
      Symbol::FromJson(json).InferShape({});
      ADD_FAILURE() << json.substr(0, 100);
    } catch (const Error& error) {
      EXPECT_LT(std::string(error.what()).size(), 4000u) << json.substr(0, 100);
    }
  }
  for (const auto& [fields, words] : std::initializer_list<std::pair<std::string, const char*>>{
           {"\"attrs\": {\"num_hidden\": \"" + text + "\"}", "num_hidden"},
           {"\"attrs\": {\"num_hidden\": \"3\", \"" + text + "\": \"1\"}", "unknown parameter"},
           {"\"attrs\": {\"num_hidden\": \"3\"}, \"inputs\": [" + Repeat("[0, 0],", 100000) +
                "[0, 0]]",
            "100001 inputs"}}) {
    try {
      OfFullyConnected(fields);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_LT(std::string(error.what()).size(), 1000u);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

/// The largest size of live memory while `run` runs, beyond what it leaves behind.
template <typename Run>
int64_t PeakBytes(const Run& run) {
  const int64_t before = live_bytes;
  peak_bytes = before;
  const auto kept = run();
  return peak_bytes - std::max<int64_t>(live_bytes, before);
}

TEST(SymbolJsonTest, ReadingTakesNoMemoryBeyondTheGraph) {
  constexpr int64_t kBytes = 1 << 20;
  constexpr int64_t kSmall = 1 << 18;
  const auto peak = [](const std::string& json) {
    return PeakBytes([&] {
      try {
        return Symbol::FromJson(json);
      } catch (const Error&) {
        return Symbol();
      }
    });
  };
  const std::string open = OneVariable("", ", \"new\": [");
  for (const std::string& unit :
       {std::string("[],"), std::string("{},"), std::string("1,"), std::string("\"\","),
        std::string("\n"), std::string("[0,0],"), std::string("{\"a\":[]},")}) {
    const std::string many = Repeat(unit, kBytes / static_cast<int64_t>(unit.size()));
    for (const std::string& json :
         {many, "[" + many, "[" + many + "1]", OneVariable("", ", \"new\": [" + many + "1]"),
          OneVariable(", \"inputs\": [" + many + "[0,0]]", ""), "{\"nodes\": [" + many + "1]}",
          OneVariable("", ", \"heads\": [" + many + "{}]")}) {
      // Nodes and heads before an error are the graph so far.
      const bool is_graph = unit == "[0,0]," && json.find("heads") != json.npos;
      EXPECT_LT(peak(json), is_graph ? 16 * kBytes : kSmall) << json.substr(0, 60);
    }
  }
  // Texts are held once, while they are decoded.
  EXPECT_LT(peak(OneVariable(", \"name\": \"" + std::string(kBytes, 'n') + "\"", "")),
            4 * kBytes + kSmall);
  EXPECT_LT(peak(OneVariable(", \"attrs\": {\"" + std::string(kBytes, 'n') + "\": 1}", "")),
            4 * kBytes + kSmall);
}

TEST(SymbolJsonTest, EveryTruncationIsAnErrorAndNothingWorse) {
  const std::string json = Network().ToJson();
  const size_t end = json.find_last_of('}');
  for (size_t size = 0; size < end; ++size) {
    EXPECT_THROW(Symbol::FromJson(json.substr(0, size)), Error) << size;
  }
}

TEST(SymbolJsonTest, UnknownOperatorsAreLoadedAndSaved) {
  // Operators of MXNet with fixed, optional and counted inputs, and one that it never had.
  const Symbol symbol =
      Symbol::FromJson(R"json({"nodes": [{"op": "null", "name": "a", "inputs": []},
      {"op": "null", "name": "b", "inputs": []},
      {"op": "null", "name": "label", "inputs": []},
      {"op": "_contrib_edge_id", "name": "rows", "inputs": [[0, 0, 0], [1, 0, 0], [1, 0, 0]],
       "attrs": {"limit": "3", "u_lr_mult": "2", "__mine__": "m"}},
      {"op": "_contrib_quantized_rnn", "name": "cells",
       "inputs": [[3, 0, 0], [2, 0, 0], [1, 0, 0], [0, 0, 0]], "attrs": {}},
      {"op": "Custom", "name": "custom", "inputs": [[4, 1, 0], [3, 0, 0]],
       "attrs": {"op_type": "proposal", "scales": "(4, 8)"}},
      {"op": "NobodyHadThis", "name": "new", "inputs": [[5, 0, 0], [5, 2, 0]],
       "attrs": {"alpha": "0.5"}}],
      "heads": [[6, 0, 0], [5, 1, 0]]})json");
  for (const Symbol& each : {symbol, Symbol::FromJson(symbol.ToJson())}) {
    EXPECT_EQ(each.ToJson(), symbol.ToJson());
    EXPECT_THAT(each.ListArguments(), ElementsAre("a", "b", "label"));
    EXPECT_THAT(each.ListOutputs(), ElementsAre("new_output", "custom_output1"));
    const Symbol internals = each.GetInternals();
    EXPECT_EQ(internals["b"].GetAttribute("lr_mult"), "2");
    EXPECT_EQ(internals["rows_output"].GetAttribute("mine"), "m");
    const auto property = [&](std::string_view output) {
      return internals[output].outputs()[0].node->property;
    };
    EXPECT_THAT(property("rows_output")->ListArguments(), ElementsAre("data", "u", "v"));
    EXPECT_THAT(property("cells_output0")->ListArguments(),
                ElementsAre("data", "parameters", "state", "state_cell"));
    EXPECT_THAT(property("custom_output2")->ListArguments(), ElementsAre("arg0", "arg1"));
    EXPECT_THAT(property("new_output")->ListArguments(), ElementsAre("arg0", "arg1"));
    EXPECT_EQ(property("custom_output2")->GetParams(),
              (ParameterMap{{"op_type", "proposal"}, {"scales", "(4, 8)"}}));
  }
}

TEST(SymbolJsonTest, OutputsOfUnknownOperatorsAreLimited) {
  const auto with_output = [](const std::string& output) {
    return R"({"nodes": [{"op": "NobodyHadThis", "name": "n", "inputs": []}], "heads": [[0, )" +
           output + ", 0]]}";
  };
  EXPECT_THAT(Symbol::FromJson(with_output("999")).ListOutputs(), ElementsAre("n_output999"));
  EXPECT_THROW(Symbol::FromJson(with_output("1000")), Error);
}

TEST(SymbolJsonTest, AShortTextCannotStateManyInputsOrOutputs) {
  const auto refusal = [](const std::string& nodes) -> std::string {
    try {
      Symbol::FromJson(R"({"nodes": [{"op": "null", "name": "x", "inputs": []})" + nodes +
                       R"(], "heads": [[0, 0]]})");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(R"(, {"op": "Concat", "name": "c", "attrs": {"num_args": "1048576"},)"
                      R"( "inputs": [[0, 0]]})"),
              AllOf(HasSubstr("node 1 (c)"), HasSubstr("1 inputs"), HasSubstr("1048576")));
  std::string split;
  for (int i = 0; i < 12; ++i) {
    split += R"(, {"op": "SliceChannel", "name": "s", "attrs": {"num_outputs": "100000"},)"
             R"( "inputs": [[0, 0]]})";
  }
  EXPECT_THAT(refusal(split), AllOf(HasSubstr("node 11 (s)"), HasSubstr("more than 1048576")));
}

TEST(SymbolJsonTest, InferenceNamesAllUnknownOperatorsAtOnce) {
  const Symbol symbol = Symbol::FromJson(R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
      {"op": "Custom", "name": "custom1", "inputs": [[0, 0, 0]]},
      {"op": "Flatten", "name": "flat", "inputs": [[0, 0, 0]]},
      {"op": "Custom", "name": "custom2", "inputs": [[1, 0, 0], [2, 0, 0]]},
      {"op": "_contrib_quantized_rnn", "name": "rnn", "inputs": [[3, 0, 0]]},
      {"op": "Convolutoin", "name": "c", "inputs": [[4, 0, 0]]}],
      "heads": [[5, 0, 0]]})");
  const auto expect_error = [](const auto& infer) {
    try {
      infer();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kNotFound);
      EXPECT_STREQ(error.what(),
                   "node \"custom1\": operator \"Custom\" of MXNet is not implemented; "
                   "node \"rnn\": operator \"_contrib_quantized_rnn\" of MXNet is not implemented; "
                   "node \"c\": unknown operator \"Convolutoin\"; did you mean \"Convolution\"?");
    }
  };
  expect_error([&] { symbol.InferShape({{"x", {2, 3}}}); });
  expect_error([&] { symbol.InferType({}); });
}

TEST(SymbolJsonTest, ParametersOfOldVersionsAreUpgraded) {
  const auto graph = [](const std::string& op, const std::string& attrs, int version) {
    return Symbol::FromJson(R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": ")" +
                            op + R"(", "name": "f", "inputs": [[0, 0, 0]], "attr": {)" + attrs +
                            R"(}}], "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", )" +
                            std::to_string(version) + "]}}");
  };
  // Intel's builds wrote how to compute.
  EXPECT_EQ(graph("Flatten", R"("mkldnn_off": "True")", 904).ListArguments().size(), 1u);
  // The axis -1 once stood for all axes.
  for (const char* op : {"argmax", "argmin"}) {
    const auto axis = [&](int version) {
      const Symbol symbol = graph(op, R"("axis": "-1")", version);
      const ParameterMap parameters = symbol.outputs()[0].node->property->GetParams();
      const auto found = parameters.find("axis");
      return found == parameters.end() ? "None" : found->second;
    };
    EXPECT_EQ(axis(904), "None");
    EXPECT_EQ(axis(905), "-1");
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

TEST(SymbolJsonTest, TellsHowShapesAreWritten) {
  const Symbol x = Symbol::Variable("x", {{"__shape__", "(-1, 3)"}});
  EXPECT_THAT(x.ToJson(), testing::Not(HasSubstr("is_np_shape")));
  const std::string json = x.ToJson(/*numpy_shape=*/true);
  EXPECT_THAT(json, HasSubstr(R"("is_np_shape": ["int", 1])"));
  const Symbol again = Symbol::FromJson(json);
  EXPECT_EQ(again.ToJson(true), json);
  EXPECT_EQ((again + Symbol::Variable("y")).InferShape({{"y", {2, 3}}}).arguments[0],
            (TShape{2, 3}));
}

}  // namespace
}  // namespace tessera

// The global operators, which count.
void* operator new(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const int64_t live = tessera::live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  if (live > tessera::peak_bytes) tessera::peak_bytes = live;
  return memory;
}
void operator delete(void* memory) noexcept {
  tessera::live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
