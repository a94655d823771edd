"""The MPI repository for Bzlmod."""

load(":mpi_repository.bzl", "mpi_repository")

def _mpi_impl(_module_ctx):
    mpi_repository(name = "tessera_mpi")

mpi = module_extension(implementation = _mpi_impl)
