// A program that knows nothing of engines: loads the plugin named by its argument, uses it and
// closes it, several times.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  alarm(120);
  for (int i = 0; argc > 1 && i < 20; ++i) {
    void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    const auto run = reinterpret_cast<int (*)()>(dlsym(plugin, "RunPlugin"));
    if (run == nullptr || run() != 200) return 2;
    if (dlclose(plugin) != 0) return 3;
  }
  return 0;
}
