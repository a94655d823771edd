"""Whole libraries for people without Bazel: one shared, one static, and the headers' list.

A cc_binary with linkshared takes from libraries only what something refers to, and nothing refers to
an operator; here all objects of this repository are linked. Other repositories' libraries stay
outside, named by the flags that link them.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@rules_cc//cc:defs.bzl", "CcInfo")

_VIRTUAL = "_virtual_includes/"

def _own(file):
    return not file.short_path.startswith("../")

def _linking(ctx):
    """Returns this repository's archives and the flags for everything else."""
    archives = []
    flags = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linker_input.libraries:
                archive = (library.pic_static_library or library.static_library or
                           library.dynamic_library)
                if archive and not _own(archive):
                    fail(("%s would be missing from what is installed; expected the system's " +
                          "libraries: WORKSPACE with TESSERA_THIRD_PARTY=system") % archive.short_path)
                if archive and archive not in archives:
                    archives.append(archive)
            for flag in linker_input.user_link_flags:
                flags.append(flag)
    return archives, flags

def _headers(ctx):
    """Returns this repository's headers by the path that they are included by."""
    headers = {}
    for dep in ctx.attr.deps:
        for file in dep[CcInfo].compilation_context.headers.to_list():
            if _own(file) and _VIRTUAL in file.path:
                included = file.path.partition(_VIRTUAL)[2].partition("/")[2]
                headers[included] = file
    return headers

def _whole_library_impl(ctx):
    archives, flags = _linking(ctx)
    paths = " ".join([archive.path for archive in archives])
    compiler = find_cpp_toolchain(ctx).compiler_executable

    shared = ctx.actions.declare_file("lib%s.so" % ctx.attr.library)
    ctx.actions.run_shell(
        inputs = archives,
        outputs = [shared],
        command = "%s -shared -o %s -Wl,-soname,%s -Wl,--whole-archive %s -Wl,--no-whole-archive %s -lstdc++ -lm" % (
            compiler,
            shared.path,
            shared.basename,
            paths,
            " ".join(flags),
        ),
        # The compiler looks for its linker on the PATH.
        use_default_shell_env = True,
        mnemonic = "WholeSharedLibrary",
    )

    # One object, so that whoever needs any of it gets all of it, registrations included.
    static = ctx.actions.declare_file("lib%s.a" % ctx.attr.library)
    object_path = static.path[:-len(".a")] + ".o"
    ctx.actions.run_shell(
        inputs = archives,
        outputs = [static],
        command = "%s -r -nostdlib -o %s -Wl,--whole-archive %s && ar rcsD %s %s && rm %s" % (
            compiler,
            object_path,
            paths,
            static.path,
            object_path,
            object_path,
        ),
        # The compiler looks for its linker on the PATH.
        use_default_shell_env = True,
        mnemonic = "WholeStaticLibrary",
    )

    headers = _headers(ctx)
    manifest = ctx.actions.declare_file(ctx.label.name + ".headers")
    ctx.actions.write(manifest, "".join([
        "%s %s\n" % (headers[included].short_path, included)
        for included in sorted(headers)
    ]))
    link_flags = ctx.actions.declare_file(ctx.label.name + ".flags")
    libraries = []
    for flag in flags:
        if flag.startswith("-l") and flag not in libraries:
            libraries.append(flag)
    ctx.actions.write(link_flags, " ".join(libraries) + "\n")
    files = [shared, static, manifest, link_flags]
    return [DefaultInfo(
        files = depset(files),
        runfiles = ctx.runfiles(files = files + headers.values()),
    )]

whole_library = rule(
    implementation = _whole_library_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "library": attr.string(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
