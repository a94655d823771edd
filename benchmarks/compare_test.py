"""Two records, and what is said about them."""

import contextlib
import io
import json
import math
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
        for key, value in (("cpu", "Other CPU"), ("threads", 2), ("flags", "dbg"), ("device", "GPU")):
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


class RecordsTest(unittest.TestCase):
    def test_peers_and_roofline(self) -> None:
        series = records.series_of(planted.record("a", DAY_ONE))
        roofline = records.roofline_of(series)
        expected = ((2 * 24576, 1.5e11), (2 << 20, 7e10), (math.inf, 1.2e10))
        for (size, speed), (fits, limit) in zip(roofline.copy, expected, strict=True):
            self.assertTrue(math.isclose(size, fits) and math.isclose(speed, limit), (size, speed))
        self.assertAlmostEqual(roofline.flops_per_second, 2e11)
        gemm = series["tensor/gemm_benchmark/512x512x512"]
        self.assertAlmostEqual(gemm.peer_ratio, 0.97)
        self.assertAlmostEqual(roofline.fraction(gemm), 268435456 / 1.8e-3 / 2e11, delta=0.05)
        # 192 MiB lie in memory, whatever the caches could do.
        update = series["tensor/elementwise_benchmark/update/16777216"]
        self.assertAlmostEqual(roofline.fraction(update), 201326592 / 1.1e-2 / 1.2e10, delta=0.1)
        self.assertIsNone(roofline.fraction(series["engine/engine_benchmark/push_chain"]))
        untouched = records.Series("x", "x", "x", "x", seconds=[1e-9], bytes_moved=1 << 20)
        self.assertIsNone(roofline.fraction(untouched))
        self.assertIsNone(series["storage/storage_benchmark/BM_Pair<Pooled>/64"].peer_ratio)

    def test_other_ways_of_ours_are_no_peers(self) -> None:
        record = planted.record("a", DAY_ONE, repetitions=1)
        for run in record["runs"]:
            for entry in run["output"]["benchmarks"]:
                if "ours" in entry:
                    entry["one_thread"] = entry["ours"] / 9
        gemm = records.series_of(record)["tensor/gemm_benchmark/512x512x512"]
        self.assertEqual(list(gemm.peers), ["loop"])

    def test_waiting_counts_only_where_real_time_was_asked_for(self) -> None:
        record = planted.record("a", DAY_ONE, repetitions=1)
        entry = next(e for run in record["runs"] for e in run["output"]["benchmarks"]
                     if "BM_Uniform" in e["name"])
        entry["real_time"] = 2 * entry["cpu_time"]
        name = "tensor/random_benchmark/BM_Uniform<double>/65536"
        series = records.series_of(record)[name]
        self.assertAlmostEqual(series.bytes_moved, 524288, delta=1)
        entry["run_name"] += "/real_time"
        waited = records.series_of(record)[name]
        self.assertAlmostEqual(waited.seconds[0], 2 * series.seconds[0])

    def test_items_are_counted_in_either_kind_of_benchmark(self) -> None:
        record = planted.record("a", DAY_ONE, repetitions=1)
        for run in record["runs"]:
            for entry in run["output"]["benchmarks"]:
                if "ours" in entry:
                    entry["items/s"] = 7 / entry["ours"]
                else:
                    entry["items_per_second"] = 9e9 / entry["cpu_time"]
        series = records.series_of(record)
        push = series["engine/engine_benchmark/push_chain"]
        self.assertAlmostEqual(push.items, 7)
        self.assertEqual(list(push.peers), ["loop"])
        self.assertAlmostEqual(series["storage/storage_benchmark/BM_Pair<Pooled>/64"].items, 9)

    def test_aggregates_and_errors_are_no_repetitions(self) -> None:
        record = planted.record("a", DAY_ONE, repetitions=2)
        entries = record["runs"][0]["output"]["benchmarks"]
        count = len(records.series_of(record)["tensor/gemm_benchmark/64x64x64"].seconds)
        entries.append({**entries[0], "run_type": "aggregate", "aggregate_name": "mean"})
        entries.append({**entries[0], "error_occurred": True})
        self.assertEqual(
            len(records.series_of(record)["tensor/gemm_benchmark/64x64x64"].seconds), count)

    def test_types_and_sizes_come_from_names(self) -> None:
        for name, element, size in (
            ("update/4096", "float32", "to 64 Ki"), ("BM_Uniform<double>/65536", "float64", "to 64 Ki"),
            ("512x512x512", "float32", "beyond 4 Mi"), ("push_chain", "float32", "none"),
            ("softmax/half/32x10", "float16", "to 1 Ki"), ("sum/bfloat16/1024", "bfloat16", "to 1 Ki")):
            self.assertEqual((records.type_of(name), records.size_of(name)), (element, size), name)

    def test_history_is_ordered_by_commit(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, commit, date in (("z", "old", DAY_ONE), ("a", "new", DAY_TWO)):
                Path(folder, name + ".json").write_text(json.dumps(planted.record(commit, date)))
            history = records.load_history(Path(folder))
            self.assertEqual([r["context"]["commit"] for r in history], ["old", "new"])
            # By the moment, wherever the clock that wrote it stood.
            for name, date in (("b", "2026-01-02T01:00:00+02:00"), ("c", "2026-01-01T22:00:00Z")):
                Path(folder, name + ".json").write_text(json.dumps(planted.record(name, date)))
            history = records.load_history(Path(folder))
            self.assertEqual([r["context"]["commit"] for r in history], ["old", "c", "b", "new"])
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(records.RecordError):
            records.load_history(Path(folder))


if __name__ == "__main__":
    unittest.main()
