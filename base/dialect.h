#ifndef TESSERA_BASE_DIALECT_H_
#define TESSERA_BASE_DIALECT_H_

// Every public header reaches this before anything that is not C++17, so that a compiler's first
// word is what to do.
static_assert(
    __cplusplus >= 202002L,
    "Tessera needs C++20: add --cxxopt=-std=c++20 (and --host_cxxopt=-std=c++20) to .bazelrc");

#endif  // TESSERA_BASE_DIALECT_H_
