#ifndef TESSERA_KVSTORE_COMMUNICATOR_LIBRARY_H_
#define TESSERA_KVSTORE_COMMUNICATOR_LIBRARY_H_

#include <cstddef>
#include <memory>

#include "tessera/kvstore/communicator.h"

namespace tessera::kvstore_internal {

/// The function of a library with a communicator: makes one, to be deleted by its caller, or writes
/// an error's text and returns null. `interface` is the caller's kCommunicatorInterface.
using MakeCommunicatorFunction = Communicator* (*)(int interface, char* error, size_t error_size);
inline constexpr const char* kMakeCommunicatorName = "TesseraMakeCommunicator";

/// Changes with communicator.h: a library for another number is not used.
inline constexpr int kCommunicatorInterface = 2;

/// Returns a new communicator of all processes of the job over MPI. Every process must make its
/// communicators in the same order. The first call loads libtessera_mpi.so: the file that
/// TESSERA_MPI_LIBRARY names, or else the one beside the library or program that holds this
/// function, or else the one that the system finds. Throws Error(kNotFound), with what to install,
/// if the library or MPI is missing, and Error(kFailedPrecondition) if MPI cannot be used.
std::shared_ptr<Communicator> MakeMpiCommunicator();

}  // namespace tessera::kvstore_internal

#endif  // TESSERA_KVSTORE_COMMUNICATOR_LIBRARY_H_
