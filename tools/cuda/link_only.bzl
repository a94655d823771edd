"""Libraries that take part in linking and in nothing else."""

load("@rules_cc//cc:defs.bzl", "CcInfo")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")

def _link_only_impl(ctx):
    return [CcInfo(linking_context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).linking_context)]

link_only = rule(
    implementation = _link_only_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    doc = """What `deps` add to a link. A cc_library would also hand on where it lies: its repository's
folder among the include paths gives whatever depends on it another command line.""",
)
