"""Wheels are whole, the same for the same files, and name the platform that their libraries need."""

import base64
import hashlib
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import make_wheel

# As objdump -p writes it.
LISTED = """
Dynamic Section:
  NEEDED               libtbb.so.12
  NEEDED               libc.so.6
  SONAME               libexample.so

Version References:
  required from libc.so.6:
    0x09691a75 0x00 05 GLIBC_2.2.5
    0x069691b5 0x00 04 GLIBC_2.35
  required from libjpeg.so.62:
    0x04cdffe2 0x00 28 LIBJPEG_6.2
  required from libstdc++.so.6:
    0x08922974 0x00 02 GLIBCXX_3.4
"""


def run_result(text):
    return mock.patch.object(make_wheel.subprocess, "run", return_value=mock.Mock(stdout=text))


def needing(**needs):
    """Replaces what each library needs, by the beginning of its name."""
    return mock.patch.object(make_wheel, "needs", side_effect=lambda library: needs[library.name.partition(".")[0]])


class MakeWheelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.files = []
        for name, content in (("libb.so.12", b"library"), ("module.py", b"x = 1\n"), ("LICENSE", b"terms")):
            self.files.append(self.folder / name)
            self.files[-1].write_bytes(content)

    def wheel(self, out="out"):
        with needing(libb=(["libc.so.6"], [("GLIBC", (2, 36))])):
            return make_wheel.make_wheel(self.folder / out, "1.2", "compiler", self.files)

    def test_every_file_is_recorded_with_its_hash(self):
        path = self.wheel()
        self.assertEqual(path.name, "tessera_mxnet-1.2-py3-none-manylinux_2_36_x86_64.whl")
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            record = archive.read("tessera_mxnet-1.2.dist-info/RECORD").decode().splitlines()
            self.assertEqual([line.split(",")[0] for line in record], names)
            for line in record[:-1]:
                name, digest, size = line.split(",")
                content = archive.read(name)
                self.assertEqual(int(size), len(content))
                found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
                self.assertEqual(digest, "sha256=" + found.rstrip("="))
            self.assertEqual(record[-1], "tessera_mxnet-1.2.dist-info/RECORD,,")
            self.assertIn("tessera_mxnet/libb.so.12", names)
            self.assertEqual(archive.read("tessera_mxnet/module.py"), b"x = 1\n")
            self.assertIn("tessera_mxnet-1.2.dist-info/LICENSE", names)
            self.assertIn(b"\nName: tessera-mxnet\nVersion: 1.2\n",
                          archive.read("tessera_mxnet-1.2.dist-info/METADATA"))
            self.assertIn(b"Tag: py3-none-manylinux_2_36_x86_64\n",
                          archive.read("tessera_mxnet-1.2.dist-info/WHEEL"))

    def test_the_same_files_give_the_same_wheel(self):
        first = self.wheel().read_bytes()
        self.files.reverse()
        self.files[0].touch()
        self.assertEqual(self.wheel("again").read_bytes(), first)

    def test_needs_are_read_from_the_library(self):
        with run_result(LISTED):
            needed, versions = make_wheel.needs(Path("libexample.so"))
        self.assertEqual(needed, ["libtbb.so.12", "libc.so.6"])
        self.assertEqual(versions, [("GLIBC", (2, 2, 5)), ("GLIBC", (2, 35)), ("GLIBCXX", (3, 4))])

    def test_the_newest_glibc_of_all_libraries_counts(self):
        with needing(a=(["b.so.12"], [("GLIBC", (2, 35))]), b=(["libc.so.6"], [("GLIBC", (2, 34))])):
            self.assertEqual(make_wheel.platform_of([Path("a.so"), Path("b.so.12")]), "manylinux_2_35_x86_64")

    def test_libraries_that_not_every_system_has_come_along(self):
        with needing(a=(["b.so.12", "libc.so.6"], []), b=(["c.so.1"], []), c=(["libm.so.6", "b.so.12"], [])), \
                run_result("/usr/lib/c.so.1\n"):
            found = make_wheel.with_needed([Path("a.so"), Path("here/b.so.12")], "compiler")
        self.assertEqual([str(path) for path in found], ["a.so", "here/b.so.12", "/usr/lib/c.so.1"])

    def test_a_library_that_is_nowhere_is_an_error(self):
        with needing(a=(["libzip.so.4"], [])), run_result("libzip.so.4\n"), \
                self.assertRaisesRegex(ValueError, "libzip.so.4"):
            make_wheel.with_needed([Path("a.so")], "compiler")

    def test_a_newer_compiler_runtime_than_manylinux_is_refused(self):
        with needing(a=([], [("GLIBCXX", (3, 4, 30))])), self.assertRaisesRegex(ValueError, "GLIBCXX_3.4.30"):
            make_wheel.platform_of([Path("a.so")])


if __name__ == "__main__":
    unittest.main()
