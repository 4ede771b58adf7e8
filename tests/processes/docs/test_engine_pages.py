"""The pages of docs/engines: each is a program, which runs with the engine from PyPI."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.tree_paths import ROOT

import vkshare as vks

pytestmark = pytest.mark.driver_dependent

PAGES = sorted((ROOT / "docs" / "engines").glob("*.md"))
# The module that a page's program needs, and what it prints.
PROGRAMS = {
    "pygfx": ("pygfx", r"the plane is \[255 +0 +0 255\] before .*\nthe plane is \[ *0 255 +0 255\] before .*\n"),
    "slangpy": (
        "slangpy",
        r"slangpy reads \[ *0 +0 +255 +255\]\nthe other device reads \[ *255 +0 +0 +255\]\n",
    ),
    "wgpu": ("wgpu", r"wgpu drew \[255 +0 +0 255\] and kept \[ *0 +0 255 255\]\n0 bytes copied\n"),
}


def program_of(page: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.rule("E11")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_program_of_a_page_prints_what_it_says(name: str, vks_adapter: vks.Adapter, tmp_path: Path) -> None:
    module, expected = PROGRAMS[name]
    pytest.importorskip(module, reason=f"{module} is not installed (vkshare[engines])")
    if vks_adapter.backend != "vulkan":
        pytest.skip(f"{module} has no device on the CPU backend")
    program = tmp_path / "program.py"
    program.write_text(program_of(ROOT / "docs" / "engines" / f"{name}.md"))
    command = [sys.executable, "-I", "-W", "error::ResourceWarning", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=False)
    if name == "slangpy" and "Failed to create device!" in done.stderr:
        pytest.skip(f"slangpy itself makes no device on {vks_adapter.driver}")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(expected, done.stdout), done.stdout
    assert "outside its turn" not in done.stderr


@pytest.mark.no_driver
def test_every_page_with_a_program_is_run() -> None:
    assert {page.stem for page in PAGES if program_of(page)} >= PROGRAMS.keys()


@pytest.mark.no_driver
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target and ((ROOT / "native" / "device").is_dir() or "native/" not in target):
            assert page.parent.joinpath(target).exists(), target
