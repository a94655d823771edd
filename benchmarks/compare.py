"""Compares two records: bazel run //benchmarks:compare -- BEFORE.json AFTER.json

Prints one line for each benchmark that changed (all of them with --all), then one for each component.
Exit status:
0 where nothing regressed, 1 for a regression beyond the threshold or a benchmark that went missing
(--allow-missing takes those), 2 where the records cannot be read or must not be compared.
"""

import argparse
import functools
import math
import os
import sys
from pathlib import Path
from typing import Sequence

import comparison
import records


def seconds_text(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns" if seconds == seconds else "-"


def table(verdicts: Sequence[comparison.Verdict]) -> str:
    rows = [("benchmark", "before", "after", "ratio", "U", "p", "verdict")]
    for v in verdicts:
        judged = v.label not in (comparison.MISSING, comparison.NEW)
        rows.append((
            v.id, seconds_text(v.before), seconds_text(v.after),
            f"{v.ratio:.3f}" if judged else "-", f"{v.u:g}" if judged else "-",
            f"{v.p:.2g}" if judged else "-", v.label))
    return aligned(rows)


def by_component(verdicts: Sequence[comparison.Verdict]) -> str:
    """How many benchmarks of each component have which verdict, and the mean of their ratios."""
    rows = [("component", *comparison.LABELS, "ratio")]
    for component in sorted({v.id.partition("/")[0] for v in verdicts}):
        own = [v for v in verdicts if v.id.startswith(component + "/")]
        logs = [math.log(v.ratio) for v in own if v.ratio > 0]
        rows.append((component, *(str(sum(v.label == label for v in own)) for label in comparison.LABELS),
                     f"{math.exp(sum(logs) / len(logs)):.3f}" if logs else "-"))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table with names on its left side and words on its right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1])]
        lines.append("  ".join(cells + [row[-1]]))
    return "\n".join(lines)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="compare", description="Compares two records of //benchmarks:run by rank statistics.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--threshold", type=float, default=comparison.THRESHOLD,
                        help="smallest change of a median that counts (default %(default)s)")
    parser.add_argument("--level", type=float, default=comparison.LEVEL,
                        help="chance of any false alarm (default %(default)s)")
    parser.add_argument("--all", action="store_true", help="print what did not change too")
    parser.add_argument("--allow-missing", action="store_true",
                        help="benchmarks of BEFORE may be missing from AFTER")
    parser.add_argument("--across", action="store_true",
                        help="compare records of different machines or builds after all")
    options = parser.parse_args(arguments)
    if not options.threshold >= 0 or not 0 < options.level < 1:
        parser.error("--threshold must be 0 or more, --level between 0 and 1")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    # `bazel run` starts programs elsewhere; paths are meant from where the person stands.
    base = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    try:
        before, after = (records.load(base / path) for path in (options.before, options.after))
    except records.RecordError as error:
        print(error, file=sys.stderr)
        return 2
    reasons = records.differences(before, after)
    if reasons:
        print("the records come from different machines or builds:", file=sys.stderr)
        print("\n".join("  " + reason for reason in reasons), file=sys.stderr)
        if not options.across:
            print("their times say nothing about the code; --across compares them anyway.",
                  file=sys.stderr)
            return 2
    old, new = records.series_of(before), records.series_of(after)
    verdicts = comparison.compare(
        old, new, options.level, options.threshold, functools.partial(records.was_asked, after))
    if not verdicts:
        print("the records have no benchmark in common", file=sys.stderr)
        return 2
    shown = [v for v in verdicts if options.all or v.label != comparison.NOISE]
    if shown:
        print(table(shown), end="\n\n")
    print(by_component(verdicts))
    count = {label: sum(v.label == label for v in verdicts) for label in comparison.LABELS}
    print(", ".join(f"{number} {label}" for label, number in count.items()))
    weak = comparison.powerless(old, new, verdicts, options.level)
    if weak:
        tested = sum(count[label] for label in (
            comparison.REGRESSION, comparison.IMPROVEMENT, comparison.NOISE))
        needed = comparison.repetitions_needed(tested, options.level)
        print(f"{weak} of them have too few repetitions for any verdict but noise; "
              f"with {needed} each, a change could show")
    for key, ratio in comparison.machine_changes(old, new, options.threshold).items():
        print(f"the machine itself: {key} takes {ratio:.3f} times as long as before")
    for path, record in ((options.before, before), (options.after, after)):
        if record["context"].get("dirty"):
            print(f"{path} was measured with local changes to {record['context'].get('commit')}")
    failed = count[comparison.REGRESSION] or (
        count[comparison.MISSING] and not options.allow_missing)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
