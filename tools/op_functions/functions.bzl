"""C++ functions for the registered operators, written while building.

A genrule's tool would be built for the machine that builds, and with it all operators a second time. The
generator is therefore built like the code that its output becomes part of, and run.
"""

def _op_functions_impl(ctx):
    arguments = ["%s=%s" % pair for pair in zip(
        ctx.attr.kinds,
        [file.path for file in ctx.outputs.outs],
    )]
    ctx.actions.run(
        executable = ctx.executable._generator,
        outputs = ctx.outputs.outs,
        arguments = arguments,
        # The registry lives as long as its process.
        env = {"ASAN_OPTIONS": "detect_leaks=0"},
        mnemonic = "OpFunctions",
        progress_message = "Writing operators as C++ functions: %s" % ctx.label,
    )
    return [DefaultInfo(
        files = depset(ctx.outputs.outs),
        runfiles = ctx.runfiles(files = ctx.outputs.outs),
    )]

_op_functions = rule(
    implementation = _op_functions_impl,
    attrs = {
        "kinds": attr.string_list(),
        "outs": attr.output_list(),
        "_generator": attr.label(
            default = "//tools/op_functions:generate",
            executable = True,
            cfg = "target",
        ),
    },
)

def op_functions(name, files, **kwargs):
    """Writes files of functions.

    Args:
      name: the target's name.
      files: {file: kind}; generate.cc lists the kinds.
      **kwargs: passed to the rule.
    """
    _op_functions(
        name = name,
        outs = files.keys(),
        kinds = files.values(),
        **kwargs
    )
