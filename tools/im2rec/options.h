#ifndef TESSERA_TOOLS_IM2REC_OPTIONS_H_
#define TESSERA_TOOLS_IM2REC_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::im2rec {

/// The options of the program. The names are those of MXNet's im2rec.py.
struct Options {
  std::string prefix;  ///< of the lists, and of the records' files
  std::string root;    ///< the folder to which the paths in lists are relative

  bool list = false;  ///< whether lists are made, and not records
  std::vector<std::string> exts = {".jpeg", ".jpg", ".png"};  ///< endings of the images' names
  int chunks = 1;          ///< lists among which they are divided
  double train_ratio = 1;  ///< of the images in each list
  double test_ratio = 0;
  bool recursive = false;   ///< whether each sub-folder is a class
  bool no_shuffle = false;  ///< whether images are listed by name

  bool pass_through = false;      ///< whether files are stored as they are
  int64_t resize = 0;             ///< the new length of the shorter side; 0: as it is
  bool center_crop = false;       ///< whether the middle square is cut out before
  int quality = 95;               ///< of JPEG, 1 to 100, or zlib's level for PNG, 0 to 9
  std::string encoding = ".jpg";  ///< .jpg or .png
  int color = 1;                  ///< 1: red, green and blue, 0: gray
  bool pack_label = false;        ///< whether all labels of a list are stored, and not the first
  bool skip_damaged = false;      ///< whether damaged images are left out
  int num_thread = 0;             ///< threads that work; 0: as many as the machine has
};

/// Reads the command line. Returns nothing if it asked for help, which is then printed. Throws
/// Error(kInvalidArgument) that names the argument.
std::optional<Options> ParseOptions(int argc, char** argv);

}  // namespace tessera::im2rec

#endif  // TESSERA_TOOLS_IM2REC_OPTIONS_H_
