"""Packs the module tessera_mxnet with its libraries: make_wheel.py OUT VERSION COMPILER FILE...

Writes OUT/tessera_mxnet-VERSION-py3-none-PLATFORM.whl. Modules and libraries go into the package by
their base names, LICENSE into the metadata, and so do the libraries that those need and that no
manylinux has, from where the compiler finds them. The same files give the same wheel, byte for
byte. The platform is the oldest manylinux that has everything else that the libraries need.
"""

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = "tessera_mxnet"

# What every system of manylinux has (PEP 600, auditwheel's policies); of each kind of symbol, the
# newest version that comes with glibc 2.34, which is the oldest that Debian 12's libraries run on.
SYSTEM_LIBRARIES = frozenset((
    "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0",
    "librt.so.1", "libstdc++.so.6"))
NEWEST_SYMBOLS = {"CXXABI": (1, 3, 13), "GCC": (11, 0), "GLIBCXX": (3, 4, 29)}
OLDEST_GLIBC = (2, 34)

METADATA = """\
Metadata-Version: 2.1
Name: tessera-mxnet
Version: {version}
Summary: Runs programs written for MXNet 1.9.1 on Tessera's library
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Requires-Python: >=3.8
Requires-Dist: graphviz
Requires-Dist: numpy
Requires-Dist: requests
Description-Content-Type: text/plain

A shared library with MXNet's C API, and a module that makes it the engine of the package mxnet
1.9.1, which is installed on its own: python -m tessera_mxnet train.py runs a program unchanged.
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: make_wheel.py of Tessera
Root-Is-Purelib: false
Tag: {tag}
"""


def needs(library):
    """The libraries that a library names, and the versions of symbols that it needs of the system's."""
    listed = subprocess.run(
        ["objdump", "-p", str(library)], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    needed = re.findall(r"^ +NEEDED +(\S+)$", listed, re.MULTILINE)
    references = listed.partition("Version References:")[2].split("required from ")[1:]
    of_system = "".join(text for text in references if text.partition(":")[0] in SYSTEM_LIBRARIES)
    versions = re.findall(r"\b([A-Z]+)_([\d.]+)$", of_system, re.MULTILINE)
    return needed, [(kind, tuple(map(int, digits.split(".")))) for kind, digits in versions]


def find_library(compiler, name):
    """Where a library of the system lies."""
    found = subprocess.run([compiler, "-print-file-name=" + name], stdout=subprocess.PIPE, check=True,
                           universal_newlines=True).stdout.strip()
    if found == name:
        raise ValueError(f"{compiler} does not find {name}")
    return Path(found)


def with_needed(libraries, compiler):
    """Adds the libraries that are needed, directly or not, and that no manylinux has."""
    found = {library.name: library for library in libraries}
    left = list(libraries)
    while left:
        for name in needs(left.pop())[0]:
            if name not in SYSTEM_LIBRARIES and name not in found:
                found[name] = find_library(compiler, name)
                left.append(found[name])
    return list(found.values())


def platform_of(libraries):
    """The tag of the oldest platform that the libraries run on; raises ValueError if there is none."""
    glibc = OLDEST_GLIBC
    for library in libraries:
        for kind, version in needs(library)[1]:
            if kind == "GLIBC":
                glibc = max(glibc, version)
            elif version > NEWEST_SYMBOLS.get(kind, ()):
                raise ValueError(f"{library} needs {kind}_{'.'.join(map(str, version))}, which manylinux does not have")
    return f"manylinux_{glibc[0]}_{glibc[1]}_x86_64"


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(content)}\n"


def write_archive(path, contents):
    """Writes the files in their order, with one date for all."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def make_wheel(out, version, compiler, files):
    """Returns the path of the wheel."""
    libraries = with_needed([file for file in files if ".so" in file.name], compiler)
    tag = "py3-none-" + platform_of(libraries)
    info = f"{PACKAGE}-{version}.dist-info"
    contents = {}
    for file in sorted({*files, *libraries}, key=lambda file: file.name):
        folder = info if file.name == "LICENSE" else PACKAGE
        contents[f"{folder}/{file.name}"] = file.read_bytes()
    contents[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    contents[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()
    record = "".join(record_line(name, content) for name, content in contents.items())
    contents[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{PACKAGE}-{version}-{tag}.whl"
    write_archive(path, contents)
    return path


def main(arguments):
    out, version, compiler, *files = arguments
    try:
        make_wheel(Path(out), version, compiler, [Path(file) for file in files])
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"make_wheel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
