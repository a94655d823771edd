"""Records of benchmark sessions: what //benchmarks:run writes and everything else reads.

A record is one JSON file:

    {"record_format": 1,
     "context": {"commit": ..., "author": ..., "subject": ..., "commit_date": ..., "tags": [...],
                 "date": ..., "cpu": ..., "cores": ..., "threads": ..., "device": ...,
                 "compiler": ..., "flags": ..., "settings": ...},
     "asked": {"components": ["all"], "filter": ""},
     "missing": {"peer or program": "why", ...},
     "runs": [{"component": "tensor", "target": "//tensor:gemm_benchmark", "output": {...}}, ...]}

A run with a further key "peer" holds the jobs of //benchmarks/peers done by that Python package.
`asked` is what the session was to measure: "all" are all components but the peers.
`output` is what Google Benchmark wrote, unchanged. Two kinds of benchmark are told apart by their
counters: a comparing one (tools/benchmark/ratio_benchmark.h) has a counter "ours" and one for each
peer, all in seconds; any other has its time.
"""

import datetime
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable

import record_form

FORMAT = 1
ROOFLINE_COMPONENT = "roofline"

# Two records are comparable where all of these agree.
MACHINE_KEYS = ("cpu", "cores", "threads", "device")
BUILD_KEYS = ("compiler", "flags")
# Among them too, but only named where there are any.
SETTINGS_KEY = "settings"

PEERS_COMPONENT = "peers"
ALL_COMPONENTS = "all"  # in what a session was asked for: every one but the peers

# What Google Benchmark writes into every entry; all other numbers are the benchmark's counters.
_STANDARD_FIELDS = frozenset((
    "name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions",
    "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit", "label",
    "aggregate_name", "aggregate_unit", "error_occurred", "error_message", "big_o", "rms",
    "bytes_per_second", "items_per_second", "bytes/s", "flop/s", "items/s",
    "of_copy", "loop_of_copy",
))

# What comparing benchmarks hold Tessera against that is Tessera too: fewer threads, its own products below an
# operator, its tensors below mshadow's. No peers: nobody chooses between these.
_OURSELVES = frozenset(("one_thread", "one_worker", "products", "tessera"))

# Components whose work has no elements, unless a benchmark's name says of which type.
_WITHOUT_ELEMENTS = frozenset(("base", "engine", "storage"))

_TYPES = (
    ("float16", r"half|float16|fp16"),
    ("bfloat16", r"bfloat16|bf16"),
    ("float64", r"double|float64|fp64"),
    ("int8", r"u?int8"),
    ("int32", r"u?int32|RandInt"),
    ("float32", r"float|float32|fp32"),
)


class RecordError(Exception):
    """A file that is no record, or records that do not fit together."""


@dataclass
class Series:
    """One benchmark in one record."""

    id: str  # "tensor/gemm_benchmark/512x512x512"
    component: str
    program: str
    name: str
    seconds: list[float] = field(default_factory=list)  # one value a repetition
    bytes_moved: float = 0.0  # by one run; 0 where the benchmark counts none
    flops: float = 0.0
    items: float = 0.0
    peers: dict[str, list[float]] = field(default_factory=dict)  # seconds

    @property
    def peer_ratio(self) -> float | None:
        """Time of the fastest peer over ours: above 1, ours is faster."""
        medians = [median(values) for values in self.peers.values() if values]
        ours = median(self.seconds)
        return min(medians) / ours if medians and ours > 0 else None


def median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    if not ordered:
        return math.nan
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _number(digits: str) -> int | float:
    # Whole numbers that no counter holds are as good as infinite; Python refuses to convert the longest.
    return int(digits) if len(digits) < 20 else float(digits)


def load(path: Path) -> dict[str, Any]:
    """Reads a record; RecordError says what is wrong with the file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_int=_number)
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: {error}") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise RecordError(f"{path} is not JSON: {error}") from error
    if not isinstance(record, dict) or "record_format" not in record:
        raise RecordError(f"{path} is not a record of //benchmarks:run (no record_format)")
    if record["record_format"] != FORMAT:
        raise RecordError(f"{path} has record_format {record['record_format']}; this reads {FORMAT}")
    for fault in record_form.faults(record, record_form.RECORD):
        raise RecordError(f"{path} is damaged: {fault}")
    return record


def moment(record: dict[str, Any]) -> datetime.datetime:
    """When a record's commit was made; records of no known commit count by their own date."""
    context = record["context"]
    for key in ("commit_date", "date"):
        try:
            # Python knows the Z, which newer gits write for +00:00, from 3.11 on.
            found = datetime.datetime.fromisoformat(str(context.get(key, "")).replace("Z", "+00:00"))
        except ValueError:
            continue
        return found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)
    return datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)


def load_history(folder: Path) -> list[dict[str, Any]]:
    """All records of a folder, oldest commit first; sessions on one commit in their own order."""
    if not folder.is_dir():
        raise RecordError(f"{folder} is not a folder")
    found = [load(path) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise RecordError(f"{folder} holds no record")
    return sorted(found, key=lambda record: (moment(record), str(record["context"].get("date", ""))))


def machine_of(record: dict[str, Any]) -> str:
    return ", ".join(f"{key} {record['context'].get(key, 'unknown')}" for key in MACHINE_KEYS)


def build_of(record: dict[str, Any]) -> str:
    parts = [f"{key} {record['context'].get(key, 'unknown')}" for key in BUILD_KEYS]
    settings = record["context"].get(SETTINGS_KEY)
    return ", ".join(parts + ([f"{SETTINGS_KEY} {settings}"] if settings else []))


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Why two records cannot be compared, one line for each reason."""
    lines = []
    for key in (*MACHINE_KEYS, *BUILD_KEYS, SETTINGS_KEY):
        absent = "" if key == SETTINGS_KEY else "unknown"
        one = a["context"].get(key, absent)
        other = b["context"].get(key, absent)
        if one != other:
            lines.append(f"{key}: {one or 'none'} / {other or 'none'}")
    return lines


def asked_of(record: dict[str, Any]) -> tuple[frozenset[str], str]:
    """The components that a session was to measure, and the filter that it went by."""
    asked = record.get("asked", {})
    return frozenset(asked.get("components", (ALL_COMPONENTS,))), asked.get("filter", "")


def includes(components: frozenset[str], component: str) -> bool:
    """Whether a session that was asked for these components was asked for that one."""
    return component in components or (ALL_COMPONENTS in components and component != PEERS_COMPONENT)


def was_asked(record: dict[str, Any], component: str) -> bool:
    """Whether the session was to measure all that this component has: then what it lacks is missing."""
    components, filtered = asked_of(record)
    return not filtered and includes(components, component)


def series_of(record: dict[str, Any]) -> dict[str, Series]:
    """Every benchmark of a record with its repetitions, roofline included."""
    found: dict[str, Series] = {}
    for run in record["runs"]:
        if "peer" in run:
            continue
        program = run["target"].rpartition(":")[2]
        for entry in filter(record_form.is_repetition, run["output"].get("benchmarks", [])):
            name = _name_of(entry)
            identifier = f"{run['component']}/{program}/{name}"
            series = found.setdefault(
                identifier, Series(identifier, run["component"], program, name))
            _add_repetition(series, entry)
    for run in record["runs"]:
        if "peer" in run:
            _add_peer(found, run)
    return {key: series for key, series in found.items() if series.seconds}


def _add_peer(found: dict[str, Series], run: dict[str, Any]) -> None:
    for entry in filter(record_form.is_repetition, run["output"].get("benchmarks", [])):
        series = found.get(f"peers/peers_benchmark/{_name_of(entry)}")
        if series is not None:
            series.peers.setdefault(run["peer"], []).append(_time_of(entry, "real_time"))


def _name_of(entry: dict[str, Any]) -> str:
    return entry.get("run_name", entry["name"]).replace("/real_time", "")


def _time_of(entry: dict[str, Any], clock: str) -> float:
    return float(entry[clock]) * record_form.SECONDS[entry.get("time_unit", "ns")]


def _add_repetition(series: Series, entry: dict[str, Any]) -> None:
    if "ours" in entry:
        seconds = float(entry["ours"])
        for key, value in entry.items():
            if key != "ours" and key not in _STANDARD_FIELDS | _OURSELVES and isinstance(value, (int, float)):
                series.peers.setdefault(key, []).append(float(value))
    else:
        # Google Benchmark's own choice: the processor's time, which others' work on the machine
        # disturbs less, but for benchmarks that ask for real time. Its rates go by the same.
        asks_for_real = re.search(r"/(real|manual)_time\b", entry.get("run_name", ""))
        clock = "real_time" if asks_for_real else "cpu_time"
        seconds = _time_of(entry, clock)
    if not math.isfinite(seconds) or seconds <= 0:
        return
    series.seconds.append(seconds)
    series.bytes_moved = seconds * float(entry.get("bytes/s", entry.get("bytes_per_second", 0.0)))
    series.flops = seconds * float(entry.get("flop/s", 0.0))
    series.items = seconds * float(entry.get("items/s", entry.get("items_per_second", 0.0)))


@dataclass(frozen=True)
class Roofline:
    """What the machine could do in the same session, on one core."""

    # All cores together may pass what one can do, though not by much on shared memory.
    BELIEVABLE = 4.0

    copy: tuple[tuple[float, float], ...]  # (bytes that fit, bytes/s), nearest level first
    flops_per_second: float | None

    def fraction(self, series: Series) -> float | None:
        """How much of the nearer limit a benchmark reaches; None where it counts neither.

        The level of the memory is the first that holds what one run moves. A benchmark that counts
        bytes without touching them, as allocators do, is past any limit: None too.
        """
        seconds = median(series.seconds)
        fractions = []
        if series.bytes_moved and self.copy:
            limit = next((speed for size, speed in self.copy if series.bytes_moved <= size),
                         self.copy[-1][1])
            fractions.append(series.bytes_moved / seconds / limit)
        if series.flops and self.flops_per_second:
            fractions.append(series.flops / seconds / self.flops_per_second)
        nearest = max(fractions, default=None)
        return None if nearest is not None and nearest > self.BELIEVABLE else nearest


def roofline_of(all_series: dict[str, Series]) -> Roofline:
    """From the benchmarks of roofline.cc: copy/LEVEL/BYTES, and any that counts operations."""
    levels = []
    flops = []
    for series in all_series.values():
        if series.component != ROOFLINE_COMPONENT:
            continue
        # A limit is the best that was seen: whatever disturbed the others, the machine can do it.
        seconds = min(series.seconds)
        if series.name.startswith("copy/") and series.bytes_moved:
            # A level's case moves half of what fits there.
            fits = math.inf if "/memory/" in series.name else 2 * series.bytes_moved
            levels.append((fits, series.bytes_moved / seconds))
        if series.flops:
            flops.append(series.flops / seconds)
    return Roofline(tuple(sorted(levels)), max(flops, default=None))


def type_of(component: str, name: str) -> str:
    """The element type that a benchmark's name mentions, or what its component has by default."""
    for element, pattern in _TYPES:
        if re.search(rf"(?<![A-Za-z])({pattern})(?![A-Za-z0-9])", name):
            return element
    return "none" if component in _WITHOUT_ELEMENTS else "float32"


def size_of(name: str) -> str:
    """A class for the product of the sizes in a name: where the data is likely to lie."""
    product = 1
    found = False
    for number in re.findall(r"(?<![A-Za-z0-9_.])\d+(?:x\d+)*", name):
        found = True
        for factor in number.split("x"):
            product *= max(1, int(factor))
    if not found:
        return "none"
    for limit, label in ((1 << 10, "to 1 Ki"), (1 << 16, "to 64 Ki"), (1 << 22, "to 4 Mi")):
        if product <= limit:
            return label
    return "beyond 4 Mi"
