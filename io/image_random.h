#ifndef TESSERA_IO_IMAGE_RANDOM_H_
#define TESSERA_IO_IMAGE_RANDOM_H_

#include <random>

#include "tessera/base/dialect.h"

namespace tessera {

/// Random numbers of one example.
using ImageRandom = std::mt19937_64;

}  // namespace tessera

#endif  // TESSERA_IO_IMAGE_RANDOM_H_
