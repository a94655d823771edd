#ifndef TESSERA_TOOLS_IM2REC_LISTS_H_
#define TESSERA_TOOLS_IM2REC_LISTS_H_

#include <string>
#include <vector>

#include "tessera/io/image_list.h"
#include "tessera/tools/im2rec/options.h"

namespace tessera::im2rec {

/// Returns the images below options.root, by name: those in the folder itself with the label 0, or,
/// if options.recursive, those of all folders, whose labels number the folders with images by name.
/// The numbers of images begin at 0. Throws Error: kNotFound if there is no such folder or no
/// image, kFailedPrecondition if a folder cannot be read.
std::vector<ListedImage> FindImages(const Options& options);

/// Writes the lists of the images below options.root, and returns their names. Throws what
/// FindImages and AtomicFile throw.
std::vector<std::string> WriteLists(const Options& options);

/// Returns the lists whose names begin with options.prefix, by name. Throws Error(kNotFound) if
/// there is none.
std::vector<std::string> FindLists(const Options& options);

}  // namespace tessera::im2rec

#endif  // TESSERA_TOOLS_IM2REC_LISTS_H_
