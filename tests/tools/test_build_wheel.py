"""tools/build_wheel.py: a wheel says on which systems it loads, and its build says what it lacks."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import build_wheel
import pytest
from elftools.elf.elffile import ELFFile

pytestmark = pytest.mark.no_driver

ROOT = Path(build_wheel.__file__).resolve().parents[1]
CMAKE = Path(sys.executable).with_name("cmake")
# glibc 2.38 gives these other names (__isoc23_strtol) wherever they are compiled with _GNU_SOURCE.
RENAMED = {f"strto{kind}" for kind in ("l", "ul", "ll", "ull", "imax", "umax", "q", "uq")} | {
    "atoi", "atol", "atoll", "scanf", "fscanf", "sscanf", "vscanf", "vfscanf", "vsscanf",
}  # fmt: skip


def compiled(library: Path, code: str, *options: str | Path) -> Path:
    """A shared library of that code."""
    source = library.with_suffix(".c")
    source.write_text(code)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, *options], check=True)
    return library


def wheel_of(folder: Path, code: str, *linked: str | Path) -> Path:
    """A wheel that holds one shared library, compiled from `code`."""
    library = compiled(folder / "_library.so", code, *linked)
    info = "tiny-1.dist-info"
    files = {
        "tiny/_library.so": library.read_bytes(),
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: false\n"
        b"Tag: cp311-abi3-linux_x86_64\n",
    }
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=") for name, data in files.items()
    }
    record = "".join(f"{name},sha256={digest.decode()},{len(files[name])}\n" for name, digest in digests.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / "tiny-1-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.mark.full
def test_the_source_archive_has_the_benchmarks_and_the_wheel_has_not(tmp_path: Path) -> None:
    build = (  # without the C core
        "import sys; from scikit_build_core.build import build_sdist, build_wheel; "
        "build_sdist(sys.argv[1]); build_wheel(sys.argv[1], {'wheel.cmake': 'false', 'wheel.py-api': 'py3'})"
    )
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, check=True, capture_output=True, timeout=100)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        wheel = archive.namelist()
    assert {"benchmarks/__main__.py", "benchmarks/c/calls.c", "vkshare/__init__.pyi"} <= source
    assert {"vkshare/__init__.pyi", "vkshare/_native.pyi", "vkshare/py.typed"} <= {*wheel}
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"vkshare"}
    assert not [name for name in wheel if "bench" in name]


def test_a_wheel_of_old_symbols_is_tagged_for_the_systems_that_have_them(tmp_path: Path) -> None:
    raw = wheel_of(tmp_path, "#include <stdlib.h>\nvoid *f(void) { return malloc(1); }\n")
    tagged = build_wheel.tag(raw, tmp_path / "out")
    assert "manylinux" in tagged.name
    assert "-linux_" not in tagged.name


def test_a_symbol_that_debian_12_lacks_is_refused_by_its_version(tmp_path: Path) -> None:
    script = tmp_path / "versions"
    script.write_text("GLIBC_2.38 { global: __isoc23_strtoull; };\n")
    options = "-nostdlib", "-Wl,-soname,libc.so.6", f"-Wl,--version-script={script}"
    newer = compiled(
        tmp_path / "libc.so", "void __isoc23_strtoull(void) {}\n", *options
    )  # in place of a newer system's
    code = "void __isoc23_strtoull(void);\nvoid f(void) { __isoc23_strtoull(); }\n"
    raw = wheel_of(tmp_path, code, newer, "-nostdlib")
    with pytest.raises(RuntimeError, match=r"(?s)newer than glibc 2\.34.*2\.38"):
        build_wheel.tag(raw, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_core_and_the_extension_import_no_symbol_that_newer_c_libraries_rename() -> None:
    spec = importlib.util.find_spec("vkshare._native")
    assert spec is not None
    assert spec.origin is not None
    (library,) = Path(spec.origin).parent.glob("lib/libvkshare.so.?")
    wanted: set[str] = set()
    for path in (spec.origin, library):
        with open(path, "rb") as file:
            table: Any = ELFFile(file).get_section_by_name(".dynsym")
            wanted |= {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"}
    assert "malloc" in wanted
    assert not {name for name in wanted if name.removeprefix("__isoc99_").removeprefix("__isoc23_") in RENAMED}


# ---- what a build lacks ----------------------------------------------------------------------------------------------


def configure(folder: Path, *options: str, **environment: str) -> str:
    """What CMake says about a build that cannot be configured, its lines joined."""
    command = [
        str(CMAKE),
        "-G",
        "Ninja",
        "-S",
        str(ROOT),
        "-B",
        str(folder / "build"),
        f"-DCMAKE_MAKE_PROGRAM={CMAKE.with_name('ninja')}",
    ]
    done = subprocess.run(
        [*command, *options], env=os.environ | environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode != 0
    return " ".join(done.stderr.split())


def test_without_a_compiler_a_build_says_so_and_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    said = configure(tmp_path, PATH=str(tmp_path / "bin"), CC="")
    assert "no C compiler that works was found" in said
    assert "apt-get install gcc libc6-dev" in said
    assert "CMAKE_C_COMPILER" not in said


def test_without_pythons_headers_a_build_says_so_and_how_to_get_them(tmp_path: Path) -> None:
    said = configure(tmp_path, f"-DPython_EXECUTABLE={sys.executable}", f"-DPython_INCLUDE_DIR={tmp_path}/none")
    assert "with its headers (Python.h)" in said
    assert "apt-get install python3-dev" in said
    assert "VKSHARE_PYTHON=OFF" in said
