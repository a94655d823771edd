#include "tessera/compat/mxnet/testing/client.h"

#include <fstream>
#include <iterator>

#include "gtest/gtest.h"
#include "mxnet/c_api.h"

namespace tessera::mxnet {
namespace {

/// The keys and values of parameters as the API takes them.
struct Texts {
  explicit Texts(const std::map<std::string, std::string>& parameters) {
    for (const auto& [key, value] : parameters) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  }

  std::vector<const char*> keys;
  std::vector<const char*> values;
};

void* FindOperator(const std::string& name) {
  void* op = nullptr;
  Check(NNGetOpHandle(name.c_str(), &op));
  return op;
}

}  // namespace

void Check(int status) {
  if (status != 0) throw std::runtime_error(MXGetLastError());
}

std::string ErrorOf(int status) {
  if (status != -1) throw std::runtime_error("the function has not failed");
  return MXGetLastError();
}

Owned MakeArray(const std::vector<float>& values, const std::vector<uint32_t>& shape) {
  NDArrayHandle handle = nullptr;
  Check(MXNDArrayCreate(shape.data(), static_cast<uint32_t>(shape.size()), 1, 0, 0, &handle));
  Owned array(handle, MXNDArrayFree);
  Check(MXNDArraySyncCopyFromCPU(handle, values.data(), values.size()));
  return array;
}

std::vector<int> ShapeOf(NDArrayHandle array) {
  int rank = 0;
  const int* extents = nullptr;
  Check(MXNDArrayGetShapeEx(array, &rank, &extents));
  return {extents, extents + rank};
}

std::vector<float> ValuesOf(NDArrayHandle array) {
  size_t size = 1;
  for (const int extent : ShapeOf(array)) size *= static_cast<size_t>(extent);
  std::vector<float> values(size);
  Check(MXNDArraySyncCopyToCPU(array, values.data(), size));
  return values;
}

std::vector<Owned> Call(const std::string& op, const std::vector<NDArrayHandle>& inputs,
                        const std::map<std::string, std::string>& parameters) {
  Texts texts(parameters);
  std::vector<NDArrayHandle> handles = inputs;
  int num_outputs = 0;
  NDArrayHandle* outputs = nullptr;
  const int* storage_types = nullptr;
  Check(MXImperativeInvokeEx(FindOperator(op), static_cast<int>(handles.size()), handles.data(),
                             &num_outputs, &outputs, static_cast<int>(texts.keys.size()),
                             texts.keys.data(), texts.values.data(), &storage_types));
  std::vector<Owned> results;
  for (int i = 0; i < num_outputs; ++i) results.emplace_back(outputs[i], MXNDArrayFree);
  return results;
}

Owned MakeVariable(const std::string& name) {
  SymbolHandle symbol = nullptr;
  Check(MXSymbolCreateVariable(name.c_str(), &symbol));
  return {symbol, MXSymbolFree};
}

Owned Apply(const std::string& op, const std::string& name, const std::vector<SymbolHandle>& inputs,
            const std::map<std::string, std::string>& parameters) {
  Texts texts(parameters);
  SymbolHandle symbol = nullptr;
  Check(MXSymbolCreateAtomicSymbol(FindOperator(op), static_cast<uint32_t>(texts.keys.size()),
                                   texts.keys.data(), texts.values.data(), &symbol));
  Owned result(symbol, MXSymbolFree);
  std::vector<SymbolHandle> handles = inputs;
  Check(MXSymbolCompose(symbol, name.c_str(), static_cast<uint32_t>(handles.size()), nullptr,
                        handles.data()));
  return result;
}

std::string ParamsFile(const std::map<std::string, NDArrayHandle>& arrays) {
  std::vector<const char*> names;
  std::vector<NDArrayHandle> handles;
  for (const auto& [name, handle] : arrays) {
    names.push_back(name.c_str());
    handles.push_back(handle);
  }
  const std::string path = ::testing::TempDir() + "/client.params";
  Check(MXNDArraySave(path.c_str(), static_cast<uint32_t>(handles.size()), handles.data(),
                      names.data()));
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace tessera::mxnet
