#ifndef TESSERA_KVSTORE_MPI_MPI_COMMUNICATOR_H_
#define TESSERA_KVSTORE_MPI_MPI_COMMUNICATOR_H_

#include <memory>

#include "tessera/kvstore/communicator.h"

namespace tessera::kvstore_mpi {

/// Returns a new communicator of all processes of the job. A collective call: every process makes
/// its communicators in the same order. Throws Error(kFailedPrecondition) if MPI cannot be used. An
/// error of MPI ends the job.
std::unique_ptr<Communicator> MakeMpiCommunicator();

}  // namespace tessera::kvstore_mpi

#endif  // TESSERA_KVSTORE_MPI_MPI_COMMUNICATOR_H_
