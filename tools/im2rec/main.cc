// Makes data sets for ImageRecordIter, as MXNet's im2rec.py does:
//
//   bazel run //tools/im2rec -- --list --recursive /data/train /data/images   # train.lst
//   bazel run //tools/im2rec -- --resize=256 --quality=95 /data/train /data/images
//
// The second command writes train.rec and train.idx, which MXNet reads too. Whatever is wrong with
// arguments or files ends in one line on stderr and exit code 2.
#include <exception>
#include <iostream>
#include <optional>
#include <string>

#include "tessera/tools/im2rec/lists.h"
#include "tessera/tools/im2rec/options.h"
#include "tessera/tools/im2rec/records.h"

namespace tessera::im2rec {
namespace {

int Main(int argc, char** argv) {
  try {
    const std::optional<Options> options = ParseOptions(argc, argv);
    if (!options) return 0;
    if (options->list) {
      for (const std::string& list : WriteLists(*options)) std::cout << list << "\n";
      return 0;
    }
    for (const std::string& list : FindLists(*options)) {
      const RecordCount count = WriteRecords(*options, list);
      std::cout << list << ": wrote " << count.written << " records, skipped " << count.damaged
                << " damaged images\n";
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "im2rec: " << error.what() << "\n";
    return 2;
  }
}

}  // namespace
}  // namespace tessera::im2rec

int main(int argc, char** argv) { return tessera::im2rec::Main(argc, argv); }
