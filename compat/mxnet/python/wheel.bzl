"""The wheel of tessera_mxnet, and what it takes from the system: see make_wheel.py."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _static_libraries_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    ctx.actions.run_shell(
        outputs = [folder],
        # A name that the compiler does not find is its answer too, and then cp's error.
        command = """
            set -e
            for name in libstdc++.a libz.a; do
              cp -L "$("$1" -print-file-name="$name")" "$2"
            done""",
        arguments = [find_cpp_toolchain(ctx).compiler_executable, folder.path],
        use_default_shell_env = True,
        mnemonic = "StaticLibraries",
    )
    return [DefaultInfo(files = depset([folder]))]

# A folder of the system's archives, which as the first on a linker's path makes it link these
# libraries statically: it takes the first folder that has a library under any of its names. Debian's
# archives of Abseil are not among them, since their code has fixed addresses.
static_libraries = rule(
    implementation = _static_libraries_impl,
    attrs = {
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _wheel_impl(ctx):
    # A folder, because the file's name tells the platform, which only the libraries know.
    folder = ctx.actions.declare_directory(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add(ctx.file._program)
    arguments.add(folder.path)
    arguments.add(ctx.attr.version)
    arguments.add(find_cpp_toolchain(ctx).compiler_executable)
    arguments.add_all(ctx.files.srcs)
    ctx.actions.run_shell(
        inputs = ctx.files.srcs + [ctx.file._program],
        outputs = [folder],
        command = "python3 -B \"$@\"",
        arguments = [arguments],
        use_default_shell_env = True,
        mnemonic = "Wheel",
    )
    return [DefaultInfo(files = depset([folder]))]

wheel = rule(
    implementation = _wheel_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = True),
        "version": attr.string(mandatory = True),
        "_program": attr.label(
            default = Label("//compat/mxnet/python:make_wheel.py"),
            allow_single_file = True,
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
