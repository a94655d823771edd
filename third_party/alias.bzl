"""Alias packages for third-party libraries, each a name and the label that it stands for."""

def third_party_aliases(aliases, testonly = False):
    """Declares one alias for each name; BUILD files outside third_party/ use only these.

    Args:
      aliases: from the alias's name to the library's label.
      testonly: whether only tests and benchmarks may use them.
    """
    for name, actual in aliases.items():
        native.alias(
            name = name,
            actual = actual,
            testonly = testonly,
            visibility = ["//:__subpackages__"],
        )
