"""A family of operators: one line for each."""

load("//tools:tessera.bzl", "tessera_cc_library", "tessera_operator_library")

def tessera_operator_family(name, operators):
    """The libraries of a family: its operators in NAME, their tests' rows in NAME_rows.

    Args:
      name: the family's name, that of its folder.
      operators: {operator: its libraries besides //ops:kernel}. Its source is OPERATOR.cc, and
        OPERATOR_test.cc beside it declares its row for the shared tests.
    """
    for operator, deps in operators.items():
        tessera_operator_library(
            name = operator,
            srcs = [operator + ".cc"],
            deps = ["//ops:kernel"] + deps,
        )
    tessera_cc_library(
        name = name,
        deps = [":" + operator for operator in operators],
    )
    tessera_cc_library(
        name = name + "_rows",
        testonly = True,
        srcs = [operator + "_test.cc" for operator in operators],
        alwayslink = True,
        deps = ["//ops/testing:operator_row"],
    )
