"""The checked-in SPIR-V is what the checked-in GLSL says."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.tree_paths import ROOT

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]

SHADERS = ROOT / "shaders"
SOURCES = sorted(path.name for suffix in ("vert", "frag", "comp") for path in SHADERS.glob(f"*.{suffix}"))


@pytest.fixture(scope="module")
def manifest() -> dict[str, dict[str, str]]:
    known: dict[str, dict[str, str]] = json.loads((SHADERS / "manifest.json").read_text())
    return known


def tool(name: str) -> str:
    """The tool's path in the sysroot, which is not made for this."""
    sysroot = Path(os.environ.get("VKSHARE_SYSROOT", ROOT / ".cache/sysroot"))
    if not (sysroot / "tools" / name).is_file():
        pytest.skip(f"there is no {name}: python3 tools/sysroot unpacks it")
    return str(sysroot / "tools" / name)


@pytest.mark.parametrize("name", SOURCES)
def test_the_manifest_has_the_hash_of_the_source(manifest: dict[str, dict[str, str]], name: str) -> None:
    included = [path.read_bytes() for path in sorted(SHADERS.glob("*.glsl"))]
    source = (SHADERS / name).read_bytes()
    assert manifest["shaders"][name] == hashlib.sha256(b"".join([source, *included])).hexdigest()


def test_the_manifest_and_the_folder_name_the_same_shaders(manifest: dict[str, dict[str, str]]) -> None:
    assert sorted(manifest["shaders"]) == SOURCES
    assert sorted(path.name for path in SHADERS.glob("*.spv")) == [f"{name}.spv" for name in SOURCES]


def test_the_compiler_of_the_manifest_makes_the_same_bytes(manifest: dict[str, dict[str, str]]) -> None:
    version = subprocess.run([tool("glslangValidator"), "--version"], capture_output=True, text=True, check=True)
    if version.stdout.splitlines()[0] != manifest["compiler"]:
        pytest.skip(f"the compiler is {version.stdout.splitlines()[0]}, the manifest's {manifest['compiler']}")
    command = [sys.executable, str(ROOT / "tools/shaders.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SOURCES)
def test_the_spirv_is_valid(name: str) -> None:
    command = [tool("spirv-val"), "--target-env", "vulkan1.3", str(SHADERS / f"{name}.spv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_shader_that_is_not_there_says_where_it_was_looked_for() -> None:
    from vkshare.backends.vulkan.shaders import spirv

    assert spirv("composite.frag")[:4] == b"\x03\x02\x23\x07"
    with pytest.raises(FileNotFoundError, match=r"missing\.frag\.spv is in none of .*shaders"):
        spirv("missing.frag")
