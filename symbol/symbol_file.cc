#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/graph/json.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

std::string Symbol::ToJson(bool numpy_shape) const {
  return graph::WriteJson(outputs_, numpy_shape);
}

Symbol Symbol::FromJson(std::string_view json) { return Symbol(graph::ReadJson(json)); }

void Symbol::Save(const std::string& path, bool numpy_shape) const {
  const std::string text = ToJson(numpy_shape);
  AtomicFile file(path, "Symbol::Save");
  file.Write(text.data(), static_cast<int64_t>(text.size()));
  file.Commit();
}

Symbol Symbol::Load(const std::string& path, std::string* contents) {
  const std::string name = "Symbol::Load: " + path;
  // The type is checked first, because opening a pipe without a writer would block.
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw NotFound(name, ": there is no such file");
  }
  if (failure) throw FailedPrecondition(name, ": ", failure.message());
  if (!std::filesystem::is_regular_file(status)) {
    throw FailedPrecondition(name, ": not an ordinary file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FailedPrecondition(name, ": cannot be opened: ", std::strerror(errno));
  // The size is only a hint: the file may grow. It is bounded, because a sparse file may state any.
  constexpr std::uintmax_t kMaxReserved = std::uintmax_t{1} << 30;
  const std::uintmax_t size_bytes = std::filesystem::file_size(path, failure);
  std::string text;
  if (!failure) text.reserve(static_cast<size_t>(std::min(size_bytes, kMaxReserved)));
  char block[4096];
  // Iterators are not used, because they would let the exception of a failed read through.
  while (file.read(block, sizeof(block)), file.gcount() > 0) {
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) {
    throw DataLoss(name, " cannot be read, expected a file with a saved network");
  }
  try {
    Symbol symbol = FromJson(text);
    if (contents != nullptr) *contents = std::move(text);
    return symbol;
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + error.what());
  }
}

}  // namespace tessera
