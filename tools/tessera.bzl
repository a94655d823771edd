"""The macros with which Tessera's BUILD files are written.

They add what every target shares: headers included as "tessera/<folder>/<file>.h", warnings, and
what --config=cuda turns on. The dialect comes from --cxxopt in .bazelrc, never from here.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load("//tools/cuda:nvcc.bzl", "nvcc_objects")

# Options structs are filled by designated initializers, which name only what differs from a default.
_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wno-missing-field-initializers",
]

# Packages ask for layering_check, which clang knows. It does not let a facade without headers of its own
# hand on those of its deps, as //base does: under clang no other component would compile.
_FEATURES = ["-layering_check"]

_HEADERS = (".h", ".hpp", ".cuh", ".inc")

# A select() of Bazel 4.2 takes no Label objects.
_CUDA_ENABLED = str(Label("//tools/cuda:is_enabled"))
_CUDA_ABSENT = Label("//tools/cuda:absent")
_CUDA = Label("//third_party/cuda")
_CUDART = Label("//third_party/cuda:cudart")
_GTEST = Label("//third_party/googletest")
_GTEST_MAIN = Label("//third_party/googletest:main")
_GPU_TEST_MAIN = Label("//tools/cuda:gpu_test_main")
_BENCHMARK = Label("//third_party/google_benchmark")
_BENCHMARK_MAIN = Label("//third_party/google_benchmark:main")
_SUPPRESSIONS = Label("//tools/sanitizers:suppressions")
_PRECOMPILED_USABLE = str(Label("//tools/precompiled:is_usable"))
_PRECOMPILED = str(Label("//tools/precompiled:tests"))

def _if_cuda(value):
    return select({_CUDA_ENABLED: value, "//conditions:default": []})

def _split(srcs):
    """Splits sources into (translation units, headers)."""
    headers = [s for s in srcs if s.endswith(_HEADERS)]
    return [s for s in srcs if s not in headers], headers

def _header_library(name, hdrs, deps, testonly, **kwargs):
    """Headers alone, reachable below "tessera/". Returns the label."""
    cc_library(
        name = name,
        testonly = testonly,
        hdrs = hdrs,
        include_prefix = "tessera",
        strip_include_prefix = "/",
        deps = deps,
        visibility = ["//visibility:private"],
        **kwargs
    )
    return ":" + name

def tessera_cc_library(
        name,
        srcs = [],
        hdrs = [],
        deps = [],
        copts = [],
        testonly = False,
        **kwargs):
    """A cc_library whose headers are included as "tessera/<folder>/<file>.h".

    Args:
      name: the target's name.
      srcs: sources, and headers that only these sources include (by the same kind of path).
      hdrs: public headers.
      deps: libraries.
      copts: flags after the warnings.
      testonly: whether only tests may use it.
      **kwargs: passed to cc_library.
    """
    sources, private_headers = _split(srcs)
    private = []
    if private_headers:
        private = [_header_library(name + "_private_headers", private_headers, deps, testonly)]
    cc_library(
        name = name,
        testonly = testonly,
        srcs = sources,
        hdrs = hdrs,
        copts = _WARNINGS + copts,
        features = _FEATURES + kwargs.pop("features", []),
        include_prefix = "tessera",
        strip_include_prefix = "/",
        # Position-independent copies and shared objects are made only for who asks for them.
        linkstatic = True,
        deps = deps + private,
        **kwargs
    )

def _program(rule, name, srcs, deps, copts, testonly, tags, **kwargs):
    sources, private_headers = _split(srcs)
    private = []
    if private_headers:
        private = [_header_library(name + "_private_headers", private_headers, deps, testonly)]
    if "gpu" in tags:
        # Left out of //... unless CUDA is on.
        kwargs["target_compatible_with"] = select({
            _CUDA_ENABLED: [],
            "//conditions:default": [_CUDA_ABSENT],
        })
    rule(
        name = name,
        srcs = sources,
        copts = _WARNINGS + copts,
        features = _FEATURES + kwargs.pop("features", []),
        deps = deps + private,
        tags = tags,
        testonly = testonly,
        **kwargs
    )

def tessera_cc_binary(name, srcs = [], deps = [], copts = [], testonly = False, tags = [], **kwargs):
    """A cc_binary with Tessera's warnings; tag it "gpu" where it needs a GPU."""
    _program(cc_binary, name, srcs, deps, copts, testonly, tags, **kwargs)

def _precompiled(srcs, copts):
    """What has a test's sources read headers precompiled, where //tools/precompiled is turned on.

    Flags of the test's own, and those that .bazelrc gives to files of other names, would not fit.

    Args:
      srcs: the test's sources and headers.
      copts: the test's flags.

    Returns:
      A struct of further `deps` and `copts`.
    """
    sources, _ = _split(srcs)
    others = [s for s in sources if not s.endswith("_test.cc")]
    if copts != [] or others or not sources:
        return struct(deps = [], copts = [])
    return struct(
        deps = select({
            _PRECOMPILED_USABLE: [_PRECOMPILED],
            "//conditions:default": [],
        }),
        copts = select({
            # Bazel is told what the precompiled headers were, as if the test had included them.
            _PRECOMPILED_USABLE: ["-include", "tools/precompiled/tests/precompiled.h", "-fpch-deps"],
            "//conditions:default": [],
        }),
    )

def tessera_cc_test(name, size, srcs, deps = [], copts = [], tags = [], data = [], **kwargs):
    """A test with GoogleTest's main. Tag it "gpu" where it needs a GPU, without which nothing runs.

    Args:
      name: the target's name, that of its source without ".cc".
      size: small, medium, large or enormous; there is no default.
      srcs: sources, and headers for them alone.
      deps: libraries; GoogleTest and its main are added.
      copts: flags after the warnings.
      tags: tags.
      data: files that the test reads.
      **kwargs: passed to cc_test.
    """
    precompiled = _precompiled(srcs, copts)
    _program(
        cc_test,
        name,
        srcs,
        deps + [_GTEST, _GPU_TEST_MAIN if "gpu" in tags else _GTEST_MAIN] + precompiled.deps,
        copts + precompiled.copts,
        True,
        tags,
        size = size,
        linkstatic = True,
        data = data + [_SUPPRESSIONS],
        **kwargs
    )

def tessera_cc_tests(size, tests, deps = [], **kwargs):
    """Several tests that differ in their sources and a few libraries.

    Args:
      size: as for tessera_cc_test.
      tests: {test: its further libraries}; its source is TEST.cc.
      deps: the libraries of all of them.
      **kwargs: passed to tessera_cc_test.
    """
    for name, further in tests.items():
        tessera_cc_test(
            name = name,
            size = size,
            srcs = [name + ".cc"],
            deps = deps + [dep for dep in further if dep not in deps],
            **kwargs
        )

def tessera_cc_test_library(name, srcs, deps = [], copts = [], **kwargs):
    """Sources of tests, compiled as those of tessera_cc_test and linked whole into the tests that have it.

    Args:
      name: the target's name.
      srcs: sources, and headers for them alone.
      deps: libraries; GoogleTest is added.
      copts: flags after the warnings.
      **kwargs: passed to cc_library.
    """
    precompiled = _precompiled(srcs, copts)
    tessera_cc_library(
        name = name,
        testonly = True,
        srcs = srcs,
        copts = copts + precompiled.copts,
        deps = deps + [_GTEST] + precompiled.deps,
        alwayslink = True,
        **kwargs
    )

def tessera_cc_test_variants(name, size, srcs, variants, deps = [], copts = [], **kwargs):
    """Tests that run the same code, compiled once, in several environments.

    Args:
      name: what their names begin with.
      size: as for tessera_cc_test.
      srcs: sources.
      variants: {variant: {variable: value}}, one test NAME_VARIANT_test for each.
      deps: libraries; GoogleTest and its main are added.
      copts: flags after the warnings.
      **kwargs: passed to tessera_cc_test.
    """
    tessera_cc_test_library(
        name = name + "_variants",
        srcs = srcs,
        copts = copts,
        deps = deps,
        visibility = ["//visibility:private"],
    )
    for variant, env in variants.items():
        tessera_cc_test(
            name = "%s_%s_test" % (name, variant),
            size = size,
            srcs = [],
            env = env,
            deps = [":%s_variants" % name],
            **kwargs
        )

def tessera_cc_benchmark(name, srcs, deps = [], copts = [], tags = [], main = True, **kwargs):
    """A Google Benchmark program, tagged "benchmark".

    Args:
      name: the target's name.
      srcs: sources, and headers for them alone.
      deps: libraries; Google Benchmark is added.
      copts: flags after the warnings.
      tags: more tags, "gpu" where it needs a GPU.
      main: whether to link Google Benchmark's main; False where the sources have their own.
      **kwargs: passed to cc_binary.
    """
    _program(
        cc_binary,
        name,
        srcs,
        deps + [_BENCHMARK] + ([_BENCHMARK_MAIN] if main else []),
        copts,
        True,
        tags + ["benchmark"],
        **kwargs
    )

def _nvcc(name, srcs, deps, local_defines, copts, testonly):
    """Objects that nvcc makes of `srcs` under --config=cuda. Returns what to add to srcs."""
    nvcc_objects(
        name = name,
        testonly = testonly,
        srcs = srcs,
        deps = deps + [_CUDA],
        local_defines = local_defines,
        copts = copts,
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    return _if_cuda([":" + name])

def tessera_cuda_library(
        name,
        srcs = [],
        hdrs = [],
        deps = [],
        local_defines = [],
        nvcc_copts = [],
        alwayslink = False,
        testonly = False,
        **kwargs):
    """A library whose sources nvcc compiles under --config=cuda; without it, its headers alone.

    Args:
      name: the target's name.
      srcs: .cu or .cc files, all compiled as CUDA, and headers for them alone.
      hdrs: public headers; they must compile without CUDA.
      deps: libraries; the CUDA runtime is added.
      local_defines: NAME=VALUE for these sources alone.
      nvcc_copts: flags for nvcc.
      alwayslink: True where the sources register something.
      testonly: whether only tests may use it.
      **kwargs: passed to cc_library.
    """
    sources, private_headers = _split(srcs)
    headers = _header_library(name + "_headers", hdrs + private_headers, deps, testonly)
    objects = _nvcc(name + "_nvcc", sources, deps + [headers], local_defines, nvcc_copts, testonly)
    cc_library(
        name = name,
        testonly = testonly,
        srcs = objects,
        linkstatic = True,
        alwayslink = alwayslink,
        deps = deps + [headers, _CUDART],
        **kwargs
    )

def tessera_operator_library(
        name,
        srcs,
        hdrs = [],
        deps = [],
        copts = [],
        nvcc_copts = [],
        testonly = False,
        **kwargs):
    """Operators: each source is compiled for the host and, under --config=cuda, once more by nvcc.

    The host's compilation sees TESSERA_XPU_CPU, nvcc's TESSERA_XPU_GPU; everything in the source
    stands in an unnamed namespace, so that the two can be linked together. Registration happens in
    static initialisers, so the library is always linked whole.

    Args:
      name: the target's name.
      srcs: .cc files, and headers for them alone.
      hdrs: public headers, for the few operators that others call directly.
      deps: libraries.
      copts: flags for the host's compiler, after the warnings.
      nvcc_copts: flags for nvcc.
      testonly: whether only tests may use it.
      **kwargs: passed to cc_library.
    """
    sources, private_headers = _split(srcs)
    headers = []
    if hdrs or private_headers:
        headers = [_header_library(name + "_headers", hdrs + private_headers, deps, testonly)]
    objects = _nvcc(
        name + "_nvcc",
        sources,
        deps + headers,
        ["TESSERA_XPU_GPU"],
        nvcc_copts,
        testonly,
    )
    cc_library(
        name = name,
        testonly = testonly,
        srcs = sources + objects,
        copts = _WARNINGS + copts,
        features = _FEATURES + kwargs.pop("features", []),
        local_defines = ["TESSERA_XPU_CPU"],
        linkstatic = True,
        alwayslink = True,
        deps = deps + headers + [_CUDART],
        **kwargs
    )

def tessera_cuda_test(name, size, srcs, deps = [], nvcc_copts = [], tags = [], data = [], **kwargs):
    """A test that nvcc compiles and that needs a GPU: tagged "gpu", left out without CUDA."""
    sources, private_headers = _split(srcs)
    test_deps = deps + [_GTEST]
    if private_headers:
        test_deps = test_deps + [_header_library(name + "_private_headers", private_headers, deps, True)]
    objects = _nvcc(name + "_nvcc", sources, test_deps, [], nvcc_copts, True)
    cc_library(
        name = name + "_objects",
        testonly = True,
        srcs = objects,
        linkstatic = True,
        alwayslink = True,
        deps = test_deps + [_CUDART],
        visibility = ["//visibility:private"],
    )
    _program(
        cc_test,
        name,
        [],
        [":" + name + "_objects", _GPU_TEST_MAIN],
        [],
        True,
        tags + ["gpu"],
        size = size,
        linkstatic = True,
        data = data + [_SUPPRESSIONS],
        **kwargs
    )
