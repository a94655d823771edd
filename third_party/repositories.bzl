"""Third-party libraries: the system's packages where they are found, pinned archives otherwise.

This file is the only place that chooses. Set TESSERA_THIRD_PARTY=system (or archive) in the
environment to insist on one of the two ways; `auto`, the default, decides for each library.
Labels inside the repositories are those of the upstream projects, so that the alias packages
beside this file mean the same under WORKSPACE and under Bzlmod.
"""

load("//third_party:cuda_repository.bzl", "cuda_repository")
load("//third_party:mpi_repository.bzl", "mpi_repository")

# Where distributions install libraries. Headers count only in the compiler's own search path.
_LIBRARY_DIRECTORIES = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
]

# name -> what shows that the system has it (header below /usr/include, libraries), how to describe
# the system's copy (`system`: its BUILD file), and the archive that replaces it. `build` overlays a
# BUILD file on archives that have none for Bazel, `replacements` mend the file `edit`; `links` are folders to expose below the repository.
_LIBRARIES = {
    "com_google_absl": dict(
        header = "absl/base/config.h",
        libraries = ["libabsl_strings.so", "pkgconfig/absl_strings.pc"],
        system = "abseil",
        url = "https://github.com/abseil/abseil-cpp/archive/refs/tags/20220623.1.tar.gz",
        sha256 = "91ac87d30cc6d79f9ab974c51874a704de9c2647c40f6932597329a282217ba8",
        strip_prefix = "abseil-cpp-20220623.1",
        # Names for WebAssembly that the platforms repository of Bazel 4.2 does not have.
        edit = "absl/BUILD.bazel",
        replacements = {
            "constraint_values = [\n        \"@platforms//cpu:wasm%d\",\n    ]" % bits: "values = {\"cpu\": \"wasm%d\"}" % bits
            for bits in [32, 64]
        },
    ),
    "eigen": dict(
        header = "eigen3/Eigen/Core",
        system = "eigen.BUILD",
        links = {"include": "eigen3"},
        url = "https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz",
        sha256 = "8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72",
        strip_prefix = "eigen-3.4.0",
        build = "eigen.BUILD",
    ),
    "onetbb": dict(
        header = "oneapi/tbb/version.h",
        libraries = ["libtbb.so"],
        system = "onetbb.BUILD",
        url = "https://github.com/oneapi-src/oneTBB/archive/refs/tags/v2021.8.0.tar.gz",
        sha256 = "eee380323bb7ce864355ed9431f85c43955faaae9e9bce35c62b372d7ffd9f8b",
        strip_prefix = "oneTBB-2021.8.0",
        build = "onetbb.BUILD",
    ),
    "com_google_googletest": dict(
        header = "gmock/gmock.h",
        libraries = ["libgtest.a", "libgmock.a", "libgtest_main.a"],
        system = "googletest.BUILD",
        url = "https://github.com/google/googletest/archive/refs/tags/release-1.12.1.tar.gz",
        sha256 = "81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2",
        strip_prefix = "googletest-release-1.12.1",
    ),
    "com_github_google_benchmark": dict(
        header = "benchmark/benchmark.h",
        libraries = ["libbenchmark.so", "libbenchmark_main.a"],
        system = "google_benchmark.BUILD",
        url = "https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz",
        sha256 = "6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7",
        strip_prefix = "benchmark-1.7.1",
    ),
    "zlib": dict(
        header = "zlib.h",
        libraries = ["libz.so"],
        system = "zlib.BUILD",
        url = "https://github.com/madler/zlib/releases/download/v1.2.13/zlib-1.2.13.tar.xz",
        sha256 = "d14c38e313afc35a9a8760dadf26042f51ea0f5d154b0630a31da0540107fb98",
        strip_prefix = "zlib-1.2.13",
        build = "zlib.BUILD",
    ),
    "libzip": dict(
        header = "zip.h",
        libraries = ["libzip.so"],
        system = "libzip.BUILD",
        url = "https://github.com/nih-at/libzip/releases/download/v1.10.1/libzip-1.10.1.tar.gz",
        sha256 = "9669ae5dfe3ac5b3897536dc8466a874c8cf2c0e3b1fdd08d75b273884299363",
        strip_prefix = "libzip-1.10.1",
        build = "libzip.BUILD",
    ),
    "libjpeg_turbo": dict(
        header = "jpeglib.h",
        libraries = ["libjpeg.so"],
        system = "libjpeg_turbo.BUILD",
        url = "https://github.com/libjpeg-turbo/libjpeg-turbo/archive/refs/tags/2.1.4.tar.gz",
        sha256 = "a78b05c0d8427a90eb5b4eb08af25309770c8379592bb0b8a863373128e6143f",
        strip_prefix = "libjpeg-turbo-2.1.4",
        build = "libjpeg_turbo.BUILD",
    ),
    "libpng": dict(
        header = "png.h",
        libraries = ["libpng.so"],
        system = "libpng.BUILD",
        url = "https://download.sourceforge.net/libpng/libpng-1.6.40.tar.gz",
        sha256 = "8f720b363aa08683c9bf2a563236f45313af2c55d542b5481ae17dd8d183bb42",
        strip_prefix = "libpng-1.6.40",
        build = "libpng.BUILD",
    ),
    "nlohmann_json": dict(
        header = "nlohmann/json.hpp",
        system = "nlohmann_json.BUILD",
        url = "https://github.com/nlohmann/json/releases/download/v3.11.2/include.zip",
        sha256 = "e5c7a9f49a16814be27e4ed0ee900ecd0092bfb7dbfca65b5a421b774dccaaed",
        strip_prefix = "",
        build = "nlohmann_json.BUILD",
    ),
    "cli11": dict(
        header = "CLI/CLI.hpp",
        system = "cli11.BUILD",
        url = "https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.3.2.tar.gz",
        sha256 = "aac0ab42108131ac5d3344a9db0fdf25c4db652296641955720a4fbe52334e22",
        strip_prefix = "CLI11-2.3.2",
        build = "cli11.BUILD",
    ),
}

# The Abseil archive loads bazel_skylib; this is the newest release that Bazel 4.2 understands.
_SKYLIB = dict(
    url = "https://github.com/bazelbuild/bazel-skylib/releases/download/1.2.0/bazel-skylib-1.2.0.tar.gz",
    sha256 = "af87959afe497dc8dfd4c6cb66e1279cb98ccc84284619ebfec27d9c09a903de",
)

def _exists(repository_ctx, path):
    return repository_ctx.path(path).exists

def _system_library_directory(repository_ctx):
    """The folder with the system's copy, or None where a header or a library is missing."""
    if not _exists(repository_ctx, "/usr/include/" + repository_ctx.attr.header):
        return None
    for directory in _LIBRARY_DIRECTORIES:
        found = _exists(repository_ctx, directory)
        for library in repository_ctx.attr.libraries:
            found = found and _exists(repository_ctx, directory + "/" + library)
        if found:
            return directory
    return None

def _requirements(line):
    """Names in a pkg-config `Requires:` line: "absl_base = 20220623, absl_bits" -> [...]."""
    return [part.strip().split(" ")[0] for part in line.split(",") if part.strip()]

def _describe_system_abseil(repository_ctx, directory):
    """Writes one target for each pkg-config file, and packages with the labels of upstream."""
    packages = {}
    for file in repository_ctx.path(directory + "/pkgconfig").readdir():
        if not file.basename.startswith("absl_") or not file.basename.endswith(".pc"):
            continue
        name = file.basename[:-len(".pc")]
        requires = []
        libraries = []
        for line in repository_ctx.read(file).splitlines():
            if line.startswith("Requires:"):
                requires = _requirements(line[len("Requires:"):])
            if line.startswith("Libs:"):
                libraries = [flag for flag in line.split(" ") if flag.startswith("-labsl_")]
        packages[name] = (requires, libraries)

    rules = [
        "# Generated from pkg-config files by //third_party:repositories.bzl.",
        "load(\"@rules_cc//cc:defs.bzl\", \"cc_library\")",
        "package(default_visibility = [\"//:__subpackages__\"])",
    ]
    for name in sorted(packages):
        requires, libraries = packages[name]
        linkopts = []
        if libraries:
            # Abseil has some 80 shared libraries; keep only those that a binary really calls.
            linkopts = ["-Wl,--push-state,--as-needed"] + libraries + ["-Wl,--pop-state"]
        rules.append("cc_library(name = %r, hdrs = [\"marker.h\"], linkopts = %r, deps = %r)" % (
            name,
            linkopts,
            [":" + requirement for requirement in requires if requirement in packages],
        ))
    repository_ctx.file("BUILD", "\n".join(rules) + "\n")

    public = {}
    for label in repository_ctx.attr.targets:
        package, target = label.split(":")
        public.setdefault(package, []).append(target)
    for package in public:
        rules = ["package(default_visibility = [\"//visibility:public\"])"]
        for target in public[package]:
            rules.append("alias(name = %r, actual = %r)" % (target, "//:absl_" + target))
        repository_ctx.file(package + "/BUILD", "\n".join(rules) + "\n")

def _third_party_repository_impl(repository_ctx):
    way = repository_ctx.os.environ.get("TESSERA_THIRD_PARTY", "auto")
    if way not in ["auto", "system", "archive"]:
        fail("TESSERA_THIRD_PARTY is \"%s\"; expected auto, system or archive." % way)
    directory = None
    if way != "archive":
        directory = _system_library_directory(repository_ctx)
    if directory == None and way == "system":
        fail("%s is not installed: /usr/include/%s or its libraries are missing." % (
            repository_ctx.name,
            repository_ctx.attr.header,
        ))
    if directory == None:
        repository_ctx.download_and_extract(
            url = repository_ctx.attr.url,
            sha256 = repository_ctx.attr.sha256,
            stripPrefix = repository_ctx.attr.strip_prefix,
        )
        if repository_ctx.attr.build:
            repository_ctx.file("BUILD", repository_ctx.read(repository_ctx.attr.build))
            repository_ctx.delete("BUILD.bazel")
        if repository_ctx.attr.edit:
            text = repository_ctx.read(repository_ctx.attr.edit)
            for old, new in repository_ctx.attr.replacements.items():
                text = text.replace(old, new)
            repository_ctx.file(repository_ctx.attr.edit, text)
        return

    # An input of every target, so that an upgrade of the package invalidates what was built with it.
    repository_ctx.symlink("/usr/include/" + repository_ctx.attr.header, "marker.h")
    for name, folder in repository_ctx.attr.links.items():
        repository_ctx.symlink("/usr/include/" + folder, name)
    if repository_ctx.attr.system:
        repository_ctx.file("BUILD", repository_ctx.read(repository_ctx.attr.system))
    else:
        _describe_system_abseil(repository_ctx, directory)

_third_party_repository = repository_rule(
    implementation = _third_party_repository_impl,
    attrs = {
        "header": attr.string(),
        "libraries": attr.string_list(),
        "links": attr.string_dict(),
        "system": attr.label(allow_single_file = True),
        "targets": attr.string_list(),
        "url": attr.string(),
        "sha256": attr.string(),
        "strip_prefix": attr.string(),
        "build": attr.label(allow_single_file = True),
        "edit": attr.string(),
        "replacements": attr.string_dict(),
    },
    environ = ["TESSERA_THIRD_PARTY"],
)

# What //third_party/absl offers; the system's copy is described for these labels alone.
_ABSL_TARGETS = [
    "absl/base:base",
    "absl/base:config",
    "absl/base:core_headers",
    "absl/cleanup:cleanup",
    "absl/container:fixed_array",
    "absl/container:flat_hash_map",
    "absl/container:flat_hash_set",
    "absl/container:inlined_vector",
    "absl/container:node_hash_map",
    "absl/functional:any_invocable",
    "absl/functional:function_ref",
    "absl/hash:hash",
    "absl/memory:memory",
    "absl/numeric:bits",
    "absl/status:status",
    "absl/status:statusor",
    "absl/strings:str_format",
    "absl/strings:strings",
    "absl/synchronization:synchronization",
    "absl/time:time",
    "absl/types:span",
]

def tessera_deps():
    """Declares the repositories of every third-party library that nobody declared before."""
    for name, library in _LIBRARIES.items():
        if native.existing_rule(name):
            continue
        system = library["system"]
        build = library.get("build")
        _third_party_repository(
            name = name,
            header = library["header"],
            libraries = library.get("libraries", []),
            links = library.get("links", {}),
            system = None if system == "abseil" else Label("//third_party/system:" + system),
            targets = _ABSL_TARGETS if system == "abseil" else [],
            url = library["url"],
            sha256 = library["sha256"],
            strip_prefix = library["strip_prefix"],
            build = Label("//third_party/archive:" + build) if build else None,
            edit = library.get("edit", ""),
            replacements = library.get("replacements", {}),
        )
    if not native.existing_rule("bazel_skylib"):
        _third_party_repository(
            name = "bazel_skylib",
            header = "bazel_skylib",
            url = _SKYLIB["url"],
            sha256 = _SKYLIB["sha256"],
        )
    if not native.existing_rule("tessera_cuda"):
        cuda_repository(name = "tessera_cuda")
    if not native.existing_rule("tessera_mpi"):
        mpi_repository(name = "tessera_mpi")
