"""Headers that g++ parses once, for tests of which each would take seconds to parse them.

A test is compiled with `-include tools/precompiled/NAME/precompiled.h`. That file is empty; beside it
lies precompiled.h.gch, which g++ reads instead where it was made by the same compiler, with the same
macros and with the same flags of those that g++ compares. A test that it does not fit is compiled as
if there were none.

g++ compares neither -O nor most of -f. The precompiled header's source is therefore named as tests
are, *_test.cc in a folder of the target's name, and gets from .bazelrc what they get; tests to which
--per_file_copt gives something else are to get -DTESSERA_NOT_PRECOMPILED with it.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@rules_cc//cc:defs.bzl", "CcInfo")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("//tools/cuda:flags.bzl", "BoolFlagInfo")

# A macro that the source names, g++ wants to be as undefined where the header is used.
_SOURCE = """#ifdef TESSERA_NOT_PRECOMPILED
#error "what defines this is compiled with flags of its own"
#endif
{includes}
"""

_HEADER = "// Empty: whoever reads this has not been given precompiled.h.gch.\n"

def _is_gcc(toolchain):
    # Bazel 4.2 calls every compiler "compiler". What is called cc may be clang, and is left alone.
    name = toolchain.compiler_executable.rpartition("/")[2]
    return toolchain.compiler in ["compiler", "gcc"] and ("gcc" in name or "g++" in name)

def _precompiled_usable_impl(ctx):
    usable = ctx.attr.enabled[BoolFlagInfo].value and _is_gcc(find_cpp_toolchain(ctx))
    return [config_common.FeatureFlagInfo(value = str(usable))]

precompiled_usable = rule(
    implementation = _precompiled_usable_impl,
    attrs = {
        "enabled": attr.label(mandatory = True, providers = [BoolFlagInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    doc = """For a config_setting: "True" where the flag is set and the compiler is g++.""",
)

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context

    source = ctx.actions.declare_file(ctx.label.name + "/precompiled_test.cc")
    ctx.actions.write(source, _SOURCE.format(
        includes = "\n".join(["#include <%s>" % include for include in ctx.attr.includes]),
    ))
    header = ctx.actions.declare_file(ctx.label.name + "/precompiled.h")
    ctx.actions.write(header, _HEADER)

    # To Bazel this is a test's source and its object, so that the flags are those of tests.
    _, outputs = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        cc_toolchain = toolchain,
        feature_configuration = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = toolchain,
            requested_features = ctx.features,
            unsupported_features = ctx.disabled_features,
        ),
        srcs = [source],
        user_compile_flags = ["-x", "c++-header"],
        compilation_contexts = [context],
        # Not to be forgotten because the compiler does not list them: what stands for a system's headers.
        additional_inputs = context.headers.to_list(),
    )

    # Where both are made, programs are linked from the objects that are not position-independent.
    objects = outputs.objects or outputs.pic_objects
    precompiled = ctx.actions.declare_file(ctx.label.name + "/precompiled.h.gch")
    ctx.actions.symlink(output = precompiled, target_file = objects[0])

    files = depset([header, precompiled])
    return [
        DefaultInfo(files = files),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            # With -fpch-deps the compiler lists the source, and what that includes, among what a test has
            # included. Where to find any of it is not said: a test that includes more has to depend on it.
            headers = depset([source], transitive = [files, context.headers]),
        )),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "includes": attr.string_list(mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    doc = "PACKAGE/NAME/precompiled.h, to be named by -include, and its precompiled form. Needs g++.",
)
