"""The pages of docs/engines whose engines use the layer: each program prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.engine_packages import need_engine
from support.tree_paths import ROOT

import vkshare as vks

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


@pytest.mark.rule("E11", "E16")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_program_of_a_page_prints_what_it_says(name: str, vks_adapter: vks.Adapter, tmp_path: Path) -> None:
    module, expected = PROGRAMS[name]
    need_engine(module)
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
