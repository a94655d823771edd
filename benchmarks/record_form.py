"""The form that a record's JSON must have, by which a damaged file is told; records.py says what it means."""

from typing import Any, Iterator

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}  # in each of Google Benchmark's units

# A form is a tuple of types and words, [form] for a list, {key: form} for an object, or a function from a value
# to its form. Keys that end in "?" may be absent, "*" stands for all keys, and others than these are let be.
_TEXT, _COUNT, _NUMBER, _FLAG = (str,), (int,), (int, float), (bool,)
_ENTRY = {"name": _TEXT, "run_name?": _TEXT, "run_type?": _TEXT, "error_occurred?": _FLAG}
_REPETITION = {
    **_ENTRY, "real_time": _NUMBER, "cpu_time": _NUMBER, "time_unit?": tuple(SECONDS),
    "ours?": _NUMBER, "bytes/s?": _NUMBER, "bytes_per_second?": _NUMBER, "flop/s?": _NUMBER,
    "items/s?": _NUMBER, "items_per_second?": _NUMBER}

# What Google Benchmark writes.
OUTPUT = {"context?": {}, "benchmarks?": [
    lambda entry: _REPETITION if isinstance(entry, dict) and is_repetition(entry) else _ENTRY]}
RECORD = {
    "context": {
        "commit?": _TEXT, "author?": _TEXT, "subject?": _TEXT, "commit_date?": _TEXT, "tags?": [_TEXT],
        "dirty?": _FLAG, "date?": _TEXT, "cpu?": _TEXT, "cores?": _COUNT, "threads?": _COUNT,
        "device?": _TEXT, "compiler?": _TEXT, "flags?": _TEXT, "settings?": _TEXT},
    "asked?": {"components?": [_TEXT], "filter?": _TEXT},
    "missing?": {"*": _TEXT},
    "runs": [{"component": _TEXT, "target": _TEXT, "peer?": _TEXT, "output": OUTPUT}]}


def is_repetition(entry: dict[str, Any]) -> bool:
    """Whether an entry is the time of one repetition, and no mean or error."""
    return entry.get("run_type", "iteration") == "iteration" and not entry.get("error_occurred")


def faults(value: Any, form: Any, place: str = "") -> Iterator[str]:
    """Where a value has another form, and what it has there."""
    if callable(form):
        form = form(value)
    if isinstance(form, list) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, form[0], f"{place}[{index}]")
    elif isinstance(form, dict) and isinstance(value, dict):
        for key, its in form.items():
            for name in value if key == "*" else (key.rstrip("?"),):
                if name in value:
                    yield from faults(value[name], its, f"{place}.{name}".lstrip("."))
                elif not key.endswith("?"):
                    yield f"{place or 'it'} has no {name}"
    # True is no number.
    elif not isinstance(form, tuple) or (type(value) not in form and value not in form):
        yield f"{place or 'it'} is {repr(value)[:40]}"
