#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/safetensors.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ops/parameter.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {
namespace {

bool IsSafetensors(std::string_view path) { return path.ends_with(".safetensors"); }

std::map<std::string, NDArray> ReadFile(const std::string& path) {
  if (!IsSafetensors(path)) return LoadNDArrays(path);
  std::map<std::string, NDArray> arrays;
  for (NamedArray& named : LoadSafetensors(path).arrays) {
    arrays.emplace(std::move(named.name), std::move(named.array));
  }
  return arrays;
}

/// Returns whether the file has the parameter, which layers may share, under any of its names.
bool HasOtherName(const std::vector<NamedParameter>& parameters, const NamedParameter& named,
                  const std::map<std::string, NDArray>& arrays) {
  for (const NamedParameter& other : parameters) {
    if (other.parameter == named.parameter && arrays.contains(other.name)) return true;
  }
  return false;
}

std::string NearestHint(const std::string& name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : "; did you mean " + Excerpt(nearest) + "?";
}

}  // namespace

void Layer::SaveParameters(const std::string& path) const {
  std::map<std::string, NDArray> arrays;
  for (const NamedParameter& named : Parameters()) {
    arrays.emplace(named.name, named.parameter.Data());
  }
  if (!IsSafetensors(path)) return SaveNDArrays(path, arrays);
  Safetensors contents;
  for (const auto& [name, array] : arrays) contents.arrays.push_back({name, array});
  SaveSafetensors(path, contents);
}

void Layer::LoadParameters(const std::string& path, const LoadOptions& options) {
  SetAll(path, ReadFile(path), options);
}

std::map<std::string, NDArray> Layer::GetParams() const {
  std::map<std::string, NDArray> arrays;
  for (const NamedParameter& named : Parameters()) {
    arrays.emplace(named.name, named.parameter.Data().Copy(Device::Cpu()));
  }
  return arrays;
}

void Layer::SetParams(const std::map<std::string, NDArray>& arrays, const LoadOptions& options) {
  SetAll("Layer::SetParams", arrays, options);
}

/// Sets the parameters. `source` begins the errors.
void Layer::SetAll(const std::string& source, const std::map<std::string, NDArray>& arrays,
                   const LoadOptions& options) {
  std::vector<std::string> in_file;
  for (const auto& [name, array] : arrays) in_file.push_back(name);
  const std::vector<NamedParameter> parameters = Parameters();
  std::vector<std::string> known;
  std::map<std::string, NDArray> extra = arrays;
  for (const NamedParameter& named : parameters) {
    known.push_back(named.name);
    const auto found = arrays.find(named.name);
    if (found != arrays.end()) {
      named.parameter.CheckData(source + ": parameter " + Excerpt(named.name), found->second);
      extra.erase(named.name);
    } else if (!options.allow_missing && !HasOtherName(parameters, named, arrays)) {
      throw InvalidArgument(source, ": there is no parameter ", Excerpt(named.name),
                            NearestHint(named.name, in_file), "; there are: ", ListNames(in_file));
    }
  }
  if (!extra.empty() && !options.ignore_extra) {
    const std::string& name = extra.begin()->first;
    throw InvalidArgument(source, ": the network has no parameter ", Excerpt(name),
                          NearestHint(name, known), "; it has: ", ListNames(known));
  }
  for (const NamedParameter& named : parameters) {
    const auto found = arrays.find(named.name);
    if (found != arrays.end()) named.parameter.SetData(found->second, options.devices);
  }
}

}  // namespace tessera::nn
