"""The C++ and the Python peers do the same jobs, and results that differ are refused."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import python_peer

PROGRAM = Path("benchmarks/peers/peers_benchmark")


class PeersTest(unittest.TestCase):
    def test_cpp_jobs_agree_and_missing_libraries_are_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out.json")
            result = subprocess.run(
                [str(PROGRAM), f"--benchmark_out={out}", "--benchmark_min_time=0.001",
                 "--filter=(4096|64)"],
                capture_output=True, text=True, check=False)
            # Status 1 would say that results disagree.
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            output = json.loads(out.read_text())
        entries = {entry["run_name"].removesuffix("/real_time"): entry
                   for entry in output["benchmarks"]}
        self.assertEqual(
            set(entries), {"update/4096", "sum/4096", "gemm/64x64x64", "softmax/64x1000"})
        for entry in entries.values():
            for peer in ("ours", "loop", "eigen", "tbb"):
                self.assertGreater(entry[peer], 0)
        for library in ("openblas", "onednn"):
            self.assertTrue(
                library in entries["gemm/64x64x64"] or "missing " + library in output["context"],
                f"{library} is neither measured nor named as missing")

    def test_python_jobs_have_the_same_names(self) -> None:
        listed = subprocess.run(
            [str(PROGRAM), "--benchmark_list_tests"], capture_output=True, text=True, check=True)
        names = {line.removesuffix("/real_time") for line in listed.stdout.split()}
        self.assertEqual(set(python_peer.jobs(FakeLibrary())), names)

    def test_a_package_that_is_not_there_is_named(self) -> None:
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            self.assertEqual(python_peer.main(["no_such_package"]), 3)
        self.assertIn("ModuleNotFoundError", text.getvalue())

    def test_first_values_of_every_kind_of_shape(self) -> None:
        self.assertEqual(python_peer.first_value(2.5), 2.5)
        self.assertEqual(python_peer.first_value(Nested([[1.5, 2.5], [3.5, 4.5]])), 1.5)
        self.assertEqual(python_peer.first_value(Nested(0.5)), 0.5)

    def test_only_the_result_goes_to_standard_output(self) -> None:
        def greets(_: object) -> int:
            print("welcome to this package")
            return 3

        text = io.StringIO()
        with mock.patch.object(python_peer, "measured", greets), \
                contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
            python_peer.main(["fake"])
        self.assertEqual(text.getvalue(), "")

    def test_a_wrong_result_is_an_error(self) -> None:
        sys.modules["liar"] = types.ModuleType("liar")
        python_peer.Library, kept = FakeLibrary, python_peer.Library
        text = io.StringIO()
        try:
            with contextlib.redirect_stderr(text):
                self.assertEqual(python_peer.main(["liar"]), 1)
        finally:
            python_peer.Library = kept
        self.assertIn("expected", text.getvalue())


class TrueShape(tuple):
    """TensorFlow's: true whatever the rank is, as long as it is known."""

    def __bool__(self) -> bool:
        return True


class Nested:
    """An array as far as its first value needs one."""

    def __init__(self, values: object):
        self.values = values

    @property
    def shape(self) -> TrueShape:
        extents, inner = [], self.values
        while isinstance(inner, list):
            extents.append(len(inner))
            inner = inner[0]
        return TrueShape(extents)

    def __getitem__(self, index: int) -> "Nested":
        return Nested(self.values[index])

    def __float__(self) -> float:
        return float(self.values)


class FakeLibrary:
    """A package whose every result is 1000."""

    def __init__(self, name: str = "fake"):
        self.name = name

    def array(self, values: list[float]) -> list[float]:
        return values

    def compiled(self, function: object) -> object:
        del function
        return lambda *arguments: 1000.0

    def finish(self, result: float) -> float:
        return result

    def total(self, x: object) -> float:
        raise AssertionError("compiled() replaces every function")

    softmax = total

    def product(self, a: object, b: object) -> float:
        raise AssertionError("compiled() replaces every function")


if __name__ == "__main__":
    unittest.main()
