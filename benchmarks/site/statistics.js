// The rank statistics of ranks.py and the verdicts of comparison.py, for pairs of records that are
// picked on the page. A test in a browser holds the two to the same values.
"use strict";

const Statistics = (() => {
  const EXACT_LIMIT = 900;
  const distributions = new Map(); // most benchmarks have no ties, and sizes in common

  function median(values) {
    const sorted = [...values].sort((x, y) => x - y);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  // The value below which a share of the sample lies, between neighbours linearly.
  function quantile(values, share) {
    const sorted = [...values].sort((x, y) => x - y);
    const at = share * (sorted.length - 1);
    const below = Math.floor(at);
    const above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
  }

  function choose(n, k) {
    let result = 1;
    for (let i = 1; i <= k; ++i) result = (result * (n - k + i)) / i;
    return Math.round(result);
  }

  // Groups of equal values in ascending order: how many there are, how many of them are a's.
  function tiedGroups(a, b) {
    const all = [...a.map((x) => [x, 1]), ...b.map((x) => [x, 0])].sort((x, y) => x[0] - y[0]);
    const groups = [];
    let last;
    for (const [value, first] of all) {
      if (groups.length && value === last) {
        groups[groups.length - 1].size += 1;
        groups[groups.length - 1].first += first;
      } else {
        groups.push({ size: 1, first });
      }
      last = value;
    }
    return groups;
  }

  // Ways to deal ranked values into samples of n and m, by twice the first one's U.
  function distribution(n, m, sizes) {
    const key = `${n} ${m} ${sizes}`;
    if (!distributions.has(key)) distributions.set(key, deal(n, m, sizes));
    return distributions.get(key);
  }
  function deal(n, m, sizes) {
    let ways = Array.from({ length: n + 1 }, () => new Map());
    ways[0].set(0, 1);
    let below = 0;
    for (const size of sizes) {
      const after = Array.from({ length: n + 1 }, () => new Map());
      ways.forEach((totals, k) => {
        const secondBelow = below - k;
        for (let taken = 0; taken <= Math.min(size, n - k); ++taken) {
          if (secondBelow + size - taken > m) continue;
          const gain = taken * (2 * secondBelow + size - taken);
          const choices = choose(size, taken);
          const target = after[k + taken];
          for (const [u2, count] of totals) {
            target.set(u2 + gain, (target.get(u2 + gain) || 0) + count * choices);
          }
        }
      });
      ways = after;
      below += size;
    }
    return ways[n];
  }

  // For x >= 0, to 12 digits: the series and the continued fraction of Abramowitz and Stegun,
  // "Handbook of Mathematical Functions" (1964), 7.1.6 and 7.1.14.
  function erfc(x) {
    const scale = Math.exp(-x * x) / Math.sqrt(Math.PI);
    if (x > 2) {
      let fraction = x;
      for (let k = 80; k > 0; --k) fraction = x + k / 2 / fraction;
      return scale / fraction;
    }
    let sum = 0;
    for (let k = 0, term = 2 * x; k < 50; ++k, term *= (2 * x * x) / (2 * k + 1)) sum += term;
    return 1 - scale * sum;
  }

  function mannWhitney(a, b) {
    const n = a.length, m = b.length;
    const groups = tiedGroups(a, b);
    let u2 = 0, below = 0;
    for (const { size, first } of groups) {
      u2 += first * (2 * below + size - first);
      below += size - first;
    }
    const distance = Math.abs(u2 - n * m);
    if (n * m <= EXACT_LIMIT) {
      let far = 0, all = 0;
      for (const [value, count] of distribution(n, m, groups.map((g) => g.size))) {
        all += count;
        if (Math.abs(value - n * m) >= distance) far += count;
      }
      return { u: u2 / 2, p: far / all };
    }
    const total = n + m;
    const ties = groups.reduce((sum, g) => sum + g.size ** 3 - g.size, 0) / (total * (total - 1));
    const variance = ((n * m) / 12) * (total + 1 - ties);
    if (variance <= 0) return { u: u2 / 2, p: 1 };
    const z = Math.max(0, distance / 2 - 0.5) / Math.sqrt(variance);
    return { u: u2 / 2, p: Math.min(1, erfc(z / Math.SQRT2)) };
  }

  function holm(values) {
    const order = values.map((_, i) => i).sort((i, j) => values[i] - values[j]);
    const adjusted = [];
    let worst = 0;
    order.forEach((i, place) => {
      worst = Math.max(worst, Math.min(1, values[i] * (values.length - place)));
      adjusted[i] = worst;
    });
    return adjusted;
  }

  // pairs: [{id, before, after}], samples in seconds, either of which may be absent.
  function compare(pairs, level, threshold) {
    const both = pairs.filter((pair) => pair.before && pair.after);
    const tests = both.map((pair) => mannWhitney(pair.after, pair.before));
    const adjusted = holm(tests.map((test) => test.p));
    const verdicts = new Map();
    both.forEach((pair, i) => {
      const before = median(pair.before), after = median(pair.after);
      let label = "noise";
      if (adjusted[i] < level && after > before * (1 + threshold)) label = "regression";
      if (adjusted[i] < level && after < before / (1 + threshold)) label = "improvement";
      verdicts.set(pair.id, { label, before, after, u: tests[i].u, p: adjusted[i] });
    });
    return pairs.map((pair) => ({ id: pair.id, ...(verdicts.get(pair.id) || (pair.before
      ? { label: "missing", before: median(pair.before) }
      : { label: "new", after: median(pair.after) })) }));
  }

  return { median, quantile, mannWhitney, holm, compare };
})();
