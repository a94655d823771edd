"""Writes a history of records as one static site: bazel run //benchmarks:dashboard -- --history=DIR --out=site

The site is a folder of files that a browser opens from disk as well as from any server: nothing is
fetched from elsewhere. Verdicts since the last commit, week and release are computed here; the page
computes those between any two records itself, by the same statistics (site/statistics.js).
"""

import argparse
import datetime
import functools
import json
import math
import os
import shutil
import sys
import zlib
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
DATA_FILE = "data.js"
# By its first words the data of an earlier site is known.
DATA_BEGINS = "window.benchmarkData = "
SPANS = ("commit", "week", "release")


def rounded(value: float | None, digits: int = 5) -> float | None:
    """Short numbers: the page's data is mostly these, and times mean nothing past a few digits."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def baseline(history: Sequence[dict[str, Any]], span: str) -> int | None:
    """The record of one environment that its last one is held against, as an index.

    Records with local changes are nobody's baseline; one of them at the end is held against its commit.
    Nor are sessions that measured less than the last one, in which all the rest would seem new.
    """
    last = history[-1]["context"]
    for index in range(len(history) - 2, -1, -1):
        context = history[index]["context"]
        if not covers(history[index], history[-1]):
            continue
        if context.get("dirty") or (
                context.get("commit") == last.get("commit") and not last.get("dirty")):
            continue
        if span == "commit":
            return index
        age = records.moment(history[-1]) - records.moment(history[index])
        if span == "week" and age >= datetime.timedelta(7):
            return index
        if span == "release" and context.get("tags"):
            return index
    return None


def covers(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Whether a session was asked for what a later one was, peers beside other components aside."""
    components, filtered = records.asked_of(earlier)
    wanted, by = records.asked_of(later)
    wanted = wanted - {records.PEERS_COMPONENT} or wanted
    return filtered in ("", by) and all(records.includes(components, name) for name in wanted)


def joined(history: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The history with sessions that measured different components of one commit as one record.

    The peers have a session of their own, for example. The roofline is the first one's; a session with a
    filter, of a tree with local changes, or of no known commit stays alone.
    """
    found: list[dict[str, Any]] = []
    for record in history:
        into = next((other for other in reversed(found) if _complement(other, record)), None)
        if into is None:
            found.append({**record, "runs": list(record["runs"])})
            continue
        into["runs"] += [run for run in record["runs"]
                         if run["component"] != records.ROOFLINE_COMPONENT]
        into["missing"] = {**into.get("missing", {}), **record.get("missing", {})}
        into["asked"] = {"components": sorted(records.asked_of(into)[0] | records.asked_of(record)[0]),
                         "filter": ""}
    return found


def _complement(one: dict[str, Any], other: dict[str, Any]) -> bool:
    contexts = one["context"], other["context"]
    asked = records.asked_of(one), records.asked_of(other)
    return (environment_of(one) == environment_of(other) and
            contexts[0].get("commit") == contexts[1].get("commit") != "unknown" and
            not any(context.get("dirty") for context in contexts) and
            not any(filtered for _, filtered in asked) and
            not any(records.was_asked(one, component) for component in asked[1][0]) and
            not any(records.was_asked(other, component) for component in asked[0][0]))


def record_id(record: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    """The commit and the session's date, by which addresses name a record."""
    context = record["context"]
    base = f"{str(context.get('commit'))[:10]}-{str(context.get('date'))[:19].replace(':', '')}"
    same = sum(other["id"].startswith(base) for other in others)
    return f"{base}-{same}" if same else base


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

    @property
    def id(self) -> str:
        """By this addresses name it: it stays the same in a longer history."""
        return f"{zlib.crc32(f'{self.machine}; {self.build}'.encode()):08x}"

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
            verdicts = comparison.compare(
                before, after, asked=functools.partial(records.was_asked, self.history[-1]))
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
                counts[span] = {label: labels.count(label) for label in comparison.LABELS}
            fractions = [f for f in map(roofline.fraction, own) if f is not None]
            ratios = [s.peer_ratio for s in own if s.peer_ratio is not None]
            rows.append({
                "name": name, "benchmarks": len(own), "changes": counts,
                "fraction": rounded(geometric_mean(fractions), 3), "fractions": len(fractions),
                "ratio": rounded(geometric_mean(ratios), 3), "ratios": len(ratios),
                "course": self._course([s.id for s in own])})
        return rows

    def _course(self, identifiers: Sequence[str]) -> list[float | None]:
        """For each record how long these benchmarks took over how long they take in the last."""
        return [rounded(geometric_mean(
            records.median(series[i].seconds) / records.median(self.series[-1][i].seconds)
            for i in identifiers if i in series), 4) for series in self.series]

    def benchmarks(self) -> list[dict[str, Any]]:
        """Every benchmark with its history: for each record its number, samples and peers."""
        found: dict[str, dict[str, Any]] = {}
        for number, series, record in zip(self.record_numbers, self.series, self.history):
            roofline = records.roofline_of(series)
            for identifier, s in series.items():
                known = found.setdefault(identifier, {
                    "id": identifier, "environment": self.number, "component": s.component,
                    "program": s.program, "name": s.name, "type": records.type_of(s.component, s.name),
                    "size": records.size_of(s.name),
                    "device": "GPU" if "gpu" in s.name.lower() else record["context"].get("device"),
                    "points": []})
                work = {unit: rounded(amount) for unit, amount in (
                    ("B", s.bytes_moved), ("flop", s.flops), ("items", s.items)) if amount}
                if work:
                    known["work"] = work  # by one run; mostly the same in all records
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
    history = joined(history)
    components = sorted({run["component"] for record in history for run in record["runs"]})
    for number, record in enumerate(history):
        key = environment_of(record)
        environment = environments.setdefault(key, Environment(len(environments), key))
        environment.add(number, record)
        context = record["context"]
        shown.append({
            "id": record_id(record, shown), "environment": environment.number, "missing": record.get("missing", {}),
            "author": context.get("author", "unknown"), "subject": context.get("subject", ""),
            **{name: context.get(name) for name in ("commit", "commit_date", "date", "tags", "dirty")}})
        unasked = [name for name in components if not records.was_asked(record, name)]
        if unasked:
            shown[-1]["unasked"] = unasked
    described, benchmarks = [], []
    for environment in environments.values():
        changes = environment.changes()
        described.append({
            "id": environment.id, "machine": environment.machine, "build": environment.build,
            "records": environment.record_numbers, "changes": changes,
            "components": environment.components(changes)})
        benchmarks += environment.benchmarks()
    return {
        "records": shown, "environments": described, "benchmarks": benchmarks,
        "level": comparison.LEVEL, "threshold": comparison.THRESHOLD,
        "newest": shown[-1]["environment"]}


def script_of(data: dict[str, Any]) -> str:
    """The data as a script, since pages opened from disk may not read other files."""
    return f'{DATA_BEGINS}{json.dumps(data, separators=(",", ":"), allow_nan=False)};\n'


def of_others(out: Path) -> list[str]:
    """What lies in the folder and is no part of an earlier site, whose files may be written anew."""
    if not out.exists():
        return []
    written = {DATA_FILE, *SITE_FILES, *DYGRAPHS_FILES.values()}
    found = sorted(out.iterdir())
    strange = [path.name for path in found
               if path.name not in written or path.is_symlink() or not path.is_file()]
    if strange or not found:
        return strange
    if (out / DATA_FILE).is_file():
        with (out / DATA_FILE).open("rb") as data:
            if data.read(len(DATA_BEGINS)) == DATA_BEGINS.encode():
                return []
    return [path.name for path in found]


def write_site(history: Sequence[dict[str, Any]], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / DATA_FILE).write_text(script_of(site_data(history)), encoding="utf-8")
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
    try:
        others = of_others(out)
        if others:
            print(f"dashboard: {out} holds something else than a site ({', '.join(others[:3])}"
                  f"{', ...' if len(others) > 3 else ''}); nothing was written", file=sys.stderr)
            return 2
        write_site(history, out)
    except OSError as error:
        print(f"dashboard: {out} takes no site: {error}", file=sys.stderr)
        return 2
    print(f"{len(history)} records in {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
