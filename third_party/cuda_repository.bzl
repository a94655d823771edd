"""Finds a CUDA toolkit: $CUDA_HOME, then nvcc on the PATH, then /usr/local/cuda.

The repository exists with or without a toolkit. Without one its targets fail when they are built,
with a sentence that names what is missing, and everything that does not need CUDA still builds.
"""

_TOOLKIT_BZL = """\"\"\"Generated: where the CUDA toolkit is, or what is missing.\"\"\"

CUDA = struct(
    found = {found},
    nvcc = {nvcc},
    compression_flags = {compression_flags},
    fast_flags = {fast_flags},
    missing = {missing},
)

def _missing_cuda_impl(ctx):
    fail(CUDA.missing)

missing_cuda = rule(implementation = _missing_cuda_impl)
"""

_FOUND_BUILD = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(
        [
            "include/*.h",
            "include/*.hpp",
            "include/crt/**",
            "include/cooperative_groups/**",
            "include/nv/**",
            "include/cccl/nv/**",
        ],
        exclude = ["include/cudnn*"],
        allow_empty = True,
    ),
    includes = [
        "include",
        "include/cccl",
    ],
)

# The run path lets tests and programs start where they were built; LD_LIBRARY_PATH goes before it.
cc_library(
    name = "cudart",
    linkopts = [
        "-L{lib}",
        "-Wl,-rpath,{lib}",
        "-lcudart",
    ],
)

cc_library(
    name = "cublas",
    linkopts = [
        "-L{lib}",
        "-Wl,-rpath,{lib}",
        "-Wl,-rpath-link,{lib}",
        "-lcublas",
    ],
)
"""

_MISSING_BUILD = """load(":toolkit.bzl", "missing_cuda")

package(default_visibility = ["//visibility:public"])

[missing_cuda(
    name = name,
    tags = ["manual"],
) for name in ["headers", "cudart", "cublas"]]
"""

def _toolkit_roots(repository_ctx):
    roots = []
    home = repository_ctx.os.environ.get("CUDA_HOME", "")
    if home:
        roots.append(home)
    nvcc = repository_ctx.which("nvcc")
    if nvcc:
        roots.append(str(nvcc.realpath.dirname.dirname))
    roots.append("/usr/local/cuda")
    return roots

def _missing_pieces(repository_ctx, root):
    """What a toolkit in `root` lacks, as a list of paths below it; empty where it is whole."""
    pieces = ["bin/nvcc", "include/cuda_runtime.h", "include/cublas_v2.h"]
    missing = [p for p in pieces if not repository_ctx.path(root + "/" + p).exists]
    if not missing and not _library_directory(repository_ctx, root):
        missing.append("lib64/libcublas.so")
    return missing

def _library_directory(repository_ctx, root):
    for name in ["lib64", "lib", "targets/x86_64-linux/lib"]:
        directory = root + "/" + name
        if (repository_ctx.path(directory + "/libcudart.so").exists and
            repository_ctx.path(directory + "/libcublas.so").exists):
            return directory
    return None

def _known_flags(repository_ctx, nvcc):
    """Flags that older compilers do not know, each as a list that is empty where this one does not."""
    known = repository_ctx.execute([nvcc, "--help"]).stdout
    return struct(
        # From CUDA 12.4 on device code shrinks to a tenth.
        compression = ["--compress-mode=size"] if "--compress-mode" in known else [],
        # From CUDA 12.9 on device code is compiled in less than half the time of -O0.
        fast = ["--Ofast-compile=max"] if "--Ofast-compile" in known else [],
    )

def _cuda_repository_impl(repository_ctx):
    roots = _toolkit_roots(repository_ctx)
    for root in roots:
        if _missing_pieces(repository_ctx, root):
            continue
        flags = _known_flags(repository_ctx, root + "/bin/nvcc")
        repository_ctx.symlink(root + "/include", "include")
        repository_ctx.file("toolkit.bzl", _TOOLKIT_BZL.format(
            found = "True",
            nvcc = repr(root + "/bin/nvcc"),
            compression_flags = repr(flags.compression),
            fast_flags = repr(flags.fast),
            missing = "None",
        ))
        repository_ctx.file(
            "BUILD",
            _FOUND_BUILD.format(lib = _library_directory(repository_ctx, root)),
        )
        return

    root = roots[0]
    repository_ctx.file("toolkit.bzl", _TOOLKIT_BZL.format(
        found = "False",
        nvcc = "None",
        compression_flags = "[]",
        fast_flags = "[]",
        missing = repr(
            "--config=cuda needs the CUDA toolkit, but %s has no %s: install the toolkit or set CUDA_HOME to its folder." %
            (root, _missing_pieces(repository_ctx, root)[0]),
        ),
    ))
    repository_ctx.file("BUILD", _MISSING_BUILD)

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = ["CUDA_HOME", "PATH"],
    local = True,
)
