"""Programs and tests in plain Python, started by a shell rule.

Bazel's own Python rules need a toolchain that a machine without a network may lack, and changed
their home between Bazel 4.2 and 9; Python 3 and its standard library are all that these need.
"""

load("@rules_shell//shell:sh_binary.bzl", "sh_binary")
load("@rules_shell//shell:sh_test.bzl", "sh_test")

_LAUNCHER = "//benchmarks:launch.sh"

def python_program(name, main, data = [], **kwargs):
    """A program for `bazel run`; `data` names its modules and files."""
    sh_binary(
        name = name,
        srcs = [_LAUNCHER],
        args = ["$(rootpath %s)" % main],
        data = [main] + data,
        **kwargs
    )

def python_test(name, size, main = None, data = [], **kwargs):
    """A test whose module is run as a program."""
    main = main or name + ".py"
    sh_test(
        name = name,
        size = size,
        srcs = [_LAUNCHER],
        args = ["$(rootpath %s)" % main],
        data = [main] + data,
        **kwargs
    )
