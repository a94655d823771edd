#ifndef TESSERA_BASE_FORK_H_
#define TESSERA_BASE_FORK_H_

#include "tessera/base/dialect.h"

namespace tessera {

/// Whether this process is the child of a fork in a process with several threads, or comes from
/// such a child by further forks. Those threads are gone, but the locks that they held are not, and
/// who counts on them waits for ever: so nothing here may use TBB, and loops run in one thread.
/// False again after exec.
///
/// Safe from any thread.
bool ThreadsLostInFork();

}  // namespace tessera

#endif  // TESSERA_BASE_FORK_H_
