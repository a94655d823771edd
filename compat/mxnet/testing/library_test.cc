// The shared library as a file: the names that it exports, and how it names itself.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera {
namespace {

constexpr const char* kLibrary = "compat/mxnet/libtessera_mxnet.so";
constexpr const char* kFunctions = "compat/mxnet/testing/functions.txt";

/// The sections of a file in the format ELF of 64 bits.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0) {
      throw std::runtime_error(path + " is no ELF file");
    }
    const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(bytes_.data());
    sections_ = Part<Elf64_Shdr>(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
  }

  /// Returns the entries of the section of that type, and the texts that they refer to.
  template <typename Entry>
  std::span<const Entry> Entries(uint32_t type, const char** texts) const {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != type) continue;
      *texts = bytes_.data() + sections_[section.sh_link].sh_offset;
      return Part<Entry>(section.sh_offset, section.sh_size);
    }
    throw std::runtime_error("there is no section of type " + std::to_string(type));
  }

 private:
  template <typename Entry>
  std::span<const Entry> Part(uint64_t offset, uint64_t size_bytes) const {
    if (offset + size_bytes > bytes_.size()) throw std::runtime_error("the file ends too early");
    return {reinterpret_cast<const Entry*>(bytes_.data() + offset), size_bytes / sizeof(Entry)};
  }

  std::vector<char> bytes_;
  std::span<const Elf64_Shdr> sections_;
};

std::set<std::string> Functions() {
  std::ifstream file(kFunctions);
  return {std::istream_iterator<std::string>(file), {}};
}

TEST(LibraryTest, ExportsTheFunctionsOfTheListAndNothingElse) {
  const ElfFile file(kLibrary);
  const char* texts = nullptr;
  std::set<std::string> exported;
  for (const Elf64_Sym& symbol : file.Entries<Elf64_Sym>(SHT_DYNSYM, &texts)) {
    const int binding = ELF64_ST_BIND(symbol.st_info);
    const std::string name = texts + symbol.st_name;
    if (symbol.st_shndx == SHN_UNDEF || binding == STB_LOCAL) continue;
    // Unique symbols ignore RTLD_LOCAL: a second library of such templates would share them.
    EXPECT_NE(binding, STB_GNU_UNIQUE) << name;
    EXPECT_EQ(ELF64_ST_TYPE(symbol.st_info), STT_FUNC) << name;
    exported.insert(name);
  }
  const std::set<std::string> functions = Functions();
  EXPECT_EQ(functions.size(), 299u);  // MXNet's 298, and one of ours
  EXPECT_EQ(exported, functions);
}

TEST(LibraryTest, HasANameWithAVersion) {
  const ElfFile file(kLibrary);
  const char* texts = nullptr;
  std::vector<std::string> names;
  for (const Elf64_Dyn& entry : file.Entries<Elf64_Dyn>(SHT_DYNAMIC, &texts)) {
    if (entry.d_tag == DT_SONAME) names.push_back(texts + entry.d_un.d_val);
  }
  EXPECT_EQ(names, std::vector<std::string>{"libtessera_mxnet.so.1"});
}

TEST(LibraryTest, EveryFunctionIsFoundAndTheListOfOperatorsIsWhole) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const std::string& name : Functions()) {
    EXPECT_NE(dlsym(library, name.c_str()), nullptr) << name;
    EXPECT_EQ(dlsym(RTLD_DEFAULT, name.c_str()), nullptr) << name;
  }
  using ListOperators = int (*)(uint32_t*, const char***);
  using GetInfo = int (*)(void*, const char**, const char**, uint32_t*, const char***,
                          const char***, const char***, const char**, const char**);
  using GetHandle = int (*)(const char*, void**);
  const auto list = reinterpret_cast<ListOperators>(dlsym(library, "MXListAllOpNames"));
  const auto get_handle = reinterpret_cast<GetHandle>(dlsym(library, "NNGetOpHandle"));
  const auto get_info = reinterpret_cast<GetInfo>(dlsym(library, "MXSymbolGetAtomicSymbolInfo"));
  uint32_t count = 0;
  const char** names = nullptr;
  ASSERT_EQ(list(&count, &names), 0);
  // MXNet has 1,167 names.
  EXPECT_GE(count, 1167u);
  uint32_t implemented = 0;
  for (uint32_t i = 0; i < count; ++i) {
    void* handle = nullptr;
    ASSERT_EQ(get_handle(names[i], &handle), 0) << names[i];
    const char *name, *description, *key, *type;
    const char **arguments, **types, **descriptions;
    uint32_t num_arguments = 0;
    ASSERT_EQ(get_info(handle, &name, &description, &num_arguments, &arguments, &types,
                       &descriptions, &key, &type),
              0);
    EXPECT_STREQ(name, names[i]);
    for (uint32_t k = 0; k < num_arguments; ++k) EXPECT_STRNE(types[k], "") << name;
    if (std::strncmp(description, "Not implemented", 15) != 0) ++implemented;
  }
  // Operators register themselves: a library that leaves objects out has none.
  EXPECT_GE(implemented, 300u);
}

/// Programs that write a function for each operator write one for Cast, and none for its alias
/// cast.
TEST(LibraryTest, OperatorsAreListedWithoutTheirAliases) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  using ListCreators = int (*)(uint32_t*, void***);
  using GetName = int (*)(void*, const char**);
  using ListNames = int (*)(uint32_t*, const char***);
  const auto list =
      reinterpret_cast<ListCreators>(dlsym(library, "MXSymbolListAtomicSymbolCreators"));
  const auto get_name = reinterpret_cast<GetName>(dlsym(library, "MXSymbolGetAtomicSymbolName"));
  const auto list_names = reinterpret_cast<ListNames>(dlsym(library, "NNListUniqueOps"));
  uint32_t count = 0, num_names = 0;
  void** creators = nullptr;
  const char** names = nullptr;
  ASSERT_EQ(list(&count, &creators), 0);
  ASSERT_EQ(list_names(&num_names, &names), 0);
  // MXNet has 886 operators of 1,167 names.
  EXPECT_GE(count, 886u);
  EXPECT_LT(count, 1167u);
  ASSERT_EQ(num_names, count);
  std::set<std::string> unique;
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    ASSERT_EQ(get_name(creators[i], &name), 0);
    EXPECT_STREQ(name, names[i]);
    unique.insert(name);
  }
  EXPECT_EQ(unique.size(), count);
  for (const char* one : {"Cast", "Pad", "Reshape", "elemwise_add"}) {
    EXPECT_EQ(unique.count(one), 1u) << one;
  }
  for (const char* alias : {"cast", "pad", "reshape", "_plus"}) {
    EXPECT_EQ(unique.count(alias), 0u) << alias;
  }
}

}  // namespace
}  // namespace tessera
