"""A family of operators: one line for each."""

load("//tools:tessera.bzl", "tessera_cc_library", "tessera_cc_test_library", "tessera_operator_library")

# The families that graphs and arrays call themselves.
CORE_FAMILIES = [
    "adjoint",
    "elemwise",
    "index",
    "reduce",
    "shape",
]

# The others. A folder below a family's is a part of the family.
FURTHER_FAMILIES = [
    "image",
    "linalg",
    "linalg/factors",
    "loss",
    "nn",
    "norm",
    "optimizer",
    "order",
    "quantization",
    "random",
    "rnn",
    "sequence",
    "vision",
    "vision/boxes",
    "vision/regions",
]

# Tables have plain loops over rows of elements, of which the compiler makes vectors. Integers wrap
# around. A choice between two values becomes a part of a vector only if operations may set the flags of
# floating-point exceptions, which nothing reads.
_TABLE_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
]

def _operator(name, on_gpu, copts, deps):
    if on_gpu:
        tessera_operator_library(name = name, srcs = [name + ".cc"], copts = copts, deps = deps)
    else:
        tessera_cc_library(
            name = name,
            srcs = [name + ".cc"],
            copts = copts,
            deps = deps,
            # Nothing names an operator but its registration.
            alwayslink = True,
        )

def tessera_operator_family(
        name,
        operators = {},
        tables = {},
        gpu = [],
        row_deps = [],
        parts = [],
        forms = [],
        calls = ["//ops:core"],
        headers = []):
    """A family: its operators in NAME, their tests' rows in NAME_rows.

    NAME_sources are the sources that register operators, NAME_files all sources.

    The source of an operator or table is its name with .cc, and beside it _test.cc declares the rows
    for the shared tests.

    Args:
      name: the family's name, that of its folder.
      operators: {operator: its libraries}.
      tables: {table of operators: its libraries}.
      gpu: those of them that nvcc compiles too; the others run on the CPU alone.
      row_deps: libraries that the rows share, besides //ops/testing:operator_row.
      parts: families in folders below this one, which belong to it.
      forms: libraries that say what the operators do with sparse arrays.
      calls: the families whose operators this one's gradients, or its operators, call by name. The core's
        own families call each other and leave it empty.
      headers: libraries whose headers the family's callers include.
    """
    for operator, deps in operators.items():
        _operator(operator, operator in gpu, [], deps)
    for table, deps in tables.items():
        _operator(table, table in gpu, _TABLE_COPTS, deps)
    sources = operators.keys() + tables.keys()
    tessera_cc_library(
        name = name,
        visibility = ["//tools/visibility:ops_users"],
        deps = [":" + source for source in sources] + parts + forms + calls + headers,
    )
    native.filegroup(
        name = name + "_sources",
        srcs = [source + ".cc" for source in sources],
    )
    tessera_cc_test_library(
        name = name + "_rows",
        srcs = [source + "_test.cc" for source in sources],
        visibility = [
            "//ops:__subpackages__",
            "//tests:__subpackages__",
        ],
        deps = ["//ops/testing:operator_row"] + row_deps + [
            "%s:%s_rows" % (part, part.split("/")[-1])
            for part in parts
        ],
    )
    native.filegroup(
        name = name + "_files",
        srcs = native.glob([
            "*.cc",
            "*.h",
        ]),
    )
