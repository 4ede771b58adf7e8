"""The C library from the sources: a program uses a build tree, an install prefix, and the sources as a sub-project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from results import ROOT
from support import c_client, cmake_build

import vkshare

EXAMPLE = ROOT / "examples" / "c_library"
PRINTED = f"vkshare {vkshare.__version__.rpartition('.')[0]}, status 0\n"

pytestmark = [pytest.mark.no_driver, pytest.mark.slow]


def run(*command: object, **variables: str) -> str:
    """What a command prints."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # the venv's cmake and ninja
    done = subprocess.run(
        [*map(str, command)], env=os.environ | {"PATH": path} | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def build_tree() -> Path:
    """A build of the library and of the examples, which test_c_client.py uses too."""
    c_client.program("cpu_client")
    cmake_build.build(c_client.BUILD, "all")
    return c_client.BUILD


@pytest.fixture(scope="module")
def prefix(build_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `cmake --install` made, moved: nothing in it has the path that it was installed to."""
    first = tmp_path_factory.mktemp("install")
    run("cmake", "--install", build_tree, "--prefix", first / "usr")
    return Path(shutil.move(first / "usr", first / "moved"))


def built(folder: Path, source: Path, *options: str) -> str:
    """What the program of a project prints."""
    run("cmake", "-G", "Ninja", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", *options)
    run("cmake", "--build", folder, "-j1")
    return run(folder / "engine")


@pytest.mark.rule("C3")
def test_cmake_finds_a_build_tree(build_tree: Path, tmp_path: Path) -> None:
    assert built(tmp_path, EXAMPLE, f"-Dvkshare_DIR={build_tree}") == PRINTED


@pytest.mark.rule("C3")
def test_cmake_finds_an_install_prefix(prefix: Path, tmp_path: Path) -> None:
    assert built(tmp_path, EXAMPLE, f"-DCMAKE_PREFIX_PATH={prefix}") == PRINTED


@pytest.mark.rule("C3")
def test_another_minor_version_is_not_found(prefix: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(EXAMPLE, source)
    project = source / "CMakeLists.txt"
    project.write_text(project.read_text().replace("vkshare 0.1", "vkshare 0.0"))
    with pytest.raises(AssertionError, match="compatible"):
        built(tmp_path / "build", source, f"-DCMAKE_PREFIX_PATH={prefix}")


@pytest.mark.rule("C3")
def test_pkg_config_finds_an_install_prefix(prefix: Path, tmp_path: Path) -> None:
    if not shutil.which("pkg-config"):
        pytest.skip("there is no pkg-config here")
    (folder,) = prefix.rglob("pkgconfig")
    words = run("pkg-config", "--cflags", "--libs", "vkshare", PKG_CONFIG_PATH=str(folder)).split()
    program = tmp_path / "engine"
    run(*c_client.compiler(), EXAMPLE / "engine.c", *words, "-o", program)
    assert run(program, LD_LIBRARY_PATH=str(folder.parent)) == PRINTED


@pytest.mark.full
@pytest.mark.rule("C3")
def test_a_project_has_the_sources_as_a_sub_project(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    text = (EXAMPLE / "CMakeLists.txt").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("find_package"))
    changed = text.replace(line, f"add_subdirectory({ROOT} vkshare)").replace("engine.c", str(EXAMPLE / "engine.c"))
    (source / "CMakeLists.txt").write_text(changed + "install(TARGETS engine)\n")
    assert built(tmp_path / "build", source, "-DCMAKE_C_FLAGS=-O0") == PRINTED
    run("cmake", "--install", tmp_path / "build", "--prefix", tmp_path / "usr")
    installed = {path.name for path in (tmp_path / "usr").rglob("*") if path.is_file()}
    assert installed == {"engine"}  # the engine's own files; it decides what becomes of the library
