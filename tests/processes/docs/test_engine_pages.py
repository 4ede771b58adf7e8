"""The pages of docs/engines: each is a program that runs with the engine from PyPI and writes a picture."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.engine_packages import environment_of, need_engine, need_qt
from support.tree_paths import ROOT

import vkshare as vks

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.rule("E15", "E16"), pytest.mark.slow, pytest.mark.program]

FOLDER = ROOT / "docs" / "engines"
Picture = np.ndarray[Any, Any]
NO_OPENGL = r"no OpenGL here: .+\n"


@dataclass(frozen=True)
class Page:
    """What a page needs, prints, and draws.

    `needs_opengl`: its program uses OpenGL, and says so where the device's memory cannot be opened there.
    `needs_display`: its program opens windows.
    `is_right`: of the picture, RGBA or RGB, that it writes to a file of its name.
    """

    engine: str
    printed: str
    is_right: Callable[[Picture], bool]
    needs_opengl: bool = True
    needs_display: bool = True


def near(picture: Picture, x: int, y: int, colour: tuple[int, int, int], bound: int = 6) -> bool:
    """Return whether the pixel has that colour, but for `bound`."""
    return bool(abs(picture[y, x, :3].astype(int) - colour).max() <= bound)


def is_rings(picture: Picture) -> bool:
    inside = near(picture, 160, 90, (255, 121, 51), 8)
    return picture.shape[:2] == (180, 320) and inside and picture[2, 2, 2] > picture[2, 2, 0] + 30


def has_triangle(picture: Picture) -> bool:
    """The triangle of the pages: orange at its middle, with its tip above."""
    height, width = picture.shape[:2]
    middle, tip = picture[height // 2, width // 2], picture[height * 30 // 100, width // 2]
    return bool((middle[:3] > (250, 90, 40)).all() and (tip[:3] > (250, 70, 40)).all() and tip[1] < 100)


def is_pyglets(picture: Picture) -> bool:
    label = picture[165:195, 10:100, :3].min(2) > 200  # white text
    bar = near(picture, 300, 180, (40, 90, 200)) and near(picture, 300, 150, (26, 26, 26))
    return picture.shape[:2] == (200, 320) and has_triangle(picture) and bar and label.sum() > 150


def is_plots(picture: Picture) -> bool:
    """The same curve twice, beside each other, and the mark at the left that Vulkan drew."""
    blue = picture[:, :, 2].astype(int) - picture[:, :, 0] > 60
    agg, cairo = blue[:, 20:400].sum(), blue[:, 400:].sum()
    mark = near(picture, 5, 150, (255, 128, 0)) and near(picture, 14, 5, (255, 255, 255))
    return picture.shape[:2] == (300, 800) and mark and 400 < agg < 2000 and bool(abs(agg / cairo - 1) < 0.1)


def is_tkinters(picture: Picture) -> bool:
    width, height = picture.shape[1], picture.shape[0]
    return width == 420 and 240 < height < 360 and has_triangle(picture) and near(picture, 3, 3, (51, 26, 76))


def is_qt_widgets(picture: Picture) -> bool:
    text = picture[20:45, 15:125, :3].min(2) > 200
    ground = near(picture, 5, 5, (30, 60, 90)) and near(picture, 315, 195, (30, 60, 90))
    return picture.shape[:2] == (200, 320) and has_triangle(picture) and ground and text.sum() > 150


def is_qt_quicks(picture: Picture) -> bool:
    text = picture[12:42, 15:125, :3].min(2) > 200
    above, below = near(picture, 300, 2, (0x20, 0x50, 0x80)), near(picture, 300, 198, (0x10, 0x20, 0x30))
    bar = near(picture, 160, 172, (42, 118, 91), 8)
    return picture.shape[:2] == (200, 320) and has_triangle(picture) and above and below and bar and text.sum() > 150


def is_qt_swapchains(picture: Picture) -> bool:
    height, width = picture.shape[:2]
    return width > 380 and height > 240 and has_triangle(picture) and near(picture, 3, 3, (51, 26, 76))


def is_scene(picture: Picture, ground: tuple[int, int, int], x: int) -> bool:
    """A rendered scene with the triangle of the pages as a texture, grey and orange at `x`, below Vulkan's mark."""
    mark, behind = near(picture, 160, 3, (255, 128, 0)), near(picture, 5, 190, ground)
    column = picture[20:190, x, :3].astype(int)
    orange = (column[:, 0] > 240) & (column[:, 2] < 80)
    grey = abs(column - 230).max(1) < 8
    return picture.shape[:2] == (200, 320) and mark and behind and bool(orange.sum() > 40 and grey.sum() > 10)


PAGES = {
    "moderngl": Page("moderngl", r"0 bytes copied\n", is_rings, needs_display=False),
    "pyglet": Page("pyglet", r"0 bytes copied\n", is_pyglets),
    "matplotlib": Page("matplotlib", "", is_plots, needs_opengl=False, needs_display=False),
    "tkinter": Page("_tkinter", r"frames of \(420, \d+\) at the end\n", is_tkinters, needs_opengl=False),
    "qt-widget": Page("PySide6", "", is_qt_widgets),
    "qt-quick": Page("PySide6", r"0 bytes copied\n", is_qt_quicks),
    "panda3d": Page("panda3d", "", lambda picture: is_scene(picture, (26, 51, 76), 190), needs_display=False),
    "vtk": Page("pyvista", "", lambda picture: is_scene(picture, (25, 25, 112), 120), needs_display=False),
    "qt-swapchain": Page("PySide6", r"frames of .* at the end\n", is_qt_swapchains, needs_opengl=False),
}


LAYER_PAGES = ("pygfx", "slangpy", "wgpu")  # test_layer_pages.py


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (FOLDER / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL)


def run(page: str, folder: Path, environment: dict[str, str]) -> str:
    """Run the program of a page in an empty folder and return what it prints."""
    (block,) = blocks(page)
    program = folder / f"{page}_page.py"
    program.write_text(block)
    # -I: it must not depend on where it is started. Objects of ours that were not closed warn.
    command = [sys.executable, "-I", "-W", "default::ResourceWarning", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert "vkshare" not in "".join(line for line in done.stderr.splitlines() if "ResourceWarning" in line)
    return done.stdout


def opens_in_opengl(device: vks.Device) -> bool:
    """Return whether the OpenGL of the run opens the device's memory."""
    return device.backend != "cpu" and "SwiftShader" not in device.adapter.name


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_with_the_engine_and_writes_its_picture(
    page: str, device: vks.Device, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    expected = PAGES[page]
    need_engine(expected.engine)
    if expected.engine == "PySide6":
        need_qt()
    printed = run(page, tmp_path, environment_of(request, headless=not expected.needs_display))
    picture = tmp_path / f"{page}.png"
    if expected.needs_opengl and not opens_in_opengl(device):
        assert re.fullmatch(NO_OPENGL, printed)
        assert not picture.exists()
        return
    assert re.fullmatch(expected.printed, printed)
    from PIL import Image

    assert expected.is_right(np.asarray(Image.open(picture)))


def test_every_page_is_run_and_listed() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} - {"index"} == {*PAGES, *LAYER_PAGES}
    index = (FOLDER / "index.md").read_text()
    assert all(f"]({page}.md)" in index for page in (*PAGES, *LAYER_PAGES))


@pytest.mark.parametrize("page", ["index", *PAGES, *LAYER_PAGES])
def test_links_of_a_page_lead_to_files_that_exist(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (FOLDER / f"{page}.md").read_text())
    assert [target for target in targets if "://" not in target and not (FOLDER / target).exists()] == []
