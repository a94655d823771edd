"""Verdicts: what changed between two records of one machine and one build."""

import math
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import ranks
import records

LEVEL = 0.05  # chance of any false alarm in one comparison
THRESHOLD = 0.05  # smallest change of the median that is called a change

LABELS = REGRESSION, IMPROVEMENT, NOISE, MISSING, NEW = (
    "regression", "improvement", "noise", "missing", "new")


@dataclass(frozen=True)
class Verdict:
    id: str
    label: str
    before: float = math.nan  # median seconds
    after: float = math.nan
    u: float = math.nan
    p: float = math.nan  # adjusted for all benchmarks of the comparison

    @property
    def ratio(self) -> float:
        """Time after over time before: above 1 is slower."""
        return self.after / self.before if self.before > 0 else math.nan


def compare(
    before: dict[str, records.Series],
    after: dict[str, records.Series],
    level: float = LEVEL,
    threshold: float = THRESHOLD,
    asked: Callable[[str], bool] = lambda component: True,
) -> list[Verdict]:
    """One verdict for each benchmark of either record, in the order of their names.

    A change is a regression or an improvement where the adjusted p is below `level` and the median
    moved by more than `threshold`; both, since with many repetitions a thousandth can be significant.
    Only what belongs to a component that the later session was `asked` for can be missing from it.
    """
    both = sorted(key for key in before if key in after and _judged(key))
    tests = [ranks.mann_whitney(after[key].seconds, before[key].seconds) for key in both]
    verdicts = []
    for key, test, p in zip(both, tests, ranks.holm([test.p for test in tests])):
        old = records.median(before[key].seconds)
        new = records.median(after[key].seconds)
        label = NOISE
        if p < level and new > old * (1 + threshold):
            label = REGRESSION
        elif p < level and new < old / (1 + threshold):
            label = IMPROVEMENT
        verdicts.append(Verdict(key, label, old, new, test.u, p))
    for key in before.keys() - after.keys():
        if _judged(key) and asked(before[key].component):
            verdicts.append(Verdict(key, MISSING, before=records.median(before[key].seconds)))
    for key in after.keys() - before.keys():
        if _judged(key):
            verdicts.append(Verdict(key, NEW, after=records.median(after[key].seconds)))
    return sorted(verdicts, key=lambda verdict: verdict.id)


def machine_changes(
    before: dict[str, records.Series],
    after: dict[str, records.Series],
    threshold: float = THRESHOLD,
) -> dict[str, float]:
    """What the machine itself did otherwise in the second session, by the cases of the roofline.

    The best time after over the best before, where they differ by more than `threshold`: a clock, a
    neighbour or a power limit that moved, and may have moved every benchmark with it.
    """
    ratios = {key: min(after[key].seconds) / min(before[key].seconds)
              for key in sorted(before.keys() & after.keys()) if not _judged(key)}
    return {key: ratio for key, ratio in ratios.items()
            if ratio > 1 + threshold or ratio < 1 / (1 + threshold)}


def _judged(identifier: str) -> bool:
    # The roofline measures the machine; it is context for the others, and no work of ours.
    return not identifier.startswith(records.ROOFLINE_COMPONENT + "/")


def powerless(
    before: dict[str, records.Series],
    after: dict[str, records.Series],
    verdicts: Sequence[Verdict],
    level: float = LEVEL,
) -> int:
    """How many benchmarks have so few repetitions that not even a tenfold change could show."""
    tests = [v for v in verdicts if v.label in (REGRESSION, IMPROVEMENT, NOISE)]
    return sum(
        ranks.smallest_p(len(before[v.id].seconds), len(after[v.id].seconds)) * len(tests) >= level
        for v in tests)


def repetitions_needed(tests: int, level: float = LEVEL) -> int:
    """Repetitions in each record with which one change among so many benchmarks can show."""
    count = 1
    while ranks.smallest_p(count, count) * max(1, tests) >= level:
        count += 1
    return count


def comparable(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return not records.differences(a, b)
