#ifndef TESSERA_COMPAT_MXNET_TESTING_CLIENT_H_
#define TESSERA_COMPAT_MXNET_TESTING_CLIENT_H_

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "mxnet/c_types.h"

// The client of a C API in a few lines of C++: what fails throws.
namespace tessera::mxnet {

/// Throws std::runtime_error with the library's message unless a function has returned 0.
void Check(int status);

/// Returns the library's message of a function that has failed. Throws std::runtime_error if it has
/// not.
std::string ErrorOf(int status);

/// A handle that is freed at the end of its scope.
class Owned {
 public:
  using Free = int (*)(void*);
  Owned(void* handle, Free free) : handle_(handle), free_(free) {}
  Owned(Owned&& other) noexcept : handle_(other.handle_), free_(other.free_) {
    other.handle_ = nullptr;
  }
  ~Owned() {
    if (handle_ != nullptr) free_(handle_);
  }
  Owned& operator=(Owned&&) = delete;

  void* get() const { return handle_; }

 private:
  void* handle_;
  Free free_;
};

/// Returns a float32 array on the CPU.
Owned MakeArray(const std::vector<float>& values, const std::vector<uint32_t>& shape);

/// Returns the elements of a float32 array.
std::vector<float> ValuesOf(NDArrayHandle array);

/// Returns the shape of an array.
std::vector<int> ShapeOf(NDArrayHandle array);

/// Calls an operator, and returns its results.
std::vector<Owned> Call(const std::string& op, const std::vector<NDArrayHandle>& inputs,
                        const std::map<std::string, std::string>& parameters = {});

/// Returns a symbol: a variable, and an operator on others.
Owned MakeVariable(const std::string& name);
Owned Apply(const std::string& op, const std::string& name, const std::vector<SymbolHandle>& inputs,
            const std::map<std::string, std::string>& parameters = {});

/// Returns the bytes of a `.params` file.
std::string ParamsFile(const std::map<std::string, NDArrayHandle>& arrays);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_TESTING_CLIENT_H_
