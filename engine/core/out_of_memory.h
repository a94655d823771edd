#ifndef TESSERA_ENGINE_CORE_OUT_OF_MEMORY_H_
#define TESSERA_ENGINE_CORE_OUT_OF_MEMORY_H_

#include <cstdio>
#include <exception>
#include <new>

namespace tessera::engine_internal {

/// Returns what fn() returns. Ends the process with a line on stderr if fn() finds no memory: for
/// what follows on a push, where nobody is left to throw to. Other exceptions of fn() pass.
template <typename Fn>
auto OrTerminate(const Fn& fn) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    std::fputs("tessera engine: no memory to go on with an operation that was pushed\n", stderr);
    std::terminate();
  }
}

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_OUT_OF_MEMORY_H_
