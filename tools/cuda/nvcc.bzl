"""Compiles sources with nvcc into object files, which a cc_library then takes among its srcs."""

load("@rules_cc//cc:defs.bzl", "CcInfo")
load("@tessera_cuda//:toolkit.bzl", "CUDA")
load(":flags.bzl", "BoolFlagInfo")

# Code for A100 and H100, and PTX from which a driver makes code for what comes after. All from one
# translation: nothing here uses what compute_90 adds, and a second one takes as long as the first.
_ARCHITECTURES = ["-gencode=arch=compute_80,code=[sm_80,sm_90,compute_80]"]

# Whether code compiles at all, one architecture tells.
_ONE_ARCHITECTURE = ["-gencode=arch=compute_80,code=sm_80"]

_FLAGS = [
    "-x=cu",
    "-std=c++20",
    "--expt-relaxed-constexpr",
    "--extended-lambda",
    "--threads=2",
    # Eigen's own declarations, which mark defaulted functions for the device; and what of an
    # operator's source only the host's compilation of it uses (177).
    "-diag-suppress=20012,20013,20014,20015,20011,177",
    "-Xcompiler=-fPIC,-Wall,-Wno-unknown-pragmas",
]

def _mode_flags(ctx):
    mode = ctx.var["COMPILATION_MODE"]
    if mode == "dbg":
        return _ARCHITECTURES + ["-O0", "-g"]
    if mode == "opt" and ctx.attr._optimized[BoolFlagInfo].value:
        return _ARCHITECTURES + ["-O3", "-DNDEBUG"]
    if CUDA.fast_flags:
        # nvcc's own -O0 would undo some of what they save.
        return _ONE_ARCHITECTURE + CUDA.fast_flags + ["-Xcompiler=-O0"]
    return _ONE_ARCHITECTURE + ["-O0"]

_HEADER_EXTENSIONS = ["h", "hpp", "cuh", "inc"]

def _nvcc_objects_impl(ctx):
    if not CUDA.found:
        fail(CUDA.missing)
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    sources = [f for f in ctx.files.srcs if f.extension not in _HEADER_EXTENSIONS]
    headers = [f for f in ctx.files.srcs if f.extension in _HEADER_EXTENSIONS]

    arguments = ctx.actions.args()
    arguments.add_all(_FLAGS)
    arguments.add_all(CUDA.compression_flags)
    arguments.add_all(_mode_flags(ctx))
    for context in contexts:
        arguments.add_all(context.defines, format_each = "-D%s", uniquify = True)
    arguments.add_all(ctx.attr.local_defines, format_each = "-D%s")
    arguments.add("-Xcompiler=-iquote,.")
    for context in contexts:
        # nvcc has no -iquote of its own; each folder travels to the host compiler and to cudafe++,
        # both of which preprocess with it.
        arguments.add_all(context.quote_includes, format_each = "-Xcompiler=-iquote,%s", uniquify = True)
        arguments.add_all(context.includes, format_each = "-I%s", uniquify = True)
        arguments.add_all(context.system_includes, format_each = "-isystem=%s", uniquify = True)
        arguments.add_all(
            getattr(context, "external_includes", depset()),
            format_each = "-isystem=%s",
            uniquify = True,
        )
    arguments.add_all(ctx.attr.copts)

    inputs = depset(headers, transitive = [context.headers for context in contexts])
    objects = []
    for source in sources:
        object_file = ctx.actions.declare_file("_nvcc/%s/%s.o" % (ctx.label.name, source.basename))
        ctx.actions.run_shell(
            # $1 is nvcc; nvcc finds its host compiler on the PATH.
            command = "exec \"$@\"",
            arguments = [CUDA.nvcc, "-c", source.path, "-o", object_file.path, arguments],
            inputs = depset([source], transitive = [inputs]),
            outputs = [object_file],
            mnemonic = "NvccCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(object_file)
    return [DefaultInfo(files = depset(objects))]

nvcc_objects = rule(
    implementation = _nvcc_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "local_defines": attr.string_list(),
        "copts": attr.string_list(),
        "_optimized": attr.label(default = "//tools/cuda:optimized"),
    },
    doc = "Object files from nvcc, one for each source. Needs a CUDA toolkit when it is built.",
)
