"""Rank statistics for small samples of times: Mann-Whitney's U, exactly, and Holm's correction.

Times of a benchmark are skewed and have outliers, so means and normal theory say little about them;
ranks do not care. H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables
is stochastically larger than the other", Annals of Mathematical Statistics 18 (1947).
"""

import functools
import math
from typing import NamedTuple, Sequence

# Pairs of values up to which p is exact: two samples of 30, or 5 beside 180. Beyond, where the exact p
# starts to take noticeable time, the normal approximation is within 0.012 of it if each sample has 5
# values or more, and too large where p is small: it raises no alarm that the exact one would not.
EXACT_LIMIT = 900


class RankTest(NamedTuple):
    """U counts the pairs in which the first sample's value is the larger; a tie counts half."""

    u: float
    p: float  # two-sided


def _tied_groups(a: Sequence[float], b: Sequence[float]) -> list[tuple[int, int]]:
    """Sizes of the groups of equal values in ascending order: (all of them, those of a)."""
    groups: list[tuple[int, int]] = []
    last = math.nan
    for value, first in sorted([(x, 1) for x in a] + [(x, 0) for x in b]):
        if value == last:
            groups[-1] = (groups[-1][0] + 1, groups[-1][1] + first)
        else:
            groups.append((1, first))
        last = value
    return groups


@functools.lru_cache(maxsize=64)  # most benchmarks of a comparison have no ties and sizes in common
def distribution(n: int, m: int, group_sizes: tuple[int, ...]) -> dict[int, int]:
    """Number of ways to deal n + m ranked values into samples of n and m, by twice the U of the first.

    Under the hypothesis that nothing differs every way is equally likely. Values of one group are
    tied: a pair within a group adds one half to U, which is why U is counted twice.
    """
    # ways[k][u2]: k values dealt to the first sample so far.
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(n)]
    below = 0
    for size in group_sizes:
        after: list[dict[int, int]] = [{} for _ in range(n + 1)]
        for k, totals in enumerate(ways):
            second_below = below - k
            for taken in range(min(size, n - k) + 1):
                if second_below + size - taken > m:
                    continue
                # Each of the taken ones beats what the second sample has below the group, and ties
                # with what it has in the group.
                gain = taken * (2 * second_below + size - taken)
                choices = math.comb(size, taken)
                target = after[k + taken]
                for u2, count in totals.items():
                    target[u2 + gain] = target.get(u2 + gain, 0) + count * choices
        ways = after
        below += size
    return ways[n]


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> RankTest:
    """Tests whether a's values tend to be larger or smaller than b's.

    Exact, ties included, for up to EXACT_LIMIT pairs of values; beyond, the normal approximation
    with corrections for ties and continuity. Samples must not be empty.
    """
    n, m = len(a), len(b)
    if n == 0 or m == 0:
        raise ValueError("a rank test needs two samples that are not empty")
    groups = _tied_groups(a, b)
    u2 = 0
    below = 0
    for size, first in groups:
        u2 += first * (2 * below + size - first)
        below += size - first
    distance = abs(u2 - n * m)  # from the middle, in halves of U
    if n * m <= EXACT_LIMIT:
        ways = distribution(n, m, tuple(size for size, _ in groups))
        as_far = sum(count for value, count in ways.items() if abs(value - n * m) >= distance)
        return RankTest(u2 / 2, as_far / math.comb(n + m, n))
    total = n + m
    ties = sum(size**3 - size for size, _ in groups) / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - ties)
    if variance <= 0:
        return RankTest(u2 / 2, 1.0)
    z = max(0.0, distance / 2 - 0.5) / math.sqrt(variance)
    return RankTest(u2 / 2, min(1.0, math.erfc(z / math.sqrt(2))))


def smallest_p(n: int, m: int) -> float:
    """The smallest two-sided p that samples of these sizes can give: all of one below the other."""
    return min(1.0, 2 / math.comb(n + m, n))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p-values of many tests so that the chance of any false alarm stays below the level.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979). Unlike false-discovery procedures it keeps "nothing but noise" quiet as a
    whole, which is what a page that is looked at after every commit needs.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    worst = 0.0
    for place, i in enumerate(order):
        worst = max(worst, min(1.0, p_values[i] * (len(p_values) - place)))
        adjusted[i] = worst
    return adjusted
