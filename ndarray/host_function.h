#ifndef TESSERA_NDARRAY_HOST_FUNCTION_H_
#define TESSERA_NDARRAY_HOST_FUNCTION_H_

#include <functional>
#include <source_location>
#include <span>
#include <string_view>

#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// Pushes a function of one's own that reads and writes arrays in host memory, and returns at once.
/// A worker thread of the engine calls it, in order with all other operations on the arrays, and
/// it reaches their elements by NDArray::data(). Their elements live until it has returned.
/// `name` appears in errors and traces.
///
/// An exception of the function surfaces as that of any operation: at the first wait for an array
/// that it writes, or that depends on one. If an array that it reads carries an error, the function
/// is not called.
///
/// Throws Error(kInvalidArgument) that names the array's position, and pushes nothing, if an array
/// is none or lies on a GPU. Thread-safe.
void PushHostFunction(std::function<void()> function, std::span<const NDArray> reads,
                      std::span<const NDArray> writes, std::string_view name,
                      std::source_location site = std::source_location::current());

}  // namespace tessera

#endif  // TESSERA_NDARRAY_HOST_FUNCTION_H_
