"""The site of `make docs`: that it builds without a warning, and that its reference has every public name."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.tree_paths import ROOT

import vkshare

pytestmark = pytest.mark.no_driver

PACKAGES = (
    "errors",
    "testing",
    "vsync",
    "server",
    "compositor",
    "interop.cuda",
    "interop.gl",
    "engines",
    "engines.moderngl",
    "engines.pyglet",
    "engines.wgpu",
    "engines.pygfx",
    "engines.qt",
    "engines.panda3d",
    "engines.vtk",
    "engines.slangpy",
    "testing.link",
    "ray",
    "remote",
    "view",
    "video",
)


def _documented() -> set[str]:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    return {name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE)}


def _public() -> set[str]:
    names = {f"vkshare.{name}" for name in vars(vkshare)["__all__"] if not name.startswith("_")}
    names -= {
        f"vkshare.{name}" for name in vars(vkshare)["__all__"] if name.endswith(("Error", "Timeout"))
    }  # errors' page
    for package in PACKAGES:
        module = importlib.import_module(f"vkshare.{package}")
        listed = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__
        ]
        names |= {f"vkshare.{package}.{name}" for name in listed if not name.startswith("_")}
    return names - {f"vkshare.{package}" for package in PACKAGES}


def test_the_reference_has_every_public_name_and_no_other() -> None:
    extra = {"vkshare.formats.from_code", "vkshare.formats.get", "vkshare.testing.goldens.Golden"}
    extra |= {f"vkshare.core.watching.{name}" for name in ("watch", "device_for", "stamp_of")}
    extra |= {f"vkshare.testing.faults.{name}" for name in ("kill", "delay", "lose")}
    assert _documented() - extra == _public()


@pytest.mark.full
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed (make venv)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "reference" / "devices.html").read_text()
    assert all(f'id="vkshare.{name}"' in page for name in ("open", "Device", "Device.create_surface", "Fence.export"))
