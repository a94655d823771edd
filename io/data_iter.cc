#include "tessera/io/data_iter.h"

#include "tessera/base/error.h"

namespace tessera {

TrainingState DataIter::SaveState() const {
  throw Unimplemented("DataIter::SaveState: this iterator saves no position");
}

void DataIter::LoadState(const TrainingState&) {
  throw Unimplemented("DataIter::LoadState: this iterator saves no position");
}

}  // namespace tessera
