"""Which records a dashboard holds against each other, and that its program writes a whole site.

What the pages show, tests/dashboard asks a browser.
"""

import contextlib
import io
import json
import re
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

import dashboard
import planted


def record(day: int, *components: str, filtered: str = "", commit: str = "", **context: Any) -> dict[str, Any]:
    """The record of a day, of all components if none are named."""
    name = commit or f"{day:x}" * 40
    made = planted.record(name, f"2026-01-{day:02}T12:00:00+00:00", **context)
    if components:
        made["runs"] = [run for run in made["runs"] if run["component"] in ("roofline", *components)]
    made["asked"] = {"components": list(components or ("all",)), "filter": filtered}
    return made


class BaselineTest(unittest.TestCase):
    def test_last_commit_week_and_release(self) -> None:
        history = [record(1), record(2, tags=["v1"]), record(3), record(9), record(10)]
        self.assertEqual([dashboard.baseline(history, span) for span in dashboard.SPANS], [3, 2, 1])
        self.assertEqual([dashboard.baseline(history[:1], span) for span in dashboard.SPANS], [None] * 3)

    def test_a_commit_is_not_held_against_itself(self) -> None:
        history = [record(1), record(2, commit="a" * 40), record(3, commit="a" * 40)]
        self.assertEqual(dashboard.baseline(history, "commit"), 0)

    def test_local_changes_are_held_against_their_commit_and_are_no_baseline(self) -> None:
        history = [record(1), record(1, dirty=True)]
        self.assertEqual(dashboard.baseline(history, "commit"), 0)
        self.assertEqual(dashboard.baseline([*history, record(2)], "commit"), 0)

    def test_a_session_that_measured_less_is_no_baseline(self) -> None:
        whole, engine, tensor = record(1), record(2, "engine"), record(3, "tensor")
        self.assertEqual(dashboard.baseline([whole, engine, record(4)], "commit"), 0)
        self.assertEqual(dashboard.baseline([whole, engine, record(4, "engine")], "commit"), 1)
        self.assertEqual(dashboard.baseline([whole, engine, tensor], "commit"), 0)
        picked = record(2, filtered="push")
        self.assertEqual(dashboard.baseline([whole, picked, record(4)], "commit"), 0)
        self.assertEqual(dashboard.baseline([whole, picked, record(4, filtered="push")], "commit"), 1)
        # Peers are measured now and then.
        peers = record(4)
        peers["asked"]["components"] += ["peers"]
        self.assertEqual(dashboard.baseline([whole, peers], "commit"), 0)
        self.assertIsNone(dashboard.baseline([whole, record(4, "peers")], "commit"))


class JoinedTest(unittest.TestCase):
    def test_sessions_of_different_components_are_one_record(self) -> None:
        (one,) = dashboard.joined([record(1, "engine"), record(1, "tensor")])
        self.assertEqual([run["component"] for run in one["runs"]].count("roofline"), 1)
        self.assertEqual({run["component"] for run in one["runs"]}, {"roofline", "engine", "tensor"})
        self.assertEqual(one["asked"], {"components": ["engine", "tensor"], "filter": ""})

    def test_others_stay_alone(self) -> None:
        for other in (record(1), record(1, "engine"), record(2, "tensor"), record(1, "tensor", dirty=True),
                      record(1, "tensor", flags="dbg"), record(1, "tensor", filtered="gemm")):
            self.assertEqual(len(dashboard.joined([record(1, "engine"), other])), 2)
        unknown = [record(1, name, commit="unknown") for name in ("engine", "tensor")]
        self.assertEqual(len(dashboard.joined(unknown)), 2)


class EnvironmentTest(unittest.TestCase):
    def test_records_that_differ_in_anything_are_never_compared(self) -> None:
        for key, value in (("cpu", "Other CPU"), ("cores", 2), ("threads", 2), ("device", "GPU"),
                           ("compiler", "g++ 14"), ("flags", "dbg"), ("settings", "TESSERA_X=1")):
            with self.subTest(key=key):
                data = dashboard.site_data([record(1, tags=["v1"]), record(9, **{key: value})])
                self.assertEqual([e["records"] for e in data["environments"]], [[0], [1]])
                for environment in data["environments"]:
                    self.assertEqual(environment["changes"], dict.fromkeys(dashboard.SPANS))
                self.assertEqual(len({e["id"] for e in data["environments"]}), 2)


class SiteTest(unittest.TestCase):
    def outcome(self, *arguments: str) -> tuple[int, str]:
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = dashboard.main(arguments)
        return status, text.getvalue()

    def test_whatever_the_page_names_is_beside_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            history, out = Path(folder, "history"), Path(folder, "site")
            history.mkdir()
            Path(history, "a.json").write_text(json.dumps(record(1)))
            status, text = self.outcome(f"--history={history}", f"--out={out}")
            self.assertEqual(status, 0, text)
            page = Path(out, "index.html").read_text(encoding="utf-8")
            named = re.findall(r'(?:src|href)="([^"#:]+)"', page)
            self.assertGreater(len(named), 8)
            for name in named:
                self.assertTrue(Path(out, name).is_file(), name)
            script = Path(out, "data.js").read_text(encoding="utf-8")
            data = json.loads(script.removeprefix("window.benchmarkData = ").removesuffix(";\n"))
            self.assertEqual(len(data["benchmarks"]), len(planted.BENCHMARKS) + len(planted.ROOFLINE) + 1)

    def test_a_commit_that_nobody_is_known_of_has_words_all_the_same(self) -> None:
        unknown = record(1)
        for name in ("author", "subject"):
            del unknown["context"][name]
        (shown,) = dashboard.site_data([unknown])["records"]
        self.assertEqual((shown["author"], shown["subject"]), ("unknown", ""))

    def test_no_history_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            status, text = self.outcome(f"--history={folder}", "--out=site")
        self.assertEqual(status, 2)
        self.assertIn("holds no record", text)

    def test_a_damaged_record_is_one_clear_error_and_leaves_no_site(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            history, out = Path(folder, "history"), Path(folder, "site")
            history.mkdir()
            Path(history, "a.json").write_text(json.dumps(record(1)))
            for bad in (json.dumps(record(2))[:-100], json.dumps({**record(2), "runs": [{}]})):
                Path(history, "b.json").write_text(bad)
                status, text = self.outcome(f"--history={history}", f"--out={out}")
                self.assertEqual(status, 2)
                self.assertRegex(text, r"^dashboard: \S+b\.json is (not JSON|damaged): [^\n]+\n$")
                self.assertFalse(out.exists())

    def test_a_folder_that_is_no_site_stays_as_it_is(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            history, site = Path(folder, "history"), Path(folder, "site")
            history.mkdir()
            Path(history, "a.json").write_text(json.dumps(record(1)))
            self.assertEqual(self.outcome(f"--history={history}", f"--out={site}")[0], 0)
            # An earlier site is written anew, an empty folder filled.
            Path(site, "style.css").write_text("")
            self.assertEqual(self.outcome(f"--history={history}", f"--out={site}")[0], 0)
            self.assertNotEqual(Path(site, "style.css").read_text(encoding="utf-8"), "")
            Path(folder, "empty").mkdir()
            self.assertEqual(self.outcome(f"--history={history}", f"--out={folder}/empty")[0], 0)

            pages = Path(folder, "pages")

            def expect_refused(*named: str) -> None:
                before = {path.name: path.read_bytes() for path in pages.rglob("*") if path.is_file()}
                status, text = self.outcome(f"--history={history}", f"--out={pages}")
                self.assertEqual(status, 2)
                self.assertRegex(text, r"^dashboard: \S+pages holds something else than a site "
                                       r"\([^)\n]+\); nothing was written\n$")
                for name in named:
                    self.assertIn(name, text)
                after = {path.name: path.read_bytes() for path in pages.rglob("*") if path.is_file()}
                self.assertEqual(before, after)

            # Names of a site's files, and even its data's, make no site.
            pages.mkdir()
            Path(pages, "index.html").write_text("mine")
            expect_refused("index.html")
            Path(pages, "data.js").write_text("mine = 1;")
            expect_refused("data.js", "index.html")
            # A site in which something else lies, and one whose file is a link to somebody's.
            for strange in ("notes.txt", "folder/notes.txt"):
                shutil.rmtree(pages)
                shutil.copytree(site, pages)
                Path(pages, strange).parent.mkdir(exist_ok=True)
                Path(pages, strange).write_text("mine")
                expect_refused(strange.partition("/")[0])
            shutil.rmtree(pages)
            shutil.copytree(site, pages)
            Path(pages, "index.html").unlink()
            Path(folder, "mine.html").write_text("mine")
            Path(pages, "index.html").symlink_to(Path(folder, "mine.html"))
            expect_refused("index.html")
            # What is named is a few of many.
            for number in range(9):
                Path(pages, f"a{number}").touch()
            expect_refused("a0, a1, a2, ...")
            # The history itself.
            status, text = self.outcome(f"--history={history}", f"--out={history}")
            self.assertEqual((status, [path.name for path in history.iterdir()]), (2, ["a.json"]), text)

    def test_a_site_that_cannot_be_written_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a.json").write_text(json.dumps(record(1)))
            status, text = self.outcome(f"--history={folder}", f"--out={folder}/a.json")
        self.assertEqual(status, 2)
        self.assertRegex(text, r"^dashboard: \S+a\.json takes no site: [^\n]+\n$")


if __name__ == "__main__":
    unittest.main()
