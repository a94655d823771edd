"""Two records, and what is said about them."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import compare
import comparison
import planted
import records

DAY_ONE, DAY_TWO = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"


class CompareTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def outcome(self, before: Any, after: Any, *flags: str) -> tuple[int, str]:
        paths = []
        for name, content in (("before", before), ("after", after)):
            path = self.folder / name
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            paths.append(str(path))
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = compare.main([*paths, *flags])
        return status, text.getvalue()

    def noise(self, seed: int, scatter: float) -> tuple[int, str]:
        before, after = (planted.record(commit, day, seed=seed, scatter=scatter)
                         for commit, day in (("a", DAY_ONE), ("b", DAY_TWO)))
        return self.outcome(before, after)

    def test_small_noise_never_fails(self) -> None:
        for seed in range(20):
            status, text = self.noise(seed, scatter=0.02)
            self.assertEqual(status, 0, text)
            self.assertIn("0 regression, 0 improvement, 9 noise", text)

    def test_large_noise_alarms_no_more_often_than_the_level_says(self) -> None:
        # Most medians move by more than the threshold here; only the ranks tell noise from change.
        # One comparison in twenty may show a false change, either way; chance makes it six of
        # sixty less than one time in twenty.
        alarms = sum("0 regression, 0 improvement" not in self.noise(seed, scatter=0.2)[1]
                     for seed in range(60))
        self.assertLessEqual(alarms, 6)

    def test_a_planted_regression_is_found_and_nothing_else(self) -> None:
        status, text = self.outcome(
            planted.record("a", DAY_ONE), planted.record("b", DAY_TWO, {"push_chain": 1.15}))
        self.assertEqual(status, 1)
        self.assertRegex(text, r"engine/engine_benchmark/push_chain .* regression\n")
        self.assertIn("1 regression, 0 improvement, 8 noise", text)
        self.assertNotIn("gemm", text)

    def test_each_component_has_its_line(self) -> None:
        before = planted.record("a", DAY_ONE)
        after = planted.record("b", DAY_TWO, {"push_chain": 1.5, "push_independent": 1.5}, without=("64x64x64",))
        text = self.outcome(before, after)[1]
        self.assertRegex(text, r"\ncomponent +regression +improvement +noise +missing +new +ratio\n")
        self.assertRegex(text, r"\nengine +2 +0 +0 +0 +0 +1\.(49|5)\d*\n")
        self.assertRegex(text, r"\ntensor +0 +0 +4 +1 +0 +(1\.0|0\.9)\d*\n")
        # Where nothing changed it is all that there is.
        self.assertRegex(self.outcome(before, before)[1], r"^component ")

    def test_a_regression_below_the_threshold_passes(self) -> None:
        records_ = planted.record("a", DAY_ONE), planted.record("b", DAY_TWO, {"push_chain": 1.15})
        self.assertEqual(self.outcome(*records_, "--threshold=0.3")[0], 0)

    def test_an_improvement_passes(self) -> None:
        status, text = self.outcome(
            planted.record("a", DAY_ONE), planted.record("b", DAY_TWO, {"push_chain": 0.8}))
        self.assertEqual(status, 0)
        self.assertIn("0 regression, 1 improvement", text)

    def test_ours_counts_in_a_comparing_benchmark_and_not_the_whole_turn(self) -> None:
        slow_peer = planted.record("b", DAY_TWO)
        for run in slow_peer["runs"]:
            for entry in run["output"]["benchmarks"]:
                if "ours" in entry:
                    entry["real_time"] *= 2
                    entry["loop"] *= 2
        self.assertEqual(self.outcome(planted.record("a", DAY_ONE), slow_peer)[0], 0)

    def test_missing_benchmarks_are_named(self) -> None:
        before = planted.record("a", DAY_ONE)
        after = planted.record("b", DAY_TWO, without=("push_chain",))
        status, text = self.outcome(before, after)
        self.assertEqual(status, 1)
        self.assertRegex(text, r"push_chain .* missing")
        self.assertEqual(self.outcome(before, after, "--allow-missing")[0], 0)
        self.assertRegex(self.outcome(after, before)[1], r"push_chain .* new")

    def test_what_a_session_was_not_asked_for_is_not_missing(self) -> None:
        before = planted.record("a", DAY_ONE)
        after = planted.record("b", DAY_TWO, without=("push_chain",))
        after["runs"] = [run for run in after["runs"] if run["component"] == "engine"]
        for components, filtered, missing in (
            (["all"], "", 8), (["engine"], "", 1), (["peers"], "", 0), (["engine"], "independent", 0)):
            with self.subTest(components=components, filtered=filtered):
                after["asked"] = {"components": components, "filter": filtered}
                status, text = self.outcome(before, after)
                self.assertIn(f"{missing} missing", text)
                self.assertEqual(status, 1 if missing else 0)
        after["runs"] = []
        status, text = self.outcome(before, after)
        self.assertEqual(status, 2)
        self.assertIn("no benchmark in common", text)

    def test_other_settings_are_refused(self) -> None:
        # Records from before there were any say nothing of them.
        before, after = planted.record("a", DAY_ONE), planted.record("b", DAY_TWO, settings="")
        self.assertEqual(self.outcome(before, after)[0], 0)
        after["context"]["settings"] = "TESSERA_INSTRUCTION_SET=baseline"
        status, text = self.outcome(before, after)
        self.assertEqual(status, 2)
        self.assertIn("settings: none / TESSERA_INSTRUCTION_SET=baseline", text)
        self.assertNotEqual(records.build_of(before), records.build_of(after))

    def test_other_machines_and_flags_are_refused(self) -> None:
        before = planted.record("a", DAY_ONE)
        for key, value in (("cpu", "Other CPU"), ("cores", 2), ("threads", 2), ("device", "GPU"),
                           ("compiler", "g++ 14"), ("flags", "dbg")):
            with self.subTest(key=key):
                after = planted.record("b", DAY_TWO, {"push_chain": 3.0}, **{key: value})
                status, text = self.outcome(before, after)
                self.assertEqual(status, 2)
                self.assertIn(f"{key}: {planted.CONTEXT[key]} / {value}", text)
                status, text = self.outcome(before, after, "--across")
                self.assertEqual(status, 1)
                self.assertIn(f"{key}: ", text)  # never silently

    def test_a_machine_that_changed_is_said_to_have(self) -> None:
        before, after = planted.record("a", DAY_ONE), planted.record("b", DAY_TWO)
        self.assertNotIn("the machine itself", self.outcome(before, after)[1])
        for run in after["runs"]:
            for entry in run["output"]["benchmarks"]:
                if run["component"] == "roofline" and "memory" in entry["name"]:
                    entry["cpu_time"] *= 1.25
        text = self.outcome(before, after)[1]
        self.assertEqual(text.count("the machine itself"), 1)
        self.assertRegex(text, r"roofline/copy/memory/\d+ takes 1\.250 times as long")

    def test_local_changes_are_named(self) -> None:
        _, text = self.outcome(planted.record("a", DAY_ONE, dirty=True), planted.record("b", DAY_TWO))
        self.assertRegex(text, "before was measured with local changes to a\n")
        self.assertNotIn("after was measured", text)

    def test_too_few_repetitions_are_said(self) -> None:
        status, text = self.outcome(
            planted.record("a", DAY_ONE, repetitions=3),
            planted.record("b", DAY_TWO, {"push_chain": 2.0}, repetitions=3))
        self.assertEqual(status, 0)
        self.assertIn("9 of them have too few repetitions", text)
        self.assertIn(f"with {comparison.repetitions_needed(9)} each", text)

    def test_files_that_are_no_records(self) -> None:
        good = planted.record("a", DAY_ONE)
        for bad, message in (("{", "not JSON"), ("{}", "no record_format"), ("[]", "no record"),
                             ('{"record_format": 9}', "record_format 9")):
            status, text = self.outcome(good, bad)
            self.assertEqual(status, 2)
            self.assertIn(message, text)

    def test_a_record_that_is_cut_off_anywhere_is_one_clear_error(self) -> None:
        good = planted.record("a", DAY_ONE, repetitions=1)
        whole = json.dumps(good)
        for end in range(0, len(whole), 97):
            status, text = self.outcome(whole[:end], good)
            self.assertEqual(status, 2)
            self.assertRegex(text, r"^\S+before is not JSON: [^\n]+\n$")

    def test_flags_that_make_no_sense_are_refused(self) -> None:
        good = planted.record("a", DAY_ONE)
        for flag in ("--threshold=-0.1", "--threshold=nan", "--level=0", "--level=1", "--level=nan"):
            with self.subTest(flag=flag), self.assertRaises(SystemExit):
                self.outcome(good, good, flag)

if __name__ == "__main__":
    unittest.main()
