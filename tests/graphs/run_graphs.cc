// Loads every graph of a folder, saves it and loads it again, and runs it on random weights:
//
//   run_graphs FOLDER [--filter=REGEX] [--shape=FILE:SHAPE]… [--at-least=N]
//
// FOLDER holds *-symbol.json and, optionally, graphs.tsv, whose lines tell of each file: `input`
// and `input_shape`, and what MXNet 1.9.1 infers from them: `parameters`, `aux_parameters` (numbers
// of elements; inputs and labels do not count) and `output_shapes`. Graphs with such a line are
// inferred, bound and run forward; no output may have a NaN, and small graphs must give the same
// results before and after saving. --shape replaces the input's shape in
// graphs.tsv, where a graph needs another one: MXNet infers a Reshape to a shape of another number
// of elements, and then reads memory that is not the array's. Prints a line for each graph and the
// sums. Exits with 1 if a graph does not load and survive saving, or if fewer than N run.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

/// A line of graphs.tsv: column name to text.
using Published = std::map<std::string, std::string>;

/// Returns the lines of graphs.tsv by file name; none if the folder has no such file.
std::map<std::string, Published> ReadPublished(const std::filesystem::path& folder) {
  std::map<std::string, Published> published;
  std::ifstream file(folder / "graphs.tsv");
  const auto split = [](const std::string& line) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
    return fields;
  };
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> columns = split(line);
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split(line);
    Published row;
    for (size_t i = 0; i < fields.size() && i < columns.size(); ++i) row[columns[i]] = fields[i];
    published[row["file"]] = row;
  }
  return published;
}

TShape ToShape(const nlohmann::json& extents) {
  const std::vector<index_t> values = extents;
  return TShape(std::span<const index_t>(values));
}

bool IsLabel(const std::string& name) { return name.find("label") != name.npos; }

/// Throws Error(kInternal) unless the graph infers what is published.
void CheckShapes(const Symbol& symbol, const Published& published) {
  const std::string& input = published.at("input");
  const TShape input_shape = ToShape(nlohmann::json::parse(published.at("input_shape")));
  const InferredShapes shapes = symbol.InferShape({{input, input_shape}});
  std::vector<TShape> expected;
  for (const nlohmann::json& extents : nlohmann::json::parse(published.at("output_shapes"))) {
    expected.push_back(ToShape(extents));
  }
  const auto check = [](const auto& found, const auto& wanted, const char* what) {
    if (found != wanted) throw Internal("inferred ", what, " ", found, ", published ", wanted);
  };
  check(shapes.outputs.size(), expected.size(), "number of outputs");
  for (size_t i = 0; i < expected.size(); ++i) check(shapes.outputs[i], expected[i], "output");
  if (!shapes.complete) throw Internal("some shape stays unknown");
  index_t parameters = 0, aux_parameters = 0;
  const std::vector<std::string> names = symbol.ListArguments();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != input && !IsLabel(names[i])) parameters += shapes.arguments[i].Size();
  }
  for (const TShape& shape : shapes.aux_states) aux_parameters += shape.Size();
  check(parameters, std::stoll(published.at("parameters")), "number of parameters");
  check(aux_parameters, std::stoll(published.at("aux_parameters")), "number of aux parameters");
}

/// Fills an array with numbers that keep the values of a network in range: weights by the number of
/// inputs that they sum, scales and variances near 1, others near 0.
void FillRandomly(const std::string& name, NDArray array, std::mt19937* random) {
  if (IsLabel(name)) return;  // zeros
  double center = 0, spread = 0.1;
  if (name.ends_with("var") || name.ends_with("gamma")) {
    center = 1;
  } else if (array.shape().ndim() >= 2) {
    const TShape& shape = array.shape();
    spread = std::sqrt(3.0 /
                       static_cast<double>(std::max<index_t>(1, shape.ProdShape(1, shape.ndim()))));
  }
  std::uniform_real_distribution<float> uniform(static_cast<float>(center - spread),
                                                static_cast<float>(center + spread));
  std::vector<float> values(static_cast<size_t>(array.shape().Size()));
  for (float& value : values) value = uniform(*random);
  const NDArray filled = NDArray::FromVector(values, array.shape());
  CopyFromTo(Invoke("Cast", {filled}, {{"dtype", std::string(DTypeName(array.dtype()))}})[0],
             array);
}

/// Binds the graph to random arrays, runs it forward and returns its outputs. Throws
/// Error(kInternal) for a NaN.
std::vector<std::vector<float>> Run(const Symbol& symbol, const Published& published) {
  const std::string& input = published.at("input");
  const auto executor =
      SimpleBind(symbol, Device::Cpu(),
                 {.shapes = {{input, ToShape(nlohmann::json::parse(published.at("input_shape")))}},
                  .grad_req = kNullOp});
  std::mt19937 random(1);
  for (const auto& [name, array] : executor->arg_dict()) FillRandomly(name, array, &random);
  for (const auto& [name, array] : executor->aux_dict()) FillRandomly(name, array, &random);
  executor->Forward(/*is_train=*/false);
  const std::vector<std::string> names = symbol.ListOutputs();
  std::vector<std::vector<float>> outputs;
  for (size_t i = 0; i < names.size(); ++i) {
    const NDArray& output = executor->outputs()[i];
    std::vector<float> values(static_cast<size_t>(output.shape().Size()));
    Invoke("Cast", {output}, {{"dtype", "float32"}})[0].SyncCopyToCPU(values.data(),
                                                                      output.shape().Size());
    const auto is_nan = [](float value) { return std::isnan(value); };
    if (std::any_of(values.begin(), values.end(), is_nan)) {
      throw Internal("output ", names[i], " has a NaN");
    }
    outputs.push_back(std::move(values));
  }
  return outputs;
}

/// The outcome of one graph: for each stage "yes", "no", or "-" where it was not tried.
struct Outcome {
  std::string loads = "no", saves = "-", shapes = "-", runs = "-";
  std::string reason;           ///< empty if nothing failed
  bool lacks_operator = false;  ///< whether the reason is an operator that does not exist
};

Outcome Try(const std::filesystem::path& path, const Published* published) {
  Outcome outcome;
  std::string* stage = &outcome.loads;
  const auto begin = [&](std::string* next) {
    *stage = "yes";
    stage = next;
    *stage = "no";
  };
  try {
    const Symbol symbol = Symbol::Load(path);
    begin(&outcome.saves);
    const std::string saved = symbol.ToJson();
    const Symbol again = Symbol::FromJson(saved);
    if (again.ToJson() != saved || again.ListArguments() != symbol.ListArguments() ||
        again.ListAuxiliaryStates() != symbol.ListAuxiliaryStates() ||
        again.ListOutputs() != symbol.ListOutputs()) {
      throw Internal("the saved graph differs");
    }
    if (published != nullptr) {
      begin(&outcome.shapes);
      CheckShapes(symbol, *published);
      begin(&outcome.runs);
      const auto outputs = Run(again, *published);
      // The large ones are run once, since they take most of the time.
      const bool is_small = std::stoll(published->at("parameters")) < 5000000;
      if (is_small && Run(symbol, *published) != outputs) {
        throw Internal("the saved graph gives other results");
      }
    }
    *stage = "yes";
  } catch (const Error& error) {
    outcome.reason = error.what();
    outcome.lacks_operator = error.code() == Error::kNotFound;
  }
  return outcome;
}

int Main(int argc, char** argv) {
  CLI::App app("Loads, saves and runs the graphs of a folder.", "run_graphs");
  std::filesystem::path folder;
  std::string filter = ".*";
  std::vector<std::string> shapes;
  int at_least = 0;
  app.add_option("folder", folder, "folder of *-symbol.json and graphs.tsv")->required();
  app.add_option("--filter", filter, "regular expression for the file names");
  app.add_option("--shape", shapes, "FILE:SHAPE, an input's shape, such as x.json:[1,3,640,640]");
  app.add_option("--at-least", at_least, "number of graphs that must run");
  CLI11_PARSE(app, argc, argv);

  std::map<std::string, Published> published = ReadPublished(folder);
  for (const std::string& text : shapes) {
    const size_t colon = text.find(':');
    published[text.substr(0, colon)]["input_shape"] = text.substr(colon + 1);
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.ends_with("-symbol.json") && std::regex_search(name, std::regex(filter))) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());

  int loaded = 0, saved = 0, inferred = 0, ran = 0, tried = 0, lack_operators = 0, failed = 0;
  std::cout << "graph                     loads saves shapes runs reason\n" << std::left;
  for (const std::filesystem::path& path : paths) {
    const auto found = published.find(path.filename());
    const bool has_shapes = found != published.end() && found->second.contains("output_shapes");
    const Outcome outcome = Try(path, has_shapes ? &found->second : nullptr);
    std::cout << std::setw(25) << path.filename().string() << " " << std::setw(6) << outcome.loads
              << std::setw(6) << outcome.saves << std::setw(7) << outcome.shapes << std::setw(5)
              << outcome.runs << outcome.reason << std::endl;
    loaded += outcome.loads == "yes";
    saved += outcome.saves == "yes";
    inferred += outcome.shapes == "yes";
    ran += outcome.runs == "yes";
    tried += has_shapes;
    if (!outcome.reason.empty()) ++(outcome.lacks_operator ? lack_operators : failed);
  }
  std::cout << "graphs: " << paths.size() << ", loaded " << loaded << ", saved " << saved
            << "; with published shapes: " << tried << ", inferred " << inferred << ", ran " << ran
            << "; failed by a missing operator: " << lack_operators << ", otherwise: " << failed
            << "\n";
  const bool all_kept = saved == static_cast<int>(paths.size());
  return all_kept && !paths.empty() && ran >= at_least ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
