"""A session from end to end over a workspace of stand-ins, and the programs that every session runs."""

import contextlib
import errno
import io
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import python_peers
import records
import run

# Stands for Bazel: knows two programs, which are scripts that write what they were asked for.
BAZELW = """#!/bin/bash
echo "$*" >>"$PWD/asked"
case "$1" in
  query) echo //tensor:a_benchmark; echo //engine:b_benchmark; echo //benchmarks/peers:p_benchmark ;;
  info) echo "$PWD/bin" ;;
esac
"""
PROGRAM = """#!/bin/bash
for flag in "$@"; do
  case "$flag" in --benchmark_out=*) out="${{flag#*=}}" ;; esac
done
echo "{name} $*" >>"{root}/started"
{extra}
printf '%s' '{output}' >"$out"
"""


def entry(name: str, index: int) -> dict[str, Any]:
    return {"name": name, "run_name": name, "run_type": "iteration", "repetition_index": index,
            "real_time": 5.0, "cpu_time": 5.0, "time_unit": "us", "iterations": 3}


class SessionTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # What the person who runs the test has in files and settings of their own is none of its business.
        for patch in (mock.patch.object(run, "OWN_BAZELRCS", run.OWN_BAZELRCS[:2]),
                      mock.patch.dict(os.environ, {"HOME": "/nonexistent"})):
            patch.start()
            self.addCleanup(patch.stop)
        self.root = Path(folder.name)
        self.history = self.root / "history"
        self.script("bazelw", BAZELW)
        self.program("benchmarks/roofline", "copy/L1")
        self.program("tensor/a_benchmark", "fast/16", '"missing onednn": "not installed"')
        self.program("engine/b_benchmark", "push")
        self.program("benchmarks/peers/p_benchmark", "sum/16")
        settings = self.root / "bin/benchmarks/build_settings.json"
        settings.write_text(json.dumps({
            "compiler": "/bin/false", "compilation_mode": "opt", "copts": ["-O2"],
            "cxxopts": ["-std=c++20"], "linkopts": []}))

    def script(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def program(self, path: str, name: str, context: str = "", extra: str = "") -> None:
        output = json.dumps({"context": json.loads("{" + context + "}"),
                             "benchmarks": [entry(name, 0), entry(name, 1)]})
        self.script("bin/" + path, PROGRAM.format(
            name=path, root=self.root, output=output, extra=extra))

    def outcome(self, *flags: str) -> tuple[int, str]:
        text = io.StringIO()
        environment = {"BUILD_WORKSPACE_DIRECTORY": str(self.root),
                       "BUILD_WORKING_DIRECTORY": str(self.root)}
        with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(text), \
                contextlib.redirect_stderr(text):
            status = run.main(["--out=history", "--rounds=1", *flags])
        return status, text.getvalue()

    def record(self) -> dict[str, Any]:
        (path,) = self.history.glob("*.json")
        return records.load(path)

    def test_one_record_with_everything(self) -> None:
        status, text = self.outcome("--repetitions=2")
        self.assertEqual(status, 0, text)
        record = self.record()
        self.assertEqual([r["target"] for r in record["runs"]],
                         [run.ROOFLINE, "//tensor:a_benchmark", "//engine:b_benchmark"])
        self.assertEqual([r["component"] for r in record["runs"]], ["roofline", "tensor", "engine"])
        # Unchanged: all that Google Benchmark wrote.
        self.assertEqual(record["runs"][2]["output"],
                         {"context": {}, "benchmarks": [entry("push", 0), entry("push", 1)]})
        for key in ("commit", "author", "date", "tags", *records.MACHINE_KEYS, *records.BUILD_KEYS):
            self.assertIn(key, record["context"])
        self.assertEqual(record["context"]["flags"], "opt -O2 -std=c++20")
        self.assertEqual(record["asked"], {"components": ["all"], "filter": ""})
        self.assertEqual(record["missing"], {"onednn": "not installed"})
        self.assertIn("missing onednn: not installed", text)
        for line in (self.root / "started").read_text().splitlines():
            self.assertIn("--benchmark_repetitions=2", line)
            self.assertIn("--benchmark_enable_random_interleaving=true", line)

    def test_repetitions_are_shared_by_processes_apart_in_time(self) -> None:
        status, text = self.outcome("--repetitions=5", "--rounds=2")
        self.assertEqual(status, 0, text)
        programs = ["benchmarks/roofline", "tensor/a_benchmark", "engine/b_benchmark"]
        started = [line.split() for line in (self.root / "started").read_text().splitlines()]
        self.assertEqual([words[0] for words in started], programs * 2)
        self.assertEqual([word.rpartition("=")[2] for words in started for word in words if "repetitions" in word],
                         ["2"] * 3 + ["3"] * 3)
        # Each of these programs writes two, whatever it is asked for.
        self.assertEqual(len(records.series_of(self.record())["engine/b_benchmark/push"].seconds), 4)
        self.assertEqual(run.rounds_of(2, 5), [1, 1])

    def test_each_repetition_has_a_process_of_its_own_unless_asked_otherwise(self) -> None:
        # Ranks take repetitions for independent, and those of one process are not.
        options = run.parse(["--out=history"])
        self.assertEqual(set(run.rounds_of(options.repetitions, options.rounds)), {1})

    def test_a_program_that_fails_later_keeps_what_it_measured(self) -> None:
        self.program("tensor/a_benchmark", "x", extra=f"(($(grep -c tensor/a '{self.root}/started') < 2)) || exit 1")
        self.program("engine/b_benchmark", "push", extra="exit 1")
        status, text = self.outcome("--rounds=3", "--repetitions=3")
        self.assertEqual(status, 1)
        self.assertEqual(text.count("running //tensor:a_benchmark"), 2)
        self.assertEqual(text.count("running //engine:b_benchmark"), 1)
        record = self.record()
        self.assertEqual(set(record["missing"]) - {"onednn"}, {"//tensor:a_benchmark", "//engine:b_benchmark"})
        self.assertIn("tensor/a_benchmark/x", records.series_of(record))

    def test_filter_and_component(self) -> None:
        status, text = self.outcome("--component=engine", "--filter=pu.h", "--build-flag=--config=x")
        self.assertEqual(status, 0, text)
        started = (self.root / "started").read_text().splitlines()
        self.assertEqual([line.split()[0] for line in started],
                         ["benchmarks/roofline", "engine/b_benchmark"])
        # The roofline is measured whole whatever the filter is.
        self.assertNotIn("--benchmark_filter", started[0])
        self.assertIn("--benchmark_filter=pu.h", started[1])
        self.assertEqual(self.record()["asked"], {"components": ["engine"], "filter": "pu.h"})
        # Such flags need not show in any of the compiler's.
        self.assertEqual(self.record()["context"]["flags"], "opt -O2 -std=c++20 --config=x")
        asked = (self.root / "asked").read_text()
        self.assertIn("build --config=x ", asked)
        self.assertIn("except attr(tags, ", asked)  # what needs a GPU, which x does not promise

    def test_flags_of_ones_own_are_recorded(self) -> None:
        (self.root / ".bazelrc.user").write_text(
            "# mine\nbuild  --per_file_copt=tensor/.*@-O3\ntest --test_output=all\nbuild:native --copt=-mtune=native\n")
        (self.root / "home").mkdir()
        (self.root / "home/.bazelrc").write_text("common --jobs=2\n")
        with mock.patch.dict(os.environ, {"HOME": str(self.root / "home")}):
            self.outcome()
        self.assertTrue(self.record()["context"]["flags"].startswith(
            "opt -O2 -std=c++20 build --per_file_copt=tensor/.*@-O3 build:native --copt=-mtune=native common --jobs=2"))

    def test_a_build_for_cuda_runs_what_needs_a_gpu(self) -> None:
        self.outcome("--build-flag=--config=cuda")
        self.assertNotIn("gpu", (self.root / "asked").read_text())

    def test_an_unknown_component_is_an_error(self) -> None:
        status, text = self.outcome("--component=tensors")
        self.assertEqual(status, 2)
        self.assertIn("no component tensors", text)
        self.assertIn("engine, peers, tensor", text)

    def test_a_program_that_fails_is_named_and_the_others_count(self) -> None:
        self.program("tensor/a_benchmark", "x", extra="echo wrong result; exit 1")
        status, text = self.outcome()
        self.assertEqual(status, 1)
        self.assertIn("wrong result", text)
        record = self.record()
        self.assertIn("//tensor:a_benchmark", record["missing"])
        self.assertEqual(len(record["runs"]), 2)

    def test_whatever_a_program_does_the_others_count(self) -> None:
        crash = "#!/bin/bash\nkill -SEGV $$\n"
        write = "#!/bin/bash\nfor f in $*; do case $f in --benchmark_out=*) printf '%s' '{}' >${{f#*=}} ;; esac; done\n"
        for script, said in ((crash, "failed with status -11"), (write.format("{"), "wrote no JSON"),
                             (write.format("[1]"), "something else than benchmarks"),
                             (write.format('{"benchmarks":[3]}'), "something else than benchmarks")):
            with self.subTest(said=said):
                self.script("bin/tensor/a_benchmark", script)
                status, text = self.outcome()
                self.assertEqual(status, 1)
                self.assertIn(said, text)
        (self.root / "bin/tensor/a_benchmark").unlink()
        status, text = self.outcome()
        self.assertEqual(status, 1)
        self.assertIn("//tensor:a_benchmark does not start", text)
        for path in self.history.glob("*.json"):
            self.assertEqual([r["component"] for r in records.load(path)["runs"]], ["roofline", "engine"])

    def test_what_was_measured_before_an_interruption_is_kept(self) -> None:
        real = run.run_program

        def interrupted(program: run.Program, *arguments: Any) -> dict[str, Any]:
            if program.component == "engine":
                raise KeyboardInterrupt
            return real(program, *arguments)

        with mock.patch.object(run, "run_program", interrupted):
            status, text = self.outcome()
        self.assertEqual(status, 1)
        self.assertIn("missing //engine:b_benchmark: interrupted", text)
        self.assertEqual([r["component"] for r in self.record()["runs"]], ["roofline", "tensor"])

    def test_a_full_disk_leaves_no_half_record(self) -> None:
        def full(path: Path, text: str, **_: Any) -> None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text[:10])
            raise OSError(errno.ENOSPC, "No space left on device")

        with mock.patch.object(Path, "write_text", full):
            status, text = self.outcome()
        self.assertEqual(status, 2)
        self.assertIn("No space left on device", text)
        self.assertEqual(list(self.history.iterdir()), [])

    def test_what_cannot_end_well_does_not_begin(self) -> None:
        (self.root / "file").write_text("")
        with mock.patch.dict(os.environ, {"TESSERA_NUM_THREADS": "many"}):
            status, text = self.outcome()
        self.assertEqual(status, 2)
        self.assertIn('TESSERA_NUM_THREADS is "many"', text)
        status, text = self.outcome("--out=file/history")
        self.assertEqual(status, 2)
        self.assertIn("takes no record", text)
        for flag in ("--repetitions=0", "--rounds=0", "--min-time=0", "--min-time=nan", "--timeout=-1"):
            with self.assertRaises(SystemExit):
                self.outcome(flag)
        self.assertFalse((self.root / "started").exists())

    def test_without_git_the_commit_is_unknown(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent"}):
            context = run.commit_context(self.root)
        self.assertEqual((context["commit"], context["tags"], context["dirty"]), ("unknown", [], False))

    def test_nothing_to_run_leaves_no_record(self) -> None:
        for program in ("tensor/a_benchmark", "engine/b_benchmark"):
            self.script("bin/" + program, "#!/bin/bash\n")
        status, text = self.outcome()
        self.assertEqual(status, 2)
        self.assertIn("no benchmark ran", text)
        self.assertFalse(self.history.exists())

    def test_records_are_only_ever_added(self) -> None:
        self.outcome()
        (first,) = self.history.glob("*.json")
        content = json.loads(first.read_text())
        for _ in range(2):
            run.write_record(content, self.history)
        self.assertEqual(len(list(self.history.glob("*.json"))), 3)

    def test_python_peers_join_the_cpp_series(self) -> None:
        self.program("benchmarks/peers/p_benchmark", "sum/16")
        self.script("bin/benchmarks/peers/peers_benchmark", (
            self.root / "bin/benchmarks/peers/p_benchmark").read_text())
        self.script("bazelw", BAZELW.replace("p_benchmark", "peers_benchmark"))
        peer = {"component": "peers", "target": "//benchmarks/peers:numpy", "peer": "numpy",
                "output": {"context": {}, "benchmarks": [entry("sum/16", 0)]}}
        with mock.patch.object(python_peers, "measure", return_value=([peer], {"jax": "absent"})):
            status, text = self.outcome("--component=peers")
        self.assertEqual(status, 0, text)
        series = records.series_of(self.record())
        (seconds,) = series["peers/peers_benchmark/sum/16"].peers["numpy"]
        self.assertAlmostEqual(seconds, 5e-6)
        self.assertIn("missing jax: absent", text)
        # The table of ratios.
        self.assertRegex(text, r"(?m)^job +ours +numpy$")
        self.assertRegex(text, r"(?m)^sum/16 +5 us +1\.00$")

    def test_the_table_has_a_column_for_each_peer(self) -> None:
        both = records.Series("peers/p/a", "peers", "p", "a", [2e-6, 2e-6, 9e-6],
                              peers={"eigen": [4e-6], "loop": [1e-6]})
        one = records.Series("peers/p/bb", "peers", "p", "bb", [1e-6], peers={"loop": [1e-5]})
        alone = records.Series("peers/p/c", "peers", "p", "c", [1e-6])
        self.assertEqual(run.peer_table([both, one, alone]),
                         "job  ours  eigen   loop\n"
                         "a    2 us   2.00   0.50\n"
                         "bb   1 us      -  10.00")


class PiecesTest(unittest.TestCase):
    def test_cores_are_counted_and_not_threads(self) -> None:
        text = "".join(
            f"model name\t: Some CPU\nphysical id\t: 0\ncore id\t: {i // 2}\n\n" for i in range(8))
        context = run.machine_context("CPU", text)
        self.assertEqual((context["cpu"], context["cores"]), ("Some CPU", 4))

    def test_processors_without_a_name_are_told_apart(self) -> None:
        text = "processor\t: {}\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: {}\n\n"
        one, other = (run.machine_context("CPU", text.format(0, part) + text.format(1, part))["cpu"]
                      for part in ("0xd0c", "0xd4f"))
        self.assertTrue(one.endswith(" 0x41 0x3 0xd0c"), one)
        self.assertNotEqual(one, other)

    def test_components_of_programs(self) -> None:
        for label, component in (
            (run.ROOFLINE, "roofline"), ("//tensor:gemm_benchmark", "tensor"),
            ("//ops/nn:pool_benchmark", "ops"), ("//benchmarks/peers:peers_benchmark", "peers"),
            ("//benchmarks/components:io_benchmark", "io")):
            self.assertEqual(run.Program(label, Path()).component, component)

    def test_settings_of_the_environment_are_recorded(self) -> None:
        environment = {
            "TESSERA_NUM_THREADS": "2", "TESSERA_TEST_SEED": "1", "TESSERA_ENGINE_TRACE": "",
            "TESSERA_INSTRUCTION_SET": "avx2", "TESSERA_ENGINE_TYPE": "NaiveEngine", "HOME": "/",
            "LD_PRELOAD": "libjemalloc.so.2", "OMP_NUM_THREADS": "1"}
        self.assertEqual(run.settings_of(environment),
                         "LD_PRELOAD=libjemalloc.so.2 OMP_NUM_THREADS=1 TESSERA_ENGINE_TYPE=NaiveEngine "
                         "TESSERA_INSTRUCTION_SET=avx2")

    def test_a_build_for_cuda_is_another_device(self) -> None:
        self.assertEqual(run.device_of(["--config=native"]), "CPU")
        self.assertNotEqual(run.device_of(["--config=native", "--config=cuda"]), "CPU")

    def test_python_peers_that_do_not_load_are_named(self) -> None:
        with mock.patch.object(python_peers, "PEERS", ("no_such_package",)), \
                contextlib.redirect_stdout(io.StringIO()):
            runs, missing = python_peers.measure(1, 0.001)
        self.assertEqual(runs, [])
        self.assertIn("No module named", missing["no_such_package"])

    def test_python_peers_that_print_something_else_are_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            worker = Path(folder, "worker.py")
            for printed, said in (("{", "printed no JSON"), ('{"benchmarks": [{"name": 1}]}', "benchmarks[0].name is 1")):
                worker.write_text(f"print({printed!r})")
                with mock.patch.object(python_peers, "WORKER", worker), \
                        mock.patch.object(python_peers, "PEERS", ("numpy",)), \
                        contextlib.redirect_stdout(io.StringIO()):
                    runs, missing = python_peers.measure(1, 0.001)
                self.assertEqual(runs, [])
                self.assertIn(said, missing["numpy"])

    def test_build_settings_of_this_build(self) -> None:
        settings = json.loads(Path("benchmarks/build_settings.json").read_text())
        self.assertIn("-std=c++20", settings["cxxopts"])
        self.assertNotEqual(run.build_context(settings, [])["compiler"], "")

    def test_roofline_measures_memory_and_arithmetic(self) -> None:
        out = Path(os.environ.get("TEST_TMPDIR", tempfile.gettempdir()), "roofline.json")
        command = ["benchmarks/roofline", f"--benchmark_out={out}", "--benchmark_min_time=0.02"]
        listed = subprocess.run(
            [*command, "--benchmark_list_tests"], capture_output=True, text=True, check=True)
        self.assertIn("copy/memory/", listed.stdout)
        subprocess.run([*command, "--benchmark_filter=copy/L1|fma|gemm"],
                       capture_output=True, check=True)
        series = records.series_of({"runs": [
            {"component": "roofline", "target": run.ROOFLINE, "output": json.loads(out.read_text())}]})
        roofline = records.roofline_of(series)
        self.assertGreater(roofline.flops_per_second, 1e8)
        self.assertIn("roofline/roofline/gemm/512x512x512", series)
        for _, speed in roofline.copy:
            self.assertGreater(speed, 1e8)


if __name__ == "__main__":
    unittest.main()
