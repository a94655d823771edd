"""What a build was made with, as a file: times of other flags are never compared."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _build_settings_impl(ctx):
    cpp = ctx.fragments.cpp
    out = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(out, json.encode(struct(
        compiler = find_cpp_toolchain(ctx).compiler_executable,
        compilation_mode = ctx.var["COMPILATION_MODE"],
        copts = cpp.copts,
        cxxopts = cpp.cxxopts,
        linkopts = cpp.linkopts,
    )))
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(files = [out]))]

build_settings = rule(
    implementation = _build_settings_impl,
    attrs = {
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
