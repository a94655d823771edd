"""The dashboard in a real browser: page_test.py

Records are made up (benchmarks/planted.py): a history of noise, and one whose last commit slows one
benchmark down. Every wait is for a condition; none is for a time.
"""

import csv
import json
import math
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


def record_id(day: int, commit: str = "") -> str:
    """By what addresses name the record of that day."""
    return f"{(commit or HASHES[day])[:10]}-2026-01-{day + 1:02}T120000"


def history(slower: dict[str, float], **options: Any) -> list[dict[str, Any]]:
    """A record for each commit, of which only the last has times of its own."""
    return [planted.record(
        HASHES[day], f"2026-01-{day + 1:02}T12:00:00+00:00", slower if day == COMMITS - 1 else None,
        tags=["v1.0"] if day == 2 else [], **options) for day in range(COMMITS)]


def session(record: dict[str, Any], *components: str) -> dict[str, Any]:
    """The record as it is where only these components were asked for."""
    return {**record, "asked": {"components": list(components), "filter": ""},
            "runs": [run for run in record["runs"] if run["component"] in ("roofline", *components)]}


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
        dashboard.write_site(history({}, scatter=0.2), root / "loud")
        mixed = history({SLOW: 1.2, "push_independent": 0.8, "update/4096": 0.8})
        # The release before all of them had another time.
        mixed[2] = planted.record(HASHES[2], mixed[2]["context"]["commit_date"], {"BM_Pair<Pooled>/64": 2.0},
                                  tags=["v1.0"])
        dashboard.write_site(mixed, root / "mixed")
        long_name = planted.record("b" * 40, "2026-01-20T12:00:00+00:00", author="A. " + "Very" * 60,
                                   subject="s" * 300, dirty=True, flags="opt " + "-Wlong" * 60)
        for entry in long_name["runs"][0]["output"]["benchmarks"]:
            entry["run_name"] = "BM_" + "LongName" * 40 + entry["run_name"]
        dashboard.write_site([long_name], root / "long")
        warm = planted.record("9" * 40, "2026-01-20T12:00:00+00:00", dirty=True)
        for run in warm["runs"]:
            for entry in run["output"]["benchmarks"]:
                if entry["run_name"].startswith("copy/L2"):
                    entry["cpu_time"] *= 1.3
        after_warm = planted.record("8" * 40, "2026-01-21T12:00:00+00:00")
        dashboard.write_site([*history({}), warm], root / "warm")
        dashboard.write_site([*history({}), warm, after_warm], root / "after_warm")
        other = planted.record("f" * 40, "2026-01-20T12:00:00+00:00", {SLOW: 9.0}, cpu="Other CPU")
        flags = planted.record("d" * 40, "2026-01-22T12:00:00+00:00", {SLOW: 9.0}, flags="opt -O3")
        gone = planted.record("c" * 40, "2026-01-20T12:00:00+00:00", without=(GEMM,))
        hostile = planted.record("e" * 40, "2026-01-21T12:00:00+00:00",
                                 subject="</script><img src=x onerror=alert(1)>")
        dashboard.write_site([*history({}), other], root / "machines")
        dashboard.write_site([*history({}), flags], root / "flags")
        dashboard.write_site([*history({}), gone], root / "gone")
        dashboard.write_site([hostile], root / "hostile")
        partial = session(planted.record("a1" * 20, "2026-01-13T12:00:00+00:00", {SLOW: 1.2}), "engine")
        full = planted.record("a2" * 20, "2026-01-14T12:00:00+00:00")
        dashboard.write_site([*history({}), partial], root / "partial")
        dashboard.write_site([*history({}), partial, full], root / "after_partial")
        rest = {**session(full, "storage"), "context": {**full["context"], "date": "2026-01-14T13:00:00+00:00"}}
        dashboard.write_site([*history({}), session(full, "engine", "tensor"), rest], root / "joined")
        many = planted.record("7" * 40, "2026-01-20T12:00:00+00:00")
        for entry in many["runs"][0]["output"]["benchmarks"]:
            entry.update({f"peer_{number}": 1e-3 * number for number in range(1, 12)})
        dashboard.write_site([many], root / "peers")
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
        rows = dict(zip(self.texts("#components h3 a"), self.texts("#components > li")))
        self.assertEqual(set(rows), {"engine", "storage", "tensor"})
        # Since the last commit, the last week and the last release.
        self.assertEqual(rows["engine"].count("1 regression"), 3)
        for span in ("commit", "week", "release"):
            self.assertIn(f"since last {span}1 regression", rows["engine"])
            self.assertIn(f"since last {span}noise", rows["tensor"])
        self.assertNotIn("regression", rows["tensor"] + rows["storage"])
        self.assertRegex(rows["tensor"], r"\d+ %")  # of the roofline
        self.assertRegex(rows["tensor"], r"\d\.\d\d×")  # against the peers
        self.assertIn("no peers here", rows["storage"])
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.sparkline').length"), 3)
        self.assertEqual(self.texts("#missing li"), ["onednn: libdnnl.so.3 is not installed"])

    def test_one_glance_tells_each_component_since_each_baseline(self) -> None:
        self.open("mixed")
        self.assertEqual(self.texts("#at-a-glance tr"), [
            "got worseimprovednoise", "since last commitengineengine, tensorstorage",
            "since last weekengineengine, tensorstorage", "since last releaseengineengine, storage, tensor"])
        self.browser.evaluate("document.querySelector('#at-a-glance .improved a').click()")
        self.browser.wait("document.querySelectorAll('#changes tbody tr').length === 2")  # of the engine's
        self.open("noise")
        self.assertEqual(self.texts("#at-a-glance .noise"), ["engine, storage, tensor"] * 3)
        self.open("flags")
        self.assertEqual(self.texts("#at-a-glance tr:nth-child(2)"), ["since last weekno earlier week"])
        self.open("partial")
        self.assertEqual(self.texts("#at-a-glance tr:nth-child(1) td"), ["engine", "", ""])
        self.open("gone")
        self.assertEqual(self.texts("#at-a-glance tr:nth-child(1) .got-worse"), ["tensor"])

    def test_noise_shows_nothing(self) -> None:
        for site in ("noise", "loud"):
            self.open(site)
            self.assertEqual(self.texts("#quiet"), ["Nothing changed beyond the noise."])
            self.assertEqual(self.texts(".mark.regression, .mark.improvement, .mark.missing"), [])

    def test_filters(self) -> None:
        self.open("planted", view="benchmarks")
        self.assertEqual(len(self.texts("#benchmarks tbody tr")), 9 + 4)  # and the roofline's
        self.choose("filter-component", "tensor")
        self.browser.wait("document.getElementById('count').textContent === '5 benchmarks'")
        self.choose("filter-type", "float64")
        self.browser.wait("document.getElementById('count').textContent === '1 benchmark'")
        self.assertIn("component=tensor", self.browser.evaluate("location.hash"))
        self.open("planted", view="benchmarks", size="beyond 4 Mi", text="GEMM")
        self.assertEqual(self.texts("#benchmarks tbody td:first-child"), [GEMM_ID])
        self.open("planted", view="benchmarks", device="CPU", component="storage")
        self.assertEqual(len(self.texts("#benchmarks tbody tr")), 2)

    def test_sizes_stand_in_their_order(self) -> None:
        sizes = [records.size_of(name) for name in ("push", "a/8", "a/4096", "a/1000000", "512x512x512")]
        self.open("planted", view="benchmarks", sort="size")
        self.assertEqual(self.browser.evaluate("Model.SIZES"), sizes)
        shown = [sizes.index(text) for text in self.texts("#benchmarks tbody td:nth-child(7)")]
        self.assertEqual(shown, sorted(shown))
        offered = [sizes.index(text) for text in self.texts("#filter-size option")[1:]]
        self.assertEqual(offered, sorted(offered))

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
        # A point is the same commit, zoomed or not.
        self.browser.move(box["x"] + box["w"] * 0.3, y)
        self.browser.move(box["x"] + 80 + (box["w"] - 80) / 2, y)
        text = self.browser.wait("document.getElementById('point').textContent", lambda t: "A. Author" in t)
        self.assertIn(HASHES.index(next(name for name in HASHES if text.startswith(name[:12]))),
                      range(math.ceil(low), math.floor(high) + 1))
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

    def tab_to(self, identifier: str) -> None:
        reached = "document.activeElement.id"
        for _ in range(40):
            self.browser.press("Tab")
            if self.browser.evaluate(reached) == identifier:
                break
        self.assertEqual(self.browser.evaluate(reached), identifier)

    def test_keyboard(self) -> None:
        self.open("planted", view="benchmark", id=SLOW_ID)
        self.tab_to("log")
        self.browser.press("Enter")  # the button for the logarithmic scale
        self.browser.wait("Chart.isLog()")
        self.assertIn("log=1", self.browser.evaluate("location.hash"))
        self.tab_to("chart")  # goes on from the button, though the page was drawn again
        self.browser.press("ArrowRight")
        self.browser.press("ArrowRight")
        self.browser.wait("document.getElementById('point').textContent",
                          lambda t: t.startswith(HASHES[1][:12]))
        self.browser.press("+")
        self.browser.wait("Chart.range()", lambda r: r[1] - r[0] < COMMITS)
        self.browser.press("0")
        self.browser.wait("Chart.range()", lambda r: r[1] - r[0] == COMMITS)

    def test_the_keyboard_goes_on_from_where_it_was(self) -> None:
        focused = "document.activeElement.id"
        self.open("planted", view="benchmarks")
        self.browser.press("Tab")
        self.browser.press("Enter")  # "Skip to the content"
        self.browser.wait(focused, lambda name: name == "main")
        self.assertIn("view=benchmarks", self.browser.evaluate("location.hash"))
        self.tab_to("sort-time")
        self.browser.press("Enter")
        self.browser.wait("document.querySelector('[data-sort]') !== null")
        self.assertEqual(self.browser.evaluate(focused), "sort-time")
        self.open("planted")
        self.tab_to("since-week")
        scrolled = self.browser.evaluate("scrollTo(0, 50), scrollY")
        self.browser.press("Enter")
        self.browser.wait("document.getElementById('since-week').ariaCurrent === 'true'")
        self.assertEqual(self.browser.evaluate(f"[{focused}, scrollY]"), ["since-week", scrolled])
        # Elsewhere it begins at the top of the content.
        self.browser.evaluate("document.querySelector('#changes tbody a').focus()")
        self.assertGreater(self.browser.evaluate("scrollY"), 0)
        self.browser.press("Enter")
        self.browser.wait("document.getElementById('main').dataset.view === 'benchmark'")
        self.assertEqual(self.browser.evaluate(f"[{focused}, scrollY]"), ["main", 0])

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
        self.choose("after", record_id(0))
        self.browser.wait("document.getElementById('counts').textContent.startsWith('0 regression')")
        self.choose("after", record_id(COMMITS - 1))
        self.choose("filter-component", "tensor")
        self.browser.wait("document.getElementById('counts').textContent.endsWith(' 5 noise')")
        self.open("planted", view="compare", before=record_id(COMMITS - 1), after=record_id(3))
        self.assertEqual(self.texts("#counts"),
                         ["0 regression, 0 missing, 1 improvement, 0 new, 8 noise"])

    def test_raw_data_can_be_saved(self) -> None:
        self.open("planted", view="raw", component="storage")
        with tempfile.TemporaryDirectory() as folder:
            self.browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=folder)
            for name in ("benchmarks.csv", "benchmarks.json"):
                self.browser.evaluate(f"document.getElementById('{name.replace('.', '-')}').focus()")
                self.browser.press("Enter")
                self.browser.wait("document.readyState", lambda _, p=Path(folder, name): p.exists())
            table = list(csv.DictReader(Path(folder, "benchmarks.csv").read_text(encoding="utf-8").splitlines()))
            rows = json.loads(Path(folder, "benchmarks.json").read_text(encoding="utf-8"))
        self.assertEqual(len(table), 2 * COMMITS * 10)
        self.assertEqual(len(rows), 2 * COMMITS * 10)
        self.assertEqual([row["commit"] for row in table], [row["commit"] for row in rows])
        self.assertEqual(float(table[0]["seconds"]), rows[0]["seconds"])
        self.assertEqual(len(self.texts("#raw-data tbody tr")), 2 * COMMITS * 10)

    def test_machines_and_flags_are_kept_apart(self) -> None:
        for site in ("machines", "flags"):
            self.open(site)
            self.assertEqual(len(self.texts("#environment option")), 2)
            self.assertIn("There is no earlier commit of this machine and build to compare with.", self.texts("main p"))
            self.assertIn("one of 2, which are never compared", self.texts("#facts")[0])
            self.choose("environment", "0")
            self.browser.wait("document.getElementById('quiet') !== null")
            self.assertEqual(self.texts(".mark.regression"), [])

    def test_a_benchmark_that_went_missing_is_named(self) -> None:
        self.open("gone")
        self.assertEqual(self.texts("#changes tbody tr td:first-child"), [GEMM_ID])
        self.assertEqual(self.texts("#changes tbody .mark"), ["missing"])
        self.open("gone", view="compare", before=record_id(19, "c" * 40), after=record_id(COMMITS - 1))
        self.assertIn("1 new", self.texts("#counts")[0])
        # What an earlier session measured is not shown as if it were today's.
        self.open("gone", view="benchmarks", text=GEMM)
        self.assertIn("not measuredmissing", self.texts("#benchmarks tbody tr")[0])
        self.open("gone", view="benchmark", id=GEMM_ID)
        self.assertIn(HASHES[-1][:10], self.texts("#stale")[0])

    def test_what_a_session_was_not_asked_for_is_not_missing(self) -> None:
        self.open("partial")
        self.assertEqual(self.texts("#changes tbody tr td:first-child"), [SLOW_ID])
        rows = dict(zip(self.texts("#components h3 a"), self.texts("#components > li")))
        self.assertIn("1 regression", rows["engine"])
        for name in ("storage", "tensor"):
            self.assertIn("not in the last session", rows[name])
            self.assertEqual(rows[name].count("not measured"), 2 + 3)  # headlines and spans
        self.open("partial", view="compare")
        self.assertEqual(self.texts("#counts"), ["1 regression, 0 missing, 0 improvement, 0 new, 1 noise"])
        self.open("partial", view="benchmarks", text=GEMM)
        self.assertNotIn("missing", self.texts("#benchmarks tbody tr")[0])
        # The next whole session is held against the last whole one.
        self.open("after_partial")
        self.assertIn(f"Against {HASHES[-1][:10]}", " ".join(self.texts("main p")))
        self.assertEqual(self.texts(".mark.new, .mark.missing"), [])

    def test_sessions_of_one_commit_are_one_record(self) -> None:
        self.open("joined")
        rows = dict(zip(self.texts("#components h3 a"), self.texts("#components > li")))
        for name in ("engine", "storage", "tensor"):
            self.assertRegex(rows[name], "[1-9] benchmarks")
        self.assertEqual(self.texts(".mark.new, .mark.missing"), [])
        self.open("joined", view="compare")
        self.assertEqual(len(self.texts("#before option")), COMMITS + 1)

    def test_every_view_has_rows(self) -> None:
        for view in ("overview", "benchmarks", "compare", "raw"):
            self.open("planted", view=view)
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

        # A name is broken between its parts.
        self.open("planted", view="benchmarks", text="gemm_benchmark")
        lines = self.browser.evaluate(
            "[...document.querySelector('#benchmarks tbody a').childNodes].filter((n) => n.data)"
            ".map((n) => { const r = document.createRange(); r.selectNode(n); return r.getClientRects().length; })")
        self.assertEqual(lines, [1] * len("tensor/ gemm_ benchmark/ 512x 512x 512".split()))

        self.open("mixed")
        self.assertLessEqual(self.browser.evaluate(
            "document.getElementById('at-a-glance').getBoundingClientRect().right"), 360)
        for site, view in (("long", "overview"), ("long", "benchmarks"), ("long", "raw"), ("warm", "compare")):
            self.open(site, view=view)
            self.assertLessEqual(self.browser.evaluate(
                "Math.max(...[...document.querySelectorAll('select')].map((e) => e.getBoundingClientRect().right))"),
                360, view)
            width = self.browser.evaluate("document.documentElement.scrollWidth")
            self.assertLessEqual(width, 360, view)

    def test_fingers_tell_points_and_scroll_the_page(self) -> None:
        self.browser.call("Emulation.setDeviceMetricsOverride", width=360, height=740,
                          deviceScaleFactor=2, mobile=True)
        self.browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.addCleanup(self.browser.call, "Emulation.setTouchEmulationEnabled", enabled=False)
        self.addCleanup(self.browser.call, "Emulation.clearDeviceMetricsOverride")
        self.open("planted", view="benchmark", id=SLOW_ID)
        box = self.chart_box()
        x, y = box["x"] + box["w"] - 8, box["y"] + box["h"] / 2
        told = "document.getElementById('point').textContent"
        self.browser.swipe((x, y), (x, y))
        self.browser.wait(told, lambda text: text.startswith(HASHES[-1][:12]))
        self.browser.swipe((x, y), (x - 60, y))
        self.browser.wait(told, lambda text: HASHES[-1][:12] not in text and "A. Author" in text)
        self.browser.evaluate("document.getElementById('closer').click()")
        self.browser.wait("Chart.range()", lambda r: r[1] - r[0] < COMMITS)
        self.browser.evaluate("document.getElementById('farther').click()")
        self.browser.wait("Chart.range()", lambda r: r[1] - r[0] == COMMITS)
        self.assertNotIn("zoom=", self.browser.evaluate("location.hash"))
        before = self.browser.evaluate("scrollY")
        self.browser.swipe((x, y), (x, y - 120))
        self.browser.wait("scrollY", lambda now: now > before + 30)

    def test_a_machine_that_changed_is_said_to_have(self) -> None:
        self.open("warm")
        (text,) = self.texts("#machine")
        self.assertIn("copy/L2/1048576 1.30×", text)
        # Beside what it may have changed, and above the cards.
        self.assertEqual(self.texts("#machine + #components h3 a"), ["engine", "storage", "tensor"])
        self.open("warm", view="compare")
        self.assertEqual(self.texts("#machine"), [text])
        self.open("planted")
        self.assertEqual(self.texts("#machine"), [])

    def test_local_changes_are_named_and_nobodys_baseline(self) -> None:
        self.open("warm")
        self.assertIn("with local changes", self.texts("h2")[0])
        for site in ("warm", "after_warm"):
            self.open(site)
            self.assertIn(f"Against {HASHES[-1][:10]}", " ".join(self.texts("main p")))
        self.open("warm", view="benchmark", id=GEMM_ID)
        self.assertIn("with local changes", self.texts("#history tbody tr")[0])

    def test_changes_since_each_baseline(self) -> None:
        self.open("planted")
        for span, commit in (("week", HASHES[4]), ("release", HASHES[2])):
            self.browser.evaluate(
                f"document.querySelector('[data-component=engine] .spans a[href*=\"since={span}\"]').click()")
            text = self.browser.wait("document.getElementById('main').textContent",
                                     lambda t, commit=commit: f"Against {commit[:10]}" in t)
            self.assertIn("1 of 2 benchmarks changed", text)  # of the component's
        self.browser.evaluate("[...document.links].find((a) => a.textContent === 'Side by side').click()")
        self.browser.wait("document.getElementById('main').dataset.view === 'compare'")
        self.assertIn(record_id(2), self.browser.evaluate("document.getElementById('before').value"))

    def test_the_list_can_be_sorted(self) -> None:
        self.open("planted", view="benchmarks", component="tensor")
        for order in ("ascending", "descending"):
            self.browser.evaluate("[...document.querySelectorAll('.sort')]"
                                  ".find((a) => a.textContent === 'of the roofline').click()")
            self.browser.wait(f"document.querySelector('th[aria-sort={order}]') !== null")
            shares = [float(text.rstrip(" %")) for text in
                      self.texts("#benchmarks tbody td:nth-child(4)") if text != "–"]
            self.assertEqual(shares, sorted(shares, reverse=order == "descending"))

    def test_typing_filters_and_keeps_its_place(self) -> None:
        self.open("planted", view="benchmarks")
        self.browser.evaluate("document.getElementById('filter-text').focus()")
        for key in ("p", "s", "ArrowLeft", "u"):
            self.browser.press(key)
        self.assertEqual(self.browser.evaluate("document.getElementById('filter-text').value"), "pus")
        self.browser.wait("document.getElementById('count').textContent === '2 benchmarks'")
        self.open("planted", view="benchmarks", text="no+such+name")
        self.assertIn("No benchmark passes these filters.", self.texts("main p")[1])

    def test_shares_ratios_and_peers_over_time(self) -> None:
        axis = "document.querySelector('.dygraph-ylabel').textContent"
        self.open("planted", view="benchmark", id=GEMM_ID)
        self.assertEqual(self.browser.evaluate(axis), "time of one run")
        self.assertRegex(self.texts(".headline.work")[0], r"^1\.\d+ GB/sthroughput1\d\d Gflop/s$")
        self.browser.evaluate("document.getElementById('peers').click()")
        self.browser.wait("document.getElementById('legend') !== null")
        self.assertEqual(self.texts("#legend span"), ["ours", "loop"])
        self.choose("metric", "roofline")
        self.browser.wait(axis, lambda text: text == "share of the roofline")
        self.assertEqual(self.texts("#legend span"), [])
        self.assertTrue(any(t.endswith(" %") for t in self.texts(".dygraph-axis-label-y")))
        self.open("planted", view="benchmark", id="storage/storage_benchmark/BM_Pair<Pooled>/64")
        self.assertEqual(self.texts("#metric option"), ["time of one run"])

    def test_many_peers_are_told_apart(self) -> None:
        self.open("peers", view="benchmark", id=GEMM_ID, peers=1)
        looks = self.browser.evaluate("[...document.querySelectorAll('#legend i')].map((e) => getComputedStyle(e))"
                                      ".map((s) => `${s.borderTopStyle} ${s.borderTopColor} ${s.borderTopWidth}`)")
        self.assertEqual(len(set(looks)), 1 + 12)
        self.assertRegex(self.texts(".headline.peer .faint")[0], r"^peer_1 1 ms, loop 1\.\d+ ms, peer_2 2 ms, 9 slower$")

    def test_addresses_outlive_more_records(self) -> None:
        self.open("planted", view="compare", before=record_id(3), after=record_id(4))
        address = self.browser.evaluate("location.hash")
        self.choose("filter-component", "engine")
        chosen = self.browser.wait("location.hash", lambda a: a != address)
        self.browser.open((Path(self.folder.name) / "machines" / "index.html").as_uri() + chosen)
        self.browser.wait("document.getElementById('main').dataset.view === 'compare'")
        self.assertEqual(self.browser.evaluate("document.getElementById('before').value"), record_id(3))
        self.open("planted", environment="0badf00d")
        self.assertIn("names a machine and build that is not here", " ".join(self.texts(".warning")))
        # What an address has of JavaScript's own names is none of the page's.
        self.open("planted", since="constructor")
        self.assertEqual(self.texts("#changes tbody tr td:first-child"), [SLOW_ID])
        self.open("planted", view="benchmarks", sort="__proto__")
        self.assertEqual(len(self.texts("#benchmarks tbody tr")), 9 + 4)

    def test_statistics_of_the_page_are_those_of_the_tools(self) -> None:
        rng = random.Random(5)
        for n, m, spread in ((3, 3, 9), (5, 8, 4), (10, 10, 1000), (7, 2, 3), (30, 30, 9),
                             (2, 80, 99), (40, 35, 50), (60, 70, 3000)):
            a = [rng.randrange(spread) for _ in range(n)]
            b = [rng.randrange(spread) + spread // 3 for _ in range(m)]
            self.open("planted")
            found = self.browser.evaluate(f"Statistics.mannWhitney({a}, {b})")
            expected = ranks.mann_whitney(a, b)
            self.assertEqual(found["u"], expected.u)
            self.assertAlmostEqual(found["p"] / expected.p, 1, places=9)
        values = [0.01, 0.04, 0.03, 0.005]
        for found, expected in zip(self.browser.evaluate(f"Statistics.holm({values})"), ranks.holm(values)):
            self.assertAlmostEqual(found, expected, places=12)

    def test_verdicts_of_the_page_are_those_of_the_tools(self) -> None:
        for site, records_ in (("planted", history({SLOW: 1.2})), ("loud", history({}, scatter=0.2))):
            self.open(site)
            found = self.browser.evaluate(
                "Model.verdicts(Model.state(), 10, 11).map((v) => [v.id, v.label, v.u, v.p])")
            before, after = (records.series_of(record) for record in records_[-2:])
            expected = {v.id: v for v in comparison.compare(before, after)}
            self.assertEqual({id_: (label, u) for id_, label, u, _ in found},
                             {v.id: (v.label, v.u) for v in expected.values()})
            for id_, _, _, p in found:
                self.assertAlmostEqual(p, expected[id_].p, places=9)
            if site == "loud":  # which only the ranks tell from a change
                self.assertTrue(any(abs(v.ratio - 1) > 2 * comparison.THRESHOLD for v in expected.values()))


if __name__ == "__main__":
    unittest.main(verbosity=1)
