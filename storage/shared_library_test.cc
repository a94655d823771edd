// Loads a library that contains storage into a program that does not contain Tessera. Any other
// program can load the library, too.

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <iostream>
#include <thread>

#include "gtest/gtest.h"

namespace {

constexpr char kLibrary[] = "storage/testing/storage_plugin.so";

/// The maximum of thread-local memory that docs/storage.md states.
constexpr size_t kMostThreadLocalBytes = 256;

/// Returns the size of the library's thread-local memory, 0 if it has none or is not loaded.
size_t ThreadLocalBytes(const char* library) {
  struct Search {
    const char* library;
    size_t bytes = 0;
  } search = {library};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* const found = static_cast<Search*>(data);
        if (std::strstr(info->dlpi_name, found->library) == nullptr) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type == PT_TLS) found->bytes = info->dlpi_phdr[i].p_memsz;
        }
        return 1;
      },
      &search);
  return search.bytes;
}

TEST(SharedLibraryTest, WorksInARunningProgramAndTakesLittleThreadLocalMemory) {
  EXPECT_EQ(ThreadLocalBytes(kLibrary), 0u);
  // Threads that started before the library was loaded need room for it, too.
  void* library = nullptr;
  std::thread([&] { library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL); }).join();
  ASSERT_NE(library, nullptr) << dlerror();
  const auto use = reinterpret_cast<int (*)()>(dlsym(library, "UseStorage"));
  ASSERT_NE(use, nullptr);
  EXPECT_EQ(use(), 100);
  std::thread([use] { EXPECT_EQ(use(), 100); }).join();
  const size_t bytes = ThreadLocalBytes(kLibrary);
  std::cout << "thread-local bytes " << bytes << "\n";
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, kMostThreadLocalBytes);
}

}  // namespace
