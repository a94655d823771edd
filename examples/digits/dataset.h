#ifndef TESSERA_EXAMPLES_DIGITS_DATASET_H_
#define TESSERA_EXAMPLES_DIGITS_DATASET_H_

#include <memory>
#include <string>

#include "tessera/examples/digits/options.h"
#include "tessera/examples/many_workers/many_workers.h"
#include "tessera/io/idx_iter.h"

namespace tessera::digits {

/// The two halves of a data set. Pixels are scaled by the largest one of the training images, 16 or
/// 255 or whatever it is. Test batches are smaller where there are fewer test images.
struct Dataset {
  std::unique_ptr<IdxIter> train;
  std::unique_ptr<IdxIter> test;
};

/// Opens a folder's four files; `train` has the worker's part of the training images. Throws Error
/// that names the file, as IdxIter does.
Dataset OpenDataset(const Options& options, const many_workers::Worker& worker);

/// The folder with the digits that come with the example, beside the program or among its runfiles.
/// Throws Error(kNotFound).
std::string BundledDigits();

}  // namespace tessera::digits

#endif  // TESSERA_EXAMPLES_DIGITS_DATASET_H_
