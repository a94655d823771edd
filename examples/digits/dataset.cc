#include "tessera/examples/digits/dataset.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/examples/digits/network.h"

namespace tessera::digits {
namespace {

namespace fs = std::filesystem;

constexpr char kTrainImages[] = "train-images-idx3-ubyte";

/// Where Bazel may have put the runfiles of this program.
std::vector<fs::path> RunfilesRoots() {
  std::vector<fs::path> roots;
  for (const char* name : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    if (const char* const folder = std::getenv(name)) roots.emplace_back(folder);
  }
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) roots.emplace_back(program.string() + ".runfiles");
  return roots;
}

}  // namespace

std::string BundledDigits() {
  const fs::path data = fs::path("examples") / "digits" / "data";
  std::vector<fs::path> folders;
  for (const fs::path& root : RunfilesRoots()) {
    // The repository's name among the runfiles: in a WORKSPACE, as a main module, as another's.
    for (const char* repository : {"tessera", "_main", "tessera~", "tessera+"}) {
      folders.push_back(root / repository / data);
    }
  }
  folders.push_back(data);  // from the repository's root
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / kTrainImages, ignored)) return folder.string();
  }
  throw NotFound("the digits that come with the example are not beside the program; expected ",
                 folders.front().string(), ", or another folder by --data");
}

Dataset OpenDataset(const Options& options, const many_workers::Worker& worker) {
  const std::string folder = options.data.empty() ? BundledDigits() : options.data;
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) {
    throw NotFound("--data: ", folder, " is no folder", failed ? ": " + failed.message() : "",
                   "; expected one with ", kTrainImages, " and three more files");
  }
  const auto file = [&folder](const char* name) { return FindIdxFile(folder, name); };

  IdxIterOptions iter;
  iter.image = file(kTrainImages);
  iter.label = file("train-labels-idx1-ubyte");
  iter.batch_size = options.batch_size;
  iter.shuffle = true;
  iter.seed = options.seed;
  iter.flat = options.model == "mlp";
  iter.num_classes = kClasses;
  iter.num_parts = worker.num_workers;
  iter.part_index = worker.rank;
  Dataset dataset;
  dataset.train = std::make_unique<IdxIter>(iter);

  iter.num_parts = 1;
  iter.part_index = 0;
  iter.image = file("t10k-images-idx3-ubyte");
  iter.label = file("t10k-labels-idx1-ubyte");
  iter.shuffle = false;
  iter.scale = dataset.train->scale();
  iter.batch_size = std::clamp<index_t>(ReadIdxFile(iter.label).shape[0], 1, options.batch_size);
  dataset.test = std::make_unique<IdxIter>(iter);
  if (dataset.test->image_shape() != dataset.train->image_shape()) {
    throw DataLoss(iter.image, ": images of shape ", dataset.test->image_shape(), ", expected ",
                   dataset.train->image_shape(), " as in ", kTrainImages);
  }
  return dataset;
}

}  // namespace tessera::digits
