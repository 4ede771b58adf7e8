"""The C library of the installed package: its symbols, its dependencies, and programs that are built against it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.c_client import compiler, cpp_compiler
from support.tree_paths import ROOT

import vkshare
from vkshare import _library, _native
from vkshare.util import library

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]

EXAMPLE = ROOT / "examples" / "c_library"
PRINTED = f"vkshare {vkshare.__version__.rpartition('.')[0]}, status 0\n"

INCLUDE = Path(vkshare.get_include())
HEADERS = [INCLUDE / f"vkshare{part}.h" for part in ("", "_surface", "_ipc", "_vulkan", "_present")]
LIBRARY = next((INCLUDE.parent / "lib").glob("libvkshare.so.?"))


def tool(name: str, *arguments: object) -> str:
    """What a tool prints; skips the test where it is missing."""
    beside = Path(sys.executable).parent / name  # `name` may be a whole path
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"there is no {name} here")
    done = subprocess.run([found, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def exported() -> dict[str, str]:
    """Symbol -> the version node that it is in."""
    words = [line.split()[-1] for line in tool("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    return dict(re.split("@+", word) for word in words if "@" in word)


def declared() -> set[str]:
    """The functions of the installed headers."""
    text = "\n".join(header.read_text() for header in HEADERS)
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return set(re.findall(r"^\w[\w *]*?\b(vks_\w+)\(", code, flags=re.M))


def dynamic(path: Path) -> str:
    return tool("readelf", "-dW", path)


# ---- one library ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("C1", "C2")
def test_the_public_symbols_are_the_functions_of_the_header() -> None:
    public = {name for name, node in exported().items() if node == "VKSHARE_0"}
    assert public == declared()
    assert "vks_version" in public


@pytest.mark.full
@pytest.mark.rule("C1")
def test_the_other_symbols_are_those_of_this_versions_extension() -> None:
    private = {name for name, node in exported().items() if node != "VKSHARE_0"}
    assert {exported()[name] for name in private} == {f"VKSHARE_PRIVATE_{vkshare.__version__}"}
    files = [_native.__file__, _library.__file__]
    wanted = re.findall(r" U (vks_\w+)@(\w[\w.]*)", tool("nm", "-D", "--undefined-only", *files))
    assert {name for name, node in wanted if node.startswith("VKSHARE_PRIVATE")} == private


@pytest.mark.rule("C1")
def test_the_library_has_a_soname_and_needs_the_c_library_alone() -> None:
    text = dynamic(LIBRARY)
    assert re.findall(r"soname: \[(.*?)\]", text) == ["libvkshare.so.0"]
    needed = {name.partition(".so")[0] for name in re.findall(r"Shared library: \[(.*?)\]", text)}
    assert needed <= {"libc", "libm", "libdl", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}
    assert "TEXTREL" not in text


@pytest.mark.rule("C1")
@pytest.mark.parametrize("extension", [_native, _library])
def test_an_extension_uses_the_file_that_engines_use(extension: ModuleType) -> None:
    text = dynamic(Path(str(extension.__file__)))
    assert "Shared library: [libvkshare.so.0]" in text
    assert re.findall(r"R(?:UN)?PATH.*\[(.*?)\]", text) == ["$ORIGIN/lib"]
    maps = Path("/proc/self/maps").read_text()
    loaded = {line.split(maxsplit=5)[5] for line in maps.splitlines() if "libvkshare" in line}
    assert loaded == {str(LIBRARY)}
    assert library.link_options()[1] == f"-l:{LIBRARY.name}"


@pytest.mark.rule("C1")
def test_calls_within_the_library_are_direct() -> None:
    relocations = tool("readelf", "-rW", LIBRARY)
    assert "vks_" not in re.sub(r".*(GLOB_DAT|_64 |ABS64).*vks_trace_kind_names.*", "", relocations)


FILL = """
#define SIZE 128
static _Thread_local __attribute__((tls_model("initial-exec"))) char block[SIZE];
char *vks_test_block(void) { return block; }
"""

LOAD = """
import ctypes, shutil, sys
library, filler, folder = sys.argv[1:]
try:
    for number in range(1000):
        ctypes.CDLL(shutil.copy(filler, f"{folder}/filler{number}.so"))
except OSError as error:
    print("static TLS" in str(error))
core = ctypes.CDLL(library)
core.vks_last_error.restype = ctypes.c_void_p
print(core.vks_version(), core.vks_last_error() is not None)
"""


@pytest.mark.rule("C1")
def test_the_library_loads_when_other_libraries_have_used_up_static_tls(tmp_path: Path) -> None:
    assert "STATIC_TLS" not in dynamic(LIBRARY)
    source = tmp_path / "filler.c"
    source.write_text(FILL)
    filler = tmp_path / "filler.so"
    subprocess.run([*compiler(), "-shared", "-fPIC", source, "-o", filler], check=True)
    said = subprocess.run(
        [sys.executable, "-c", LOAD, LIBRARY, filler, tmp_path], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"True\n{1 << 12} True\n"


# ---- the header ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("C2")
@pytest.mark.parametrize("header", [header.name for header in HEADERS])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_a_header_compiles_alone(tmp_path: Path, language: str, header: str) -> None:
    command = compiler() if language == "c" else cpp_compiler()
    source = tmp_path / ("alone.c" if language == "c" else "alone.cpp")
    source.write_text(
        f"#include <{header}>\n#include <{header}>\n"
        "int main(void) { return vks_version() != VKS_VERSION || vks_version() < VKS_MAKE_VERSION(0, 1, 0); }\n"
    )
    strict = ["-std=c11" if language == "c" else "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    vulkan = ["-isystem", str(ROOT / "native" / "third_party")]  # an engine has these headers of its own
    options = [*library.compile_options(), *vulkan, str(source), "-o", str(tmp_path / "alone")]
    options += library.link_options()
    subprocess.run([*command, *strict, *options], check=True)
    assert subprocess.run([tmp_path / "alone"], check=False).returncode == 0  # links by C's names too


@pytest.mark.rule("C2")
def test_the_header_has_the_packages_version() -> None:
    numbers = re.findall(r"#define VKS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADERS[0].read_text())
    assert ".".join(numbers) == vkshare.__version__


# ---- programs ------------------------------------------------------------------------------------------------------


def printed(*arguments: str) -> str:
    return tool(sys.executable, "-m", "vkshare", *arguments).strip()


@pytest.mark.slow
@pytest.mark.rule("C3")
def test_cmake_finds_the_installed_package(tmp_path: Path) -> None:
    compiler()
    tool("cmake", "-S", EXAMPLE, "-B", tmp_path, f"-Dvkshare_DIR={printed('--cmake-dir')}")
    tool("cmake", "--build", tmp_path)
    assert tool(str(tmp_path / "engine")) == PRINTED


@pytest.mark.slow
@pytest.mark.rule("C3", "C9")
def test_the_engine_in_cpp_builds_with_the_installed_package(tmp_path: Path) -> None:
    cpp_compiler()
    tool("cmake", "-S", ROOT / "examples" / "cpp_engine", "-B", tmp_path, f"-Dvkshare_DIR={printed('--cmake-dir')}")
    tool("cmake", "--build", tmp_path)
    done = subprocess.run([tmp_path / "cpp_engine"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.split()[0]) == (1, "usage:")


@pytest.mark.rule("C1", "C3")
def test_the_command_prints_what_a_compiler_needs(tmp_path: Path) -> None:
    words = [*printed("--cflags").split(), *printed("--libs").split()]
    subprocess.run([*compiler(), EXAMPLE / "engine.c", *words, "-o", tmp_path / "engine"], check=True)
    assert tool(str(tmp_path / "engine")) == PRINTED


@pytest.mark.rule("C3")
def test_pkg_config_describes_the_installed_package(tmp_path: Path) -> None:
    if not shutil.which("pkg-config"):
        pytest.skip("there is no pkg-config here")
    environment = os.environ | {"PKG_CONFIG_PATH": str(LIBRARY.parent / "pkgconfig")}
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", f"vkshare = {vkshare.__version__}"],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    subprocess.run([*compiler(), EXAMPLE / "engine.c", *words, "-o", tmp_path / "engine"], check=True)
    assert tool(str(tmp_path / "engine")) == PRINTED


def test_the_guide_shows_the_example() -> None:
    page = (ROOT / "docs" / "c-api.md").read_text()
    for name, language in (("engine.c", "c"), ("CMakeLists.txt", "cmake")):
        assert f"```{language}\n{(EXAMPLE / name).read_text()}```\n" in page
