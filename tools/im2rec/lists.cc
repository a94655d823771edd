#include "tessera/tools/im2rec/lists.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"

namespace tessera::im2rec {
namespace {

namespace fs = std::filesystem;

std::string InLowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Calls visit(entry) for each entry of a folder, or of all folders below it.
template <typename Iterator, typename Visit>
void ForEachEntry(const fs::path& folder, const Visit& visit) {
  std::error_code failed;
  for (Iterator at(folder, fs::directory_options::follow_directory_symlink, failed), end;
       !failed && at != end; at.increment(failed)) {
    visit(*at);
  }
  if (failed) {
    throw FailedPrecondition(folder.string(), ": the folder cannot be read: ", failed.message());
  }
}

void WriteList(const std::string& path, std::span<const ListedImage> images) {
  AtomicFile file(path, "im2rec");
  for (const ListedImage& image : images) {
    const std::string line = FormatListedImage(image);
    file.Write(line.data(), static_cast<int64_t>(line.size()));
  }
  file.Commit();
}

}  // namespace

std::vector<ListedImage> FindImages(const Options& options) {
  const fs::path root = options.root;
  std::error_code unknown;
  if (!fs::is_directory(root, unknown)) throw NotFound(options.root, ": there is no such folder");
  std::vector<std::string> paths;
  const auto visit = [&](const fs::directory_entry& entry) {
    std::error_code failed;
    if (!entry.is_regular_file(failed)) return;
    const std::string ending = InLowerCase(entry.path().extension().string());
    if (std::ranges::find(options.exts, ending) == options.exts.end()) return;
    paths.push_back(entry.path().lexically_relative(root).generic_string());
  };
  if (options.recursive) {
    ForEachEntry<fs::recursive_directory_iterator>(root, visit);
  } else {
    ForEachEntry<fs::directory_iterator>(root, visit);
  }
  if (paths.empty()) throw NotFound(options.root, ": has no images");
  std::ranges::sort(paths);
  std::map<std::string, float> labels;
  for (const std::string& path : paths) labels[fs::path(path).parent_path().generic_string()] = 0;
  float next = 0;
  for (auto& [folder, label] : labels) label = next++;
  std::vector<ListedImage> images;
  for (std::string& path : paths) {
    const float label = labels[fs::path(path).parent_path().generic_string()];
    images.push_back({.id = images.size(), .label = {label}, .path = std::move(path)});
  }
  return images;
}

std::vector<std::string> WriteLists(const Options& options) {
  std::vector<ListedImage> images = FindImages(options);
  if (!options.no_shuffle) {
    // Always the same order, and not std::shuffle, which differs between standard libraries.
    std::mt19937_64 random(100);
    for (size_t i = images.size(); i > 1; --i) std::swap(images[i - 1], images[random() % i]);
  }
  std::vector<std::string> names;
  const auto chunks = static_cast<size_t>(options.chunks);
  for (size_t i = 0; i < chunks; ++i) {
    const size_t begin = images.size() * i / chunks, end = images.size() * (i + 1) / chunks;
    std::span<const ListedImage> chunk = std::span(images).subspan(begin, end - begin);
    const std::string prefix = options.prefix + (chunks > 1 ? "_" + std::to_string(i) : "");
    const auto count = [size = chunk.size()](double ratio) {
      return static_cast<size_t>(std::floor(static_cast<double>(size) * ratio + 1e-9));
    };
    const size_t train = count(options.train_ratio), test = count(options.test_ratio);
    if (options.train_ratio == 1) {
      names.push_back(prefix + ".lst");
      WriteList(names.back(), chunk);
      continue;
    }
    const std::pair<const char*, std::span<const ListedImage>> parts[] = {
        {"_test.lst", chunk.first(test)},
        {"_train.lst", chunk.subspan(test, train)},
        {"_val.lst", chunk.subspan(test + train)}};
    for (const auto& [ending, part] : parts) {
      if (part.empty()) continue;
      names.push_back(prefix + ending);
      WriteList(names.back(), part);
    }
  }
  return names;
}

std::vector<std::string> FindLists(const Options& options) {
  const fs::path prefix = options.prefix;
  const fs::path folder = prefix.has_parent_path() ? prefix.parent_path() : fs::path(".");
  const std::string beginning = prefix.filename().string();
  std::vector<std::string> lists;
  ForEachEntry<fs::directory_iterator>(folder, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(beginning) || entry.path().extension() != ".lst") return;
    lists.push_back((prefix.parent_path() / name).string());
  });
  if (lists.empty()) {
    throw NotFound(options.prefix, "*.lst: there is no such list; --list makes one");
  }
  std::ranges::sort(lists);
  return lists;
}

}  // namespace tessera::im2rec
