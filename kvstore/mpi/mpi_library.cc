// The function that a program looks for in libtessera_mpi.so.
#include <cstddef>
#include <cstdio>
#include <exception>

#include "tessera/kvstore/communicator_library.h"
#include "tessera/kvstore/mpi/mpi_communicator.h"

extern "C" __attribute__((visibility("default"))) tessera::Communicator* TesseraMakeCommunicator(
    int interface, char* error, size_t error_size) {
  using tessera::kvstore_internal::kCommunicatorInterface;
  if (interface != kCommunicatorInterface) {
    std::snprintf(error, error_size,
                  "libtessera_mpi.so has interface %d, expected %d: it is of another version than "
                  "the program that loads it",
                  kCommunicatorInterface, interface);
    return nullptr;
  }
  try {
    return tessera::kvstore_mpi::MakeMpiCommunicator().release();
  } catch (const std::exception& exception) {
    std::snprintf(error, error_size, "%s", exception.what());
    return nullptr;
  }
}
