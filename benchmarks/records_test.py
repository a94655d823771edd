"""What is read from a record, and that a damaged one is refused whatever is wrong with it."""

import copy
import json
import math
import tempfile
import unittest
from pathlib import Path
from typing import Any, Iterator

import planted
import records

DAY_ONE, DAY_TWO = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
ABSENT = object()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything inside a value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def changed(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The record with something else in one place, or with nothing there."""
    result = copy.deepcopy(record)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    if value is ABSENT:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return result


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
                    entry["of_copy"] = entry["loop_of_copy"] = 0.5
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
        # What a benchmark times itself stands where real time does.
        entry["run_name"] = entry["run_name"].replace("/real_time", "/manual_time")
        timed = records.series_of(record)[name + "/manual_time"]
        self.assertAlmostEqual(timed.seconds[0], 2 * series.seconds[0])

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
            ("512x512x512", "float32", "beyond 4 Mi"), ("sigmoid", "float32", "none"),
            ("softmax/half/32x10", "float16", "to 1 Ki"), ("sum/bfloat16/1024", "bfloat16", "to 1 Ki")):
            self.assertEqual((records.type_of("tensor", name), records.size_of(name)), (element, size), name)
        # Operations and blocks of memory have no elements.
        self.assertEqual(records.type_of("engine", "push_chain"), "none")
        self.assertEqual(records.type_of("base", "round/half"), "float16")

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


class DamagedRecordTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "record.json")

    def load(self, record: Any) -> dict[str, Any]:
        self.path.write_text(json.dumps(record))
        return records.load(self.path)

    @staticmethod
    def record() -> dict[str, Any]:
        """A small one with everything that there can be."""
        record = planted.record("a", DAY_ONE, repetitions=1, tags=["v1"], settings="")
        tensor, roofline = record["runs"][0], record["runs"][-1]
        tensor["output"]["benchmarks"][1:] = []
        jobs = {**copy.deepcopy(tensor), "component": "peers", "target": "//benchmarks/peers:peers_benchmark"}
        return {**record, "asked": {"components": ["all", "peers"], "filter": ""},
                "runs": [tensor, roofline, jobs, {**copy.deepcopy(jobs), "peer": "numpy"}]}

    def test_whatever_is_wrong_is_refused_or_does_no_harm(self) -> None:
        good = self.record()
        refused = 0
        for path in places(good):
            for value in (ABSENT, None, "text", -1.5, 0, 10**400, math.inf, math.nan, [], {}, [None], {"a": None}):
                try:
                    record = self.load(changed(good, path, value))
                except records.RecordError as error:
                    refused += 1
                    self.assertNotIn("\n", str(error))
                    self.assertIn(str(self.path), str(error))
                    continue
                with self.subTest(path=path, value=value):
                    series = records.series_of(record)
                    roofline = records.roofline_of(series)
                    for one in series.values():
                        roofline.fraction(one)
                        self.assertIsInstance(one.peer_ratio, float | None)
                    records.differences(record, good)
                    records.moment(record)
                    records.was_asked(record, "tensor")
        self.assertGreater(refused, 500)

    def test_the_error_names_the_place(self) -> None:
        good = self.record()
        entry = ("runs", 0, "output", "benchmarks", 0)
        for path, value, said in (
            ((*entry, "cpu_time"), ABSENT, "runs[0].output.benchmarks[0] has no cpu_time"),
            ((*entry, "time_unit"), "h", "runs[0].output.benchmarks[0].time_unit is 'h'"),
            (("context", "threads"), "many", "context.threads is 'many'"),
            (("context", "cores"), True, "context.cores is True"),
            (("missing", "onednn"), None, "missing.onednn is None"),
            (("runs",), {}, "runs is {}"),
            (("runs", 1, "target"), ABSENT, "runs[1] has no target")):
            with self.subTest(said=said), self.assertRaises(records.RecordError) as caught:
                self.load(changed(good, path, value))
            self.assertEqual(str(caught.exception), f"{self.path} is damaged: {said}")

    def test_a_number_of_any_length_can_be_read(self) -> None:
        text = json.dumps(self.record()).replace('"cores": 4', '"cores": ' + "9" * 5000)
        self.path.write_text(text)
        with self.assertRaisesRegex(records.RecordError, "context.cores is inf"):
            records.load(self.path)

    def test_nesting_without_end_is_no_json(self) -> None:
        self.path.write_text("[" * 200000)
        with self.assertRaisesRegex(records.RecordError, "is not JSON"):
            records.load(self.path)


if __name__ == "__main__":
    unittest.main()
