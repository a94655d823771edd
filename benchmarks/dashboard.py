"""Writes a history of records as one static site: bazel run //benchmarks:dashboard -- --history=DIR --out=site

The site is a folder of files that a browser opens from disk as well as from any server: nothing is
fetched from elsewhere. Verdicts since the last commit, week and release are computed here; the page
computes those between any two records itself, by the same statistics (site/statistics.js).
"""

import argparse
import datetime
import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Iterable, Sequence

import comparison
import records

HERE = Path(__file__).resolve().parent
SITE_FILES = (
    "index.html", "style.css", "statistics.js", "model.js", "chart.js", "views.js", "app.js")
DYGRAPHS = HERE.parent / "third_party" / "dygraphs"
DYGRAPHS_FILES = {"dygraph.min.js": "dygraph.min.js", "dygraph.min.css": "dygraph.min.css",
                  "LICENSE": "dygraph.LICENSE"}
SPANS = ("commit", "week", "release")
LABELS = (comparison.REGRESSION, comparison.IMPROVEMENT, comparison.NOISE, comparison.MISSING,
          comparison.NEW)


def rounded(value: float | None, digits: int = 5) -> float | None:
    """Short numbers: the page's data is mostly these, and times mean nothing past a few digits."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def moment(record: dict[str, Any]) -> datetime.datetime:
    """When a record's commit was made; records of no known commit count by their own date."""
    context = record["context"]
    for key in ("commit_date", "date"):
        try:
            found = datetime.datetime.fromisoformat(str(context.get(key, "")))
        except ValueError:
            continue
        return found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)
    return datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)


def baseline(history: Sequence[dict[str, Any]], span: str) -> int | None:
    """The record of one environment that its last one is held against, as an index."""
    last = history[-1]["context"]
    for index in range(len(history) - 2, -1, -1):
        context = history[index]["context"]
        if context.get("commit") == last.get("commit"):
            continue
        if span == "commit":
            return index
        if span == "week" and moment(history[-1]) - moment(history[index]) >= datetime.timedelta(7):
            return index
        if span == "release" and context.get("tags"):
            return index
    return None


def environment_of(record: dict[str, Any]) -> tuple[str, str]:
    return records.machine_of(record), records.build_of(record)


class Environment:
    """The records of one machine and build; nothing is ever compared across two of these."""

    def __init__(self, number: int, key: tuple[str, str]):
        self.number = number
        self.machine, self.build = key
        self.history: list[dict[str, Any]] = []
        self.series: list[dict[str, records.Series]] = []
        self.record_numbers: list[int] = []

    def add(self, number: int, record: dict[str, Any]) -> None:
        self.record_numbers.append(number)
        self.history.append(record)
        self.series.append(records.series_of(record))

    def changes(self) -> dict[str, Any]:
        """For each span the baseline's number and the verdicts."""
        found: dict[str, Any] = {}
        for span in SPANS:
            index = baseline(self.history, span)
            if index is None:
                found[span] = None
                continue
            before, after = self.series[index], self.series[-1]
            verdicts = comparison.compare(before, after)
            found[span] = {
                "record": self.record_numbers[index],
                "powerless": comparison.powerless(before, after, verdicts),
                "verdicts": {v.id: [v.label, rounded(v.ratio), rounded(v.p, 3)] for v in verdicts},
            }
        return found

    def components(self, changes: dict[str, Any]) -> list[dict[str, Any]]:
        """The overview: one row each, with its headline and what changed."""
        last = self.series[-1]
        roofline = records.roofline_of(last)
        names = sorted({s.component for series in self.series for s in series.values()}
                       - {records.ROOFLINE_COMPONENT})
        rows = []
        for name in names:
            own = [s for s in last.values() if s.component == name]
            counts = {}
            for span in SPANS:
                if changes[span] is None:
                    counts[span] = None
                    continue
                labels = [verdict[0] for identifier, verdict in changes[span]["verdicts"].items()
                          if identifier.startswith(name + "/")]
                counts[span] = {label: labels.count(label) for label in LABELS}
            fractions = (roofline.fraction(s) for s in own)
            ratios = (s.peer_ratio for s in own)
            rows.append({
                "name": name, "benchmarks": len(own), "changes": counts,
                "fraction": rounded(geometric_mean(f for f in fractions if f is not None), 3),
                "ratio": rounded(geometric_mean(r for r in ratios if r is not None), 3)})
        return rows

    def benchmarks(self) -> list[dict[str, Any]]:
        """Every benchmark with its history: for each record its number, samples and peers."""
        found: dict[str, dict[str, Any]] = {}
        for number, series, record in zip(self.record_numbers, self.series, self.history):
            roofline = records.roofline_of(series)
            for identifier, s in series.items():
                known = found.setdefault(identifier, {
                    "id": identifier, "environment": self.number, "component": s.component,
                    "program": s.program, "name": s.name, "type": records.type_of(s.name),
                    "size": records.size_of(s.name),
                    "device": "GPU" if "gpu" in s.name.lower() else record["context"].get("device"),
                    "points": []})
                peers = {name: rounded(records.median(values))
                         for name, values in s.peers.items()}
                known["points"].append({
                    "record": number, "seconds": [rounded(x, 7) for x in s.seconds],
                    "fraction": rounded(roofline.fraction(s), 3), "peers": peers})
        return [found[identifier] for identifier in sorted(found)]


def site_data(history: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Everything that the page shows."""
    environments: dict[tuple[str, str], Environment] = {}
    shown = []
    for number, record in enumerate(history):
        key = environment_of(record)
        environment = environments.setdefault(key, Environment(len(environments), key))
        environment.add(number, record)
        context = record["context"]
        shown.append({
            "environment": environment.number, "missing": record.get("missing", {}),
            **{name: context.get(name) for name in (
                "commit", "author", "subject", "commit_date", "date", "tags", "dirty")}})
    described, benchmarks = [], []
    for environment in environments.values():
        changes = environment.changes()
        described.append({
            "machine": environment.machine, "build": environment.build,
            "records": environment.record_numbers, "changes": changes,
            "components": environment.components(changes)})
        benchmarks += environment.benchmarks()
    return {
        "records": shown, "environments": described, "benchmarks": benchmarks,
        "level": comparison.LEVEL, "threshold": comparison.THRESHOLD,
        "newest": shown[-1]["environment"]}


def script_of(data: dict[str, Any]) -> str:
    """The data as a script, since pages opened from disk may not read other files."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return "window.benchmarkData = " + text.replace("<", "\\u003c") + ";\n"


def write_site(history: Sequence[dict[str, Any]], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "data.js").write_text(script_of(site_data(history)), encoding="utf-8")
    for name in SITE_FILES:
        shutil.copyfile(HERE / "site" / name, out / name)
    for name, target in DYGRAPHS_FILES.items():
        shutil.copyfile(DYGRAPHS / name, out / target)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="dashboard", description=__doc__.partition("\n")[0])
    parser.add_argument("--history", type=Path, required=True, help="folder of records")
    parser.add_argument("--out", type=Path, required=True, help="folder for the site")
    options = parser.parse_args(arguments)
    base = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    try:
        history = records.load_history(base / options.history)
    except records.RecordError as error:
        print(f"dashboard: {error}", file=sys.stderr)
        return 2
    out = base / options.out
    write_site(history, out)
    print(f"{len(history)} records in {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
