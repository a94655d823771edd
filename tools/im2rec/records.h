#ifndef TESSERA_TOOLS_IM2REC_RECORDS_H_
#define TESSERA_TOOLS_IM2REC_RECORDS_H_

#include <cstdint>
#include <string>

#include "tessera/io/image_list.h"
#include "tessera/tools/im2rec/options.h"

namespace tessera::im2rec {

/// Returns the record of an image of a list. Throws Error: kNotFound if there is no such file,
/// kDataLoss if it is damaged, kFailedPrecondition if it cannot be read.
std::string MakeRecord(const Options& options, const ListedImage& image);

/// The images of a list that are in its file of records, and those that were left out.
struct RecordCount {
  int64_t written = 0;
  int64_t damaged = 0;
};

/// Writes the images of a list, NAME.lst, into the records NAME.rec, in the list's order, with the
/// index NAME.idx. Images are made by several threads. Throws what MakeRecord, RecordWriter and
/// AtomicFile throw; the errors of damaged images are printed instead if they are skipped.
RecordCount WriteRecords(const Options& options, const std::string& list);

}  // namespace tessera::im2rec

#endif  // TESSERA_TOOLS_IM2REC_RECORDS_H_
