"""The dashboard in a real browser: page_test.py

Records are made up (benchmarks/planted.py): a history of noise, and one whose last commit slows one
benchmark down. Every wait is for a condition; none is for a time.
"""

import json
import random
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import comparison  # noqa: E402
import dashboard  # noqa: E402
import planted  # noqa: E402
import ranks  # noqa: E402
import records  # noqa: E402
from browser import Browser  # noqa: E402

SLOW = "push_chain"
SLOW_ID = "engine/engine_benchmark/push_chain"
GEMM = "512x512x512"
GEMM_ID = "tensor/gemm_benchmark/512x512x512"
COMMITS = 12
HASHES = [f"{number:x}" * 40 for number in range(COMMITS)]


def history(slower: dict[str, float]) -> list[dict[str, Any]]:
    return [planted.record(
        HASHES[day], f"2026-01-{day + 1:02}T12:00:00+00:00", slower if day == COMMITS - 1 else None,
        tags=["v1.0"] if day == 2 else []) for day in range(COMMITS)]


class PageTest(unittest.TestCase):
    browser: Browser
    folder: Any

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        root = Path(cls.folder.name)
        dashboard.write_site(history({SLOW: 1.2}), root / "planted")
        dashboard.write_site(history({}), root / "noise")
        other = planted.record("f" * 40, "2026-01-20T12:00:00+00:00", {SLOW: 9.0}, cpu="Other CPU")
        flags = planted.record("d" * 40, "2026-01-22T12:00:00+00:00", {SLOW: 9.0}, flags="opt -O3")
        gone = planted.record("c" * 40, "2026-01-20T12:00:00+00:00", without=(GEMM,))
        hostile = planted.record("e" * 40, "2026-01-21T12:00:00+00:00",
                                 subject="</script><img src=x onerror=alert(1)>")
        dashboard.write_site([*history({}), other], root / "machines")
        dashboard.write_site([*history({}), flags], root / "flags")
        dashboard.write_site([*history({}), gone], root / "gone")
        dashboard.write_site([hostile], root / "hostile")
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self) -> None:
        self.browser.errors.clear()
        self.browser.requests.clear()

    def tearDown(self) -> None:
        self.assertEqual(self.browser.errors, [])
        for address in self.browser.requests:
            self.assertRegex(address, r"^(file|data|blob|about):", "the page fetches something")

    def open(self, site: str, **state: object) -> None:
        address = (Path(self.folder.name) / site / "index.html").as_uri()
        self.browser.open(address + "#" + "&".join(f"{k}={v}" for k, v in state.items()))
        view = state.get("view", "overview")
        self.browser.wait(f"document.getElementById('main').dataset.view === '{view}'")

    def texts(self, selector: str) -> list[str]:
        return self.browser.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def choose(self, identifier: str, value: str) -> None:
        self.browser.evaluate(
            f"(() => {{ const e = document.getElementById({json.dumps(identifier)});"
            f" e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change', {{bubbles: true}})); }})()")

    def test_overview_shows_the_planted_regression_alone(self) -> None:
        self.open("planted")
        self.assertEqual(self.texts("#changes tbody tr td:first-child"), [SLOW_ID])
        self.assertEqual(self.texts("#changes tbody .mark"), ["regression"])
        rows = dict(zip(self.texts("#components tbody td:first-child"),
                        self.texts("#components tbody tr")))
        self.assertEqual(set(rows), {"engine", "storage", "tensor"})
        # Since the last commit, the last week and the last release.
        self.assertEqual(rows["engine"].count("1 regression"), 3)
        self.assertNotIn("regression", rows["tensor"] + rows["storage"])
        self.assertRegex(rows["tensor"], r"\d+ %")  # of the roofline
        self.assertRegex(rows["tensor"], r"\d\.\d\d×")  # against the peers
        self.assertEqual(self.texts("#missing li"), ["onednn: libdnnl.so.3 is not installed"])

    def test_noise_shows_nothing(self) -> None:
        self.open("noise")
        self.assertEqual(self.texts("#quiet"), ["Nothing changed beyond the noise."])
        self.assertEqual(self.texts(".mark.regression, .mark.improvement, .mark.missing"), [])

    def test_filters(self) -> None:
        self.open("planted", view="benchmarks")
        self.assertEqual(len(self.texts("#benchmarks tbody tr")), 9 + 4)  # and the roofline's
        self.choose("filter-component", "tensor")
        self.browser.wait("document.getElementById('count').textContent === '5 benchmarks'")
        self.choose("filter-type", "float64")
        self.browser.wait("document.getElementById('count').textContent === '1 benchmarks'")
        self.assertIn("component=tensor", self.browser.evaluate("location.hash"))
        self.open("planted", view="benchmarks", size="beyond 4 Mi", text="GEMM")
        self.assertEqual(self.texts("#benchmarks tbody td:first-child"), [GEMM_ID])
        self.open("planted", view="benchmarks", device="CPU", component="storage")
        self.assertEqual(len(self.texts("#benchmarks tbody tr")), 2)

    def test_links_lead_to_a_benchmark_and_back(self) -> None:
        self.open("planted")
        self.browser.evaluate("document.querySelector('#changes tbody a').click()")
        self.browser.wait("document.getElementById('main').dataset.view === 'benchmark'")
        self.assertEqual(self.texts("h2"), [SLOW_ID])
        self.assertEqual(len(self.texts("#history tbody tr")), COMMITS)
        self.browser.evaluate("history.back()")
        self.browser.wait("document.getElementById('main').dataset.view === 'overview'")
        self.open("planted", view="benchmark", id="no/such/benchmark")
        self.assertEqual(len(self.texts("#unknown")), 1)

    def chart_box(self) -> dict[str, float]:
        return self.browser.evaluate(
            "(() => { const e = document.getElementById('chart'); e.scrollIntoView({block: 'center'});"
            " const b = e.getBoundingClientRect(); return {x: b.x, y: b.y, w: b.width, h: b.height}; })()")

    def test_drag_zooms_and_the_address_keeps_it(self) -> None:
        self.open("planted", view="benchmark", id=GEMM_ID)
        full = self.browser.evaluate("Chart.range()")
        self.assertEqual(full, [-0.5, COMMITS - 0.5])
        box = self.chart_box()
        y = box["y"] + box["h"] / 2
        self.browser.drag((box["x"] + box["w"] * 0.4, y), (box["x"] + box["w"] * 0.7, y))
        low, high = self.browser.wait("Chart.range()", lambda r: r[1] - r[0] < 6)
        self.assertTrue(full[0] < low < high < full[1])
        address = self.browser.wait("location.href", lambda a: "zoom=" in a)
        self.browser.open(address)  # a deep link
        again = self.browser.wait("typeof Chart === 'object' && Chart.range()")
        for found, expected in zip(again, (low, high)):
            self.assertAlmostEqual(found, expected, delta=0.01)
        self.browser.evaluate("document.getElementById('everything').click()")
        self.browser.wait("Chart.range()", lambda r: r == full)
        self.assertNotIn("zoom=", self.browser.evaluate("location.hash"))

    def test_hover_names_commit_author_date_and_value(self) -> None:
        self.open("planted", view="benchmark", id=SLOW_ID)
        box = self.chart_box()
        self.browser.move(box["x"] + box["w"] / 2, box["y"] + box["h"] / 2)
        self.browser.move(box["x"] + box["w"] - 30, box["y"] + box["h"] / 2)
        text = self.browser.wait(
            "document.getElementById('point').textContent", lambda t: HASHES[-1][:12] in t)
        for part in ("A. Author", "2026-01-12", "µs", "change bbbb"):
            self.assertIn(part, text)

    def test_keyboard(self) -> None:
        self.open("planted", view="benchmark", id=SLOW_ID)
        reached = "document.activeElement.id"
        for _ in range(40):
            self.browser.press("Tab")
            if self.browser.evaluate(reached) == "chart":
                break
        self.assertEqual(self.browser.evaluate(reached), "chart")
        self.browser.press("ArrowRight")
        self.browser.press("ArrowRight")
        self.browser.wait("document.getElementById('point').textContent",
                          lambda t: t.startswith(HASHES[1][:12]))
        self.browser.press("+")
        self.browser.wait("Chart.range()", lambda r: r[1] - r[0] < COMMITS)
        self.browser.press("0")
        self.browser.wait("Chart.range()", lambda r: r[1] - r[0] == COMMITS)
        self.browser.press("Tab")
        self.browser.press("Enter")  # the button for the logarithmic scale
        self.browser.wait("Chart.isLog()")
        self.assertIn("log=1", self.browser.evaluate("location.hash"))

    def test_noise_band_is_drawn(self) -> None:
        self.open("planted", view="benchmark", id=SLOW_ID)
        # A quarter of the series' colour: nothing else on the chart is that translucent.
        self.assertGreater(self.browser.evaluate(
            "(() => { let n = 0; for (const c of document.querySelectorAll('#chart canvas')) {"
            " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            " for (let i = 0; i < d.length; i += 4)"
            " n += d[i + 3] > 60 && d[i + 3] < 68 && d[i + 2] > 1.5 * d[i]; } return n; })()"), 500)

    def test_two_commits_side_by_side(self) -> None:
        self.open("planted", view="compare")
        self.assertEqual(self.texts("#counts"),
                         ["1 regression, 0 missing, 0 improvement, 0 new, 8 noise"])
        self.assertEqual(self.texts("#comparison tbody tr:first-child td:first-child"), [SLOW_ID])
        self.choose("after", "0")
        self.browser.wait("document.getElementById('counts').textContent.startsWith('0 regression')")
        self.open("planted", view="compare", before=COMMITS - 1, after=3)
        self.assertEqual(self.texts("#counts"),
                         ["0 regression, 0 missing, 1 improvement, 0 new, 8 noise"])

    def test_raw_data_can_be_saved(self) -> None:
        self.open("planted", view="raw", component="storage")
        csv = self.browser.evaluate(
            "fetch(document.getElementById('benchmarks-csv').href).then((r) => r.text())")
        self.assertEqual(len(csv.strip().splitlines()), 1 + 2 * COMMITS * 10)
        self.assertTrue(csv.startswith("commit,author,"))
        rows = json.loads(self.browser.evaluate(
            "fetch(document.getElementById('benchmarks-json').href).then((r) => r.text())"))
        self.assertEqual(len(rows), 2 * COMMITS * 10)
        self.assertEqual(self.browser.evaluate(
            "document.getElementById('benchmarks-csv').download"), "benchmarks.csv")
        self.assertEqual(len(self.texts("#raw-data tbody tr")), 2 * COMMITS * 10)

    def test_machines_and_flags_are_kept_apart(self) -> None:
        for site in ("machines", "flags"):
            self.open(site)
            self.assertEqual(len(self.texts("#environment option")), 2)
            self.assertIn("There is no earlier commit to compare with.", self.texts("main p"))
            self.choose("environment", "0")
            self.browser.wait("document.getElementById('quiet') !== null")
            self.assertEqual(self.texts(".mark.regression"), [])

    def test_a_benchmark_that_went_missing_is_named(self) -> None:
        self.open("gone")
        self.assertEqual(self.texts("#changes tbody tr td:first-child"), [GEMM_ID])
        self.assertEqual(self.texts("#changes tbody .mark"), ["missing"])
        self.open("gone", view="compare", before=COMMITS, after=COMMITS - 1)
        self.assertIn("1 new", self.texts("#counts")[0])

    def test_the_example_in_the_documentation_opens(self) -> None:
        example = Path(__file__).resolve().parents[2] / "docs" / "dashboard" / "index.html"
        for view in ("overview", "benchmarks", "compare", "raw"):
            self.browser.open(example.as_uri() + f"#view={view}")
            self.browser.wait(f"document.getElementById('main').dataset.view === '{view}'")
            self.assertGreater(len(self.texts("tbody tr")), 0, view)

    def test_text_from_commits_is_never_markup(self) -> None:
        self.open("hostile", view="benchmark", id=GEMM_ID)
        self.assertIn("<img src=x", self.texts("#history tbody tr")[0])
        self.assertEqual(self.browser.evaluate("document.images.length"), 0)

    def test_light_and_dark(self) -> None:
        back = "getComputedStyle(document.body).backgroundColor"
        self.addCleanup(self.browser.call, "Emulation.setEmulatedMedia", features=[])
        for scheme, colour in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 29)")):
            self.browser.call("Emulation.setEmulatedMedia",
                              features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.open("planted")
            self.browser.wait(back, lambda c, colour=colour: c == colour)
        self.browser.evaluate("document.getElementById('theme').click()")
        self.browser.wait(back, lambda c: c == "rgb(255, 255, 255)")
        self.browser.evaluate("localStorage.clear()")

    def test_fits_a_phone(self) -> None:
        self.browser.call("Emulation.setDeviceMetricsOverride", width=360, height=740,
                          deviceScaleFactor=2, mobile=True)
        self.addCleanup(self.browser.call, "Emulation.clearDeviceMetricsOverride")
        for view in ("overview", "benchmarks", "benchmark", "compare", "raw"):
            self.open("planted", view=view, id=GEMM_ID)
            width = self.browser.evaluate("document.documentElement.scrollWidth")
            self.assertLessEqual(width, 360, view)

    def test_statistics_of_the_page_are_those_of_the_tools(self) -> None:
        rng = random.Random(5)
        for n, m, spread in ((3, 3, 9), (5, 8, 4), (10, 10, 1000), (7, 2, 3), (40, 35, 50)):
            a = [rng.randrange(spread) for _ in range(n)]
            b = [rng.randrange(spread) + 1 for _ in range(m)]
            self.open("planted")
            found = self.browser.evaluate(f"Statistics.mannWhitney({a}, {b})")
            expected = ranks.mann_whitney(a, b)
            self.assertEqual(found["u"], expected.u)
            self.assertAlmostEqual(found["p"], expected.p, places=6)
        values = [0.01, 0.04, 0.03, 0.005]
        for found, expected in zip(self.browser.evaluate(f"Statistics.holm({values})"), ranks.holm(values)):
            self.assertAlmostEqual(found, expected, places=12)

    def test_verdicts_of_the_page_are_those_of_the_tools(self) -> None:
        self.open("planted")
        found = self.browser.evaluate(
            "Model.verdicts(Model.state(), 10, 11).map((v) => [v.id, v.label, v.u])")
        before, after = (records.series_of(r) for r in history({SLOW: 1.2})[-2:])
        self.assertEqual({tuple(v) for v in found},
                         {(v.id, v.label, v.u) for v in comparison.compare(before, after)})


if __name__ == "__main__":
    unittest.main(verbosity=1)
