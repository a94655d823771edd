"""Exact values against published tables, and against the definition by brute force."""

import itertools
import math
import unittest

import ranks

# P(U <= u) for u = 0, 1, 2, ...: Mann and Whitney (1947), table I.
PUBLISHED = {
    (3, 3): [0.050, 0.100, 0.200, 0.350, 0.500],
    (2, 4): [0.067, 0.133, 0.267, 0.400, 0.600],
    (4, 4): [0.014, 0.029, 0.057, 0.100, 0.171, 0.243, 0.343, 0.443, 0.557],
    (5, 5): [0.004, 0.008, 0.016, 0.028, 0.048, 0.075, 0.111, 0.155, 0.210, 0.274, 0.345, 0.421, 0.500],
}

# Largest U that is significant at 0.05, two-sided: the usual textbook table.
CRITICAL = {
    (3, 5): 0, (4, 4): 0, (4, 6): 2, (5, 5): 2, (5, 8): 6, (6, 6): 5, (7, 7): 8, (8, 8): 13,
    (9, 9): 17, (10, 10): 23, (12, 15): 49, (20, 20): 127,
}


def cumulative(n: int, m: int) -> list[float]:
    ways = ranks.distribution(n, m, (1,) * (n + m))
    counts = [ways.get(2 * u, 0) for u in range(n * m + 1)]
    return [c / math.comb(n + m, n) for c in itertools.accumulate(counts)]


class MannWhitneyTest(unittest.TestCase):
    def test_distribution_is_the_published_one(self) -> None:
        for (n, m), expected in PUBLISHED.items():
            for u, p in enumerate(expected):
                with self.subTest(n=n, m=m, u=u):
                    self.assertAlmostEqual(cumulative(n, m)[u], p, delta=0.0005 + 1e-9)

    def test_critical_values_are_the_published_ones(self) -> None:
        for (n, m), u in CRITICAL.items():
            for one, other in ((n, m), (m, n)):
                with self.subTest(n=one, m=other):
                    tail = cumulative(one, other)
                    self.assertLessEqual(2 * tail[u], 0.05)
                    self.assertGreater(2 * tail[u + 1], 0.05)

    def test_agrees_with_counting_every_deal(self) -> None:
        for values, n in (((1, 2, 3, 4, 5, 6, 7), 3), ((1, 1, 2, 2, 2, 3, 9), 4), ((5, 5, 5, 5), 2)):
            for chosen in itertools.combinations(range(len(values)), n):
                a = [values[i] for i in chosen]
                b = [values[i] for i in range(len(values)) if i not in chosen]
                with self.subTest(a=a, b=b):
                    found = ranks.mann_whitney(a, b)
                    u, p = self.by_definition(a, b)
                    self.assertEqual(found.u, u)
                    self.assertAlmostEqual(found.p, p, places=12)

    @staticmethod
    def by_definition(a: list[int], b: list[int]) -> tuple[float, float]:
        def u_of(x: list[int], y: list[int]) -> float:
            return sum(1.0 if i > j else 0.5 if i == j else 0.0 for i in x for j in y)

        everything = a + b
        middle = len(a) * len(b) / 2
        wanted = abs(u_of(a, b) - middle)
        hits = deals = 0
        for chosen in itertools.combinations(range(len(everything)), len(a)):
            x = [everything[i] for i in chosen]
            y = [everything[i] for i in range(len(everything)) if i not in chosen]
            deals += 1
            hits += abs(u_of(x, y) - middle) >= wanted
        return u_of(a, b), hits / deals

    def test_swapping_the_samples_keeps_p(self) -> None:
        a, b = [1.0, 4.0, 4.0, 7.0], [2.0, 4.0, 9.0]
        self.assertEqual(ranks.mann_whitney(a, b).p, ranks.mann_whitney(b, a).p)
        self.assertEqual(ranks.mann_whitney(a, b).u + ranks.mann_whitney(b, a).u, 12)

    def test_large_samples_approach_the_exact_value(self) -> None:
        a = [float(3 * i % 41) for i in range(31)]
        b = [float(7 * i % 43) + 6 for i in range(31)]
        approximate = ranks.mann_whitney(a, b)
        limit = ranks.EXACT_LIMIT
        try:
            ranks.EXACT_LIMIT = 1000
            exact = ranks.mann_whitney(a, b)
        finally:
            ranks.EXACT_LIMIT = limit
        self.assertNotEqual(approximate.p, exact.p)
        self.assertAlmostEqual(approximate.p, exact.p, delta=0.001)

    def test_a_few_values_beside_many_are_exact(self) -> None:
        many = [float(i) for i in range(100)]
        for count in range(1, 6):
            below = [-1.0 - i for i in range(count)]
            self.assertAlmostEqual(
                ranks.mann_whitney(below, many).p, ranks.smallest_p(count, 100), places=15)

    def test_equal_values_are_no_evidence(self) -> None:
        self.assertEqual(ranks.mann_whitney([2.0] * 5, [2.0] * 5).p, 1.0)
        self.assertEqual(ranks.mann_whitney([2.0] * 50, [2.0] * 50).p, 1.0)

    def test_an_empty_sample_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            ranks.mann_whitney([], [1.0])

    def test_smallest_p(self) -> None:
        self.assertAlmostEqual(ranks.smallest_p(5, 5), 2 / 252)
        self.assertAlmostEqual(ranks.mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]).p, 2 / 252)


class HolmTest(unittest.TestCase):
    def test_example(self) -> None:
        # 4 x 0.005, 3 x 0.01, then 2 x 0.03, which 0.04 may not undercut.
        for found, expected in zip(ranks.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]):
            self.assertAlmostEqual(found, expected)

    def test_never_above_one(self) -> None:
        self.assertEqual(ranks.holm([0.6, 0.9]), [1.0, 1.0])
        self.assertEqual(ranks.holm([]), [])


if __name__ == "__main__":
    unittest.main()
