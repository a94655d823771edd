"""Finds the system's MPI: $MPI_HOME, then where distributions install Open MPI and MPICH.

The repository exists with or without an MPI. Without one its target fits no platform, so that
everything that needs MPI is left out of `//...`.
"""

_FOUND_BUILD = """load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "mpi",
    hdrs = glob(["include/**/*.h"]),
    # The C interface alone: C++'s, which the standard has removed, is a library of its own.
    defines = [
        "MPICH_SKIP_MPICXX",
        "OMPI_SKIP_MPICXX",
    ],
    includes = ["include"],
    linkopts = [
        "-L{lib}",
        "-lmpi",
    ],
    visibility = ["//visibility:public"],
)
"""

_MISSING_BUILD = """load("@rules_cc//cc:defs.bzl", "cc_library")

constraint_setting(name = "presence")

constraint_value(
    name = "absent",
    constraint_setting = ":presence",
)

cc_library(
    name = "mpi",
    target_compatible_with = [":absent"],
    visibility = ["//visibility:public"],
)
"""

# Folders with mpi.h and with libmpi.so. Debian's alternatives lead to the MPI that its user has chosen.
_FOLDERS = [
    ("/usr/include/x86_64-linux-gnu/mpi", "/usr/lib/x86_64-linux-gnu"),
    ("/usr/include/aarch64-linux-gnu/mpi", "/usr/lib/aarch64-linux-gnu"),
    ("/usr/include/openmpi-x86_64", "/usr/lib64/openmpi/lib"),
    ("/usr/include/mpich-x86_64", "/usr/lib64/mpich/lib"),
    ("/usr/include", "/usr/lib"),
]

def _mpi_repository_impl(repository_ctx):
    home = repository_ctx.os.environ.get("MPI_HOME", "")
    folders = [(home + "/include", home + "/lib")] if home else _FOLDERS
    for include, lib in folders:
        header = repository_ctx.path(include + "/mpi.h")
        if not header.exists or not repository_ctx.path(lib + "/libmpi.so").exists:
            continue
        if include == "/usr/include":
            repository_ctx.symlink(header, "include/mpi.h")
        else:
            repository_ctx.symlink(repository_ctx.path(include).realpath, "include")
        repository_ctx.file("BUILD", _FOUND_BUILD.format(lib = lib))
        return
    if home:
        fail("MPI_HOME is \"%s\", which has no include/mpi.h or no lib/libmpi.so." % home)
    repository_ctx.file("BUILD", _MISSING_BUILD)

mpi_repository = repository_rule(
    implementation = _mpi_repository_impl,
    environ = ["MPI_HOME"],
    local = True,
)
