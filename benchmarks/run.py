"""Runs benchmarks and appends one record to a history: bazel run //benchmarks:run -- --out=DIR

Builds what is tagged "benchmark" in the whole workspace (so a new one needs no list), measures the
machine's roofline and runs each program, in random order within it, once for each repetition. The
record holds Google Benchmark's output unchanged beside the context that makes it comparable; see
records.py.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

import python_peers
import record_form
import records

ROOFLINE = "//benchmarks:roofline"
SETTINGS = "//benchmarks:build_settings"
INTERRUPTED = "interrupted"
CUDA_FLAGS = frozenset(("--config=cuda", "--config=gpu"))
# Where flags of one's own may stand that no commit has; seen from the workspace.
OWN_BAZELRCS = (".bazelrc.user", "~/.bazelrc", "/etc/bazel.bazelrc")
BUILD_LINE = re.compile(r"(?:build|common)(?::\S+)?\s")
# Of the environment, what makes the same program run otherwise: Tessera's settings, allocators, others' threads.
SETTINGS_BEGIN_WITH = ("TESSERA_", "GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_", "OMP_", "OPENBLAS_")


@dataclass(frozen=True)
class Program:
    label: str
    path: Path

    @property
    def component(self) -> str:
        """What the program measures: its folder, or in benchmarks/components its name's beginning."""
        if self.label == ROOFLINE:
            return records.ROOFLINE_COMPONENT
        package, _, name = self.label.removeprefix("//").partition(":")
        if package == "benchmarks/components":
            return name.removesuffix("_benchmark")
        return package.removeprefix("benchmarks/").partition("/")[0]


class RunError(Exception):
    """Something without which no record can be made."""


def run_text(command: Sequence[str], folder: Path) -> str:
    """What a command prints, or "" where it fails or does not exist."""
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit_context(root: Path) -> dict[str, Any]:
    def git(*arguments: str) -> str:
        # The folder may belong to somebody else, as it does in containers.
        return run_text(["git", "-c", f"safe.directory={root}", *arguments], root)

    fields = git("log", "-1", "--format=%H%x00%an%x00%cI%x00%s").split("\0")
    commit, author, date, subject = fields if len(fields) == 4 else ("unknown", "", "", "")
    return {
        "commit": commit, "author": author, "commit_date": date, "subject": subject,
        "tags": git("tag", "--points-at", "HEAD").split(),
        "dirty": bool(git("status", "--porcelain", "--untracked-files=no")),
    }


def device_of(build_flags: Sequence[str]) -> str:
    """The name of the GPU in a build for one, else CPU: their records are never compared."""
    if not CUDA_FLAGS.intersection(build_flags):
        return "CPU"
    names = run_text(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], Path("/"))
    return names.partition("\n")[0] or "CPU, built for CUDA"


def thread_count(usable: int) -> int:
    """Workers of the engine, which itself refuses what is no number from 1 to 1024."""
    text = os.environ.get("TESSERA_NUM_THREADS") or str(usable)
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise RunError(f'TESSERA_NUM_THREADS is "{text}"; expected a number from 1 to 1024')
    return int(text)


def machine_context(device: str, cpu_info: str | None = None) -> dict[str, Any]:
    """The processor, its cores, and what this process may use of it."""
    if cpu_info is None:
        try:
            cpu_info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        except OSError:
            cpu_info = ""
    model = ""
    part: dict[str, str] = {}  # by which ARM's tell themselves apart, who have no model name
    cores = set()
    package = "0"
    for line in cpu_info.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "model name":
            model = value
        elif key in ("CPU implementer", "CPU variant", "CPU part", "CPU revision"):
            part[key] = value
        elif key == "physical id":
            package = value
        elif key == "core id":
            cores.add((package, value))
    usable = len(os.sched_getaffinity(0))
    return {
        "cpu": model or " ".join((os.uname().machine, *part.values())),
        "cores": len(cores) or usable,
        "threads": thread_count(usable),
        "device": device,
    }


def settings_of(environment: Mapping[str, str]) -> str:
    """Settings but those that stand in the context as what they mean, or that only tests read."""
    return " ".join(sorted(
        f"{name}={value}" for name, value in environment.items()
        if name.startswith(SETTINGS_BEGIN_WITH) and value and
        not name.startswith(("TESSERA_TEST_", "TESSERA_NUM_THREADS"))))


def own_flags(root: Path) -> list[str]:
    """The lines of one's own for builds. Not all that they say reaches SETTINGS: per_file_copt, for one."""
    found = []
    for name in OWN_BAZELRCS:
        try:
            lines = (root / Path(name).expanduser()).read_text(encoding="utf-8", errors="replace").splitlines()
        except (OSError, RuntimeError):  # RuntimeError where there is no home
            continue
        found += [" ".join(line.split()) for line in lines if BUILD_LINE.match(line)]
    return found


def build_context(settings: dict[str, Any], build_flags: Sequence[str]) -> dict[str, str]:
    version = run_text([settings["compiler"], "--version"], Path("/")).partition("\n")[0]
    flags = [settings["compilation_mode"], *settings["copts"], *settings["cxxopts"],
             *settings["linkopts"], *build_flags]
    return {"compiler": version or settings["compiler"], "flags": " ".join(flags)}


class Workspace:
    """Bazel, as ./bazelw runs it."""

    def __init__(self, root: Path, build_flags: Sequence[str]):
        self.root = root
        self.build_flags = list(build_flags)

    def _bazel(self, *arguments: str, capture: bool = True) -> str:
        try:
            result = subprocess.run(
                ["./bazelw", *arguments], cwd=self.root, text=True,
                stdout=subprocess.PIPE if capture else None, stderr=None, check=False)
        except OSError as error:
            raise RunError(f"{self.root} is no copy of Tessera: {error}") from error
        if result.returncode:
            raise RunError(f"./bazelw {arguments[0]} failed with status {result.returncode}")
        return (result.stdout or "").strip()

    def programs(self) -> list[str]:
        # Bazel's regular expressions see a list of tags as "[benchmark, gpu]".
        tagged = r'attr(tags, "[\[ ]benchmark[,\]]", kind(cc_binary, //...))'
        if not CUDA_FLAGS.intersection(self.build_flags):
            tagged += r' except attr(tags, "[\[ ]gpu[,\]]", //...)'
        # Without MPI these cannot be built.
        tagged += r' except attr(tags, "[\[ ]mpi[,\]]", //...)'
        return self._bazel("query", "--noshow_progress", tagged).split()

    def build(self, labels: Sequence[str]) -> Path:
        """Builds, and returns the folder with the results."""
        self._bazel("build", *self.build_flags, *labels, capture=False)
        return Path(self._bazel("info", *self.build_flags, "--noshow_progress", "bazel-bin"))


def selected(labels: Sequence[str], components: Sequence[str]) -> list[str]:
    """Those of the named components; with peers only where they are asked for by name."""
    known = {Program(label, Path()).component for label in labels} | {records.PEERS_COMPONENT}
    unknown = sorted(set(components) - known)
    if unknown:
        raise RunError(f"no component {unknown[0]} with benchmarks; there are {', '.join(sorted(known))}")
    wanted = set(components) or known - {records.PEERS_COMPONENT}
    return [label for label in labels
            if label != ROOFLINE and Program(label, Path()).component in wanted]


def run_program(program: Program, flags: Sequence[str], timeout_s: float) -> dict[str, Any]:
    """Google Benchmark's JSON; empty where the filter leaves nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        command = [str(program.path), f"--benchmark_out={out}", "--benchmark_out_format=json", *flags]
        try:
            result = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise RunError(f"{program.label} ran for more than {timeout_s:g} s") from error
        except OSError as error:
            raise RunError(f"{program.label} does not start: {error}") from error
        text = out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""
        if result.returncode:
            tail = "\n".join(result.stdout.splitlines()[-10:])
            raise RunError(f"{program.label} failed with status {result.returncode}:\n{tail}")
        if not text.strip():
            return {}
        try:
            output = json.loads(text)
        except json.JSONDecodeError as error:
            raise RunError(f"{program.label} wrote no JSON: {error}") from error
        for fault in record_form.faults(output, record_form.OUTPUT):
            raise RunError(f"{program.label} wrote something else than benchmarks: {fault}")
        return output


def rounds_of(repetitions: int, rounds: int) -> list[int]:
    """The repetitions of each round, none of which is empty."""
    rounds = min(rounds, repetitions)
    return [(repetitions + i) // rounds for i in range(rounds)]


def benchmark_flags(options: argparse.Namespace, repetitions: int, filtered: bool) -> list[str]:
    flags = [
        f"--benchmark_repetitions={repetitions}",
        "--benchmark_enable_random_interleaving=true",
        f"--benchmark_min_time={options.min_time:g}",
    ]
    return flags + ([f"--benchmark_filter={options.filter}"] if filtered and options.filter else [])


def missing_of(output: dict[str, Any]) -> dict[str, str]:
    """Peers that a program looked for in vain: `missing NAME` in its context says why."""
    return {key.removeprefix("missing "): str(value)
            for key, value in output.get("context", {}).items() if key.startswith("missing ")}


def measure(
    programs: Sequence[Program], options: argparse.Namespace
) -> tuple[list[dict[str, Any]], dict[str, str], list[str]]:
    """Runs all programs in each round: their entries of the record, what is missing, what failed.

    A process may be slow from its beginning to its end, by where its memory lies or what a neighbour does
    meanwhile, and repetitions in it only agree about that. Those of several rounds are processes apart, and
    lie as far from each other in time as a session allows. Somebody who interrupts it keeps what was
    measured until then.
    """
    runs, missing, failures = [], {}, []
    todo = [(program, repetitions) for repetitions in rounds_of(options.repetitions, options.rounds)
            for program in programs]
    for number, (program, repetitions) in enumerate(todo):
        if program.label in failures:
            continue
        print(f"running {program.label} ({number + 1} of {len(todo)})", flush=True)
        flags = benchmark_flags(options, repetitions, filtered=program.label != ROOFLINE)
        try:
            output = run_program(program, flags, options.timeout)
        except KeyboardInterrupt:
            print(INTERRUPTED, file=sys.stderr)
            left = {program.label for program, _ in todo[number:]}.difference(failures)
            missing.update(dict.fromkeys(left, INTERRUPTED))
            failures += left
            break
        except RunError as error:
            print(error, file=sys.stderr)
            failures.append(program.label)
            missing[program.label] = str(error).partition("\n")[0]
            continue
        missing.update(missing_of(output))
        if output.get("benchmarks"):
            runs.append({"component": program.component, "target": program.label, "output": output})
    return runs, missing, failures


def write_record(record: dict[str, Any], folder: Path) -> Path:
    """Adds a file to the history, whole or not at all; existing ones are never touched."""
    context = record["context"]
    stem = f"{context['date'][:19].replace(':', '').replace('-', '')}-{context['commit'][:12]}"
    partial = folder / f".{stem}-{os.getpid()}"  # not *.json: nobody takes it for a record
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        for attempt in range(1000):
            path = folder / (stem + (f"-{attempt}" if attempt else "") + ".json")
            try:
                path.touch(exist_ok=False)
            except FileExistsError:
                continue
            partial.replace(path)
            return path
    except OSError as error:
        raise RunError(f"{folder} takes no record: {error}") from error
    finally:
        if partial.exists():
            partial.unlink()
    raise RunError(f"{folder} is full of records called {stem}")


def check_writable(folder: Path) -> None:
    """Raises RunError before a session of hours is lost for a folder that nobody may write."""
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise RunError(f"{folder} takes no record: {error}") from error


def peer_table(series: Iterable[records.Series]) -> str:
    """Our times, and how many times as long each peer takes for the same; "-" where it has no such job."""
    compared = [s for s in series if s.peers]
    peers = sorted({name for s in compared for name in s.peers})
    rows = [["job", "ours", *peers]]
    for s in compared:
        ours = records.median(s.seconds)
        rows.append([s.name, f"{ours * 1e6:.4g} us", *(
            f"{records.median(s.peers[name]) / ours:.2f}" if name in s.peers else "-"
            for name in peers)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))])
        for row in rows)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="history folder")
    parser.add_argument("--filter", default="", help="regular expression over benchmarks' names")
    parser.add_argument("--component", action="append", default=[],
                        help="tensor, engine, ...; may be repeated; peers runs only where named")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10,
                        help="processes that share the repetitions (default %(default)s)")
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds for each repetition")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for each program")
    parser.add_argument("--build-flag", action="append", default=[],
                        help="flag for the build, such as --config=native; may be repeated")
    options = parser.parse_args(arguments)
    if options.repetitions < 1 or options.rounds < 1:
        parser.error("--repetitions and --rounds must be 1 or more")
    if not options.min_time > 0 or not options.timeout > 0:
        parser.error("--min-time and --timeout must be above 0")
    options.component = [name for names in options.component for name in names.split(",")]
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    root = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    out = Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / options.out
    try:
        check_writable(out)
        workspace = Workspace(root, options.build_flag)
        labels = [ROOFLINE, *selected(workspace.programs(), options.component)]
        binaries = workspace.build([*labels, SETTINGS])
        settings = json.loads((binaries / "benchmarks/build_settings.json").read_text(encoding="utf-8"))
        programs = [Program(label, binaries / label.removeprefix("//").replace(":", "/"))
                    for label in labels]
        context = {
            **commit_context(root),
            **machine_context(device_of(options.build_flag)),
            **build_context(settings, [*options.build_flag, *own_flags(root)]),
            records.SETTINGS_KEY: settings_of(os.environ),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        }
        runs, missing, failures = measure(programs, options)
        if records.PEERS_COMPONENT in options.component and INTERRUPTED not in missing.values():
            peers, absent = python_peers.measure(options.repetitions, options.min_time)
            runs += peers
            missing.update(absent)
        if not any(run["component"] != records.ROOFLINE_COMPONENT for run in runs):
            raise RunError("no benchmark ran; does --filter match any?")
        asked = {"components": options.component or [records.ALL_COMPONENTS],
                 "filter": options.filter}
        record = {"record_format": records.FORMAT, "context": context, "asked": asked,
                  "missing": missing, "runs": runs}
        path = write_record(record, out)
    except RunError as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("run: interrupted; there is no record", file=sys.stderr)
        return 2
    if records.PEERS_COMPONENT in options.component:
        print(peer_table(s for s in records.series_of(record).values()
                         if s.component == records.PEERS_COMPONENT))
    for name, reason in sorted(missing.items()):
        print(f"missing {name}: {reason}")
    print(f"wrote {path}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
