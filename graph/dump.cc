#include "tessera/graph/dump.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::graph {
namespace {

constexpr char kSetting[] = "TESSERA_DUMP_GRAPH";

Error CannotWrite(const std::string& path, const std::string& reason) {
  return FailedPrecondition("environment variable ", kSetting, ": cannot write \"", Excerpt(path),
                            "\": ", reason);
}

}  // namespace

GraphDump::GraphDump() {
  const std::string folder = EnvironmentString("TESSERA_DUMP_GRAPH", "");
  if (folder.empty()) return;
  static std::atomic<int> num_graphs = 0;
  folder_ = absl::StrCat(folder, "/graph_", num_graphs++);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw CannotWrite(folder_, error.message());
}

void GraphDump::Write(std::string_view pass, const std::vector<NodeEntry>& heads,
                      const TextNotes& notes) {
  if (!enabled()) return;
  const std::string path = absl::StrFormat("%s/%02d_%s", folder_, next_++, std::string(pass));
  WriteFile(path + ".txt", ToText(heads, notes));
  WriteFile(path + ".dot", ToGraphviz(heads, notes));
}

void GraphDump::WriteFile(const std::string& path, const std::string& text) const {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw CannotWrite(path, errno == 0 ? "unknown reason" : std::strerror(errno));
}

}  // namespace tessera::graph
