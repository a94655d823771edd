"""What Bazel 4.2 to 7 need to build C++ without a network, where nothing better was declared.

These Bazels carry the C++ and shell rules themselves, and only look for them under the labels of
rules_cc and rules_shell. A workspace that brings its own rules_cc or rules_shell keeps it: call
tessera_bazel_deps() after declaring yours, or not at all where you declare both. With the stand-in
for remote_coverage_tools `bazel coverage` finds nothing to run.
"""

_PUBLIC = "package(default_visibility = [\"//visibility:public\"])\n"

def _stand_in_repository_impl(repository_ctx):
    repository_ctx.file("BUILD", _PUBLIC)
    for label, path in repository_ctx.attr.files.items():
        if "/" in path:
            repository_ctx.file(path.rpartition("/")[0] + "/BUILD", _PUBLIC)
        repository_ctx.file(path, repository_ctx.read(label))

_stand_in_repository = repository_rule(
    implementation = _stand_in_repository_impl,
    attrs = {"files": attr.label_keyed_string_dict(allow_files = True)},
)

_STAND_INS = {
    "remote_coverage_tools": {"//third_party/bazel:coverage_tools.BUILD.in": "BUILD"},
    "rules_cc": {
        "//third_party/bazel:cc_common.bzl.in": "cc/common/cc_common.bzl",
        "//third_party/bazel:rules_cc.bzl.in": "cc/defs.bzl",
        "//third_party/bazel:rules_cc_native.bzl.in": "cc/private/native.bzl",
    },
    "rules_java": {"//third_party/bazel:rules_java.bzl.in": "java/defs.bzl"},
    "rules_shell": {
        "//third_party/bazel:sh_binary.bzl.in": "shell/sh_binary.bzl",
        "//third_party/bazel:sh_test.bzl.in": "shell/sh_test.bzl",
    },
}

def tessera_bazel_deps():
    """Declares stand-ins for the rule repositories that nobody declared before."""
    for name, files in _STAND_INS.items():
        if not native.existing_rule(name):
            _stand_in_repository(
                name = name,
                files = {Label(label): path for label, path in files.items()},
            )
