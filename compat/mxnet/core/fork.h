#ifndef TESSERA_COMPAT_MXNET_CORE_FORK_H_
#define TESSERA_COMPAT_MXNET_CORE_FORK_H_

namespace tessera::mxnet {

/// Prepares the process for forks, once; later calls do nothing. Before a fork, the forking thread
/// then waits for all pushed operations, as MXNet does, so that the child may use every array. It
/// gives up after some seconds without progress, as when an operation needs a lock that the thread
/// holds: arrays that are being written are then errors in the child. Thread-safe.
void PrepareForForks();

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_FORK_H_
