"""`vkshare demo triangle`: the program that newcomers copy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="pictures are written with Pillow")

from support.demo_runs import demo, name_of, on, picture, said, shown, shown_demo
from support.private_displays import XDisplay, wait_for, without_displays

import vkshare as vks
from vkshare.demos import triangle
from vkshare.demos.stage import StageOptions, opened

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.slow]

MIDDLE = np.mean(triangle.COLOURS, 0)[:3] * 255  # of any turn: the colours meet there
NIGHT = np.array(triangle.NIGHT[:3]) * 255


def check(pixels: Any, turn: float) -> None:
    """The colours at known places: over the triangle they mix as the distances from its corners tell."""
    height, width = pixels.shape[:2]
    corners = np.array(triangle.triangle(turn, width, height))
    for weights in ((1, 1, 1), (8, 1, 1), (1, 8, 1), (1, 1, 8), (4, 4, 1), (1, 4, 4), (4, 1, 4)):
        x, y, *colour = np.average(corners, axis=0, weights=weights)
        pixel = pixels[int((y + 1) / 2 * height), int((x + 1) / 2 * width), :3]
        assert np.abs(pixel - 255 * np.array(colour[:3])).max() <= 4, (weights, pixel)
    for outside in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert np.abs(outside[..., :3] - NIGHT).max() <= 1, "the triangle's corners stay inside"


def check_middle(pixels: Any) -> None:
    height, width = pixels.shape[:2]
    assert np.abs(pixels[height // 2, width // 2, :3] - MIDDLE).max() <= 5
    assert np.abs(pixels[0, 0, :3] - NIGHT).max() <= 1


@pytest.mark.every_driver
@pytest.mark.rule("A24", "A25")
@pytest.mark.parametrize(("size", "frames"), [((320, 200), 31), ((90, 240), 1)])
def test_headless_its_colours_are_where_they_must_be(
    vks_adapter: Any, tmp_path: Path, size: tuple[int, int], frames: int
) -> None:
    file = tmp_path / "out.png"
    more = ("--headless", "--frames", str(frames), "--size", f"{size[0]}x{size[1]}", "--output", str(file))
    run = demo("triangle", *on(vks_adapter), *more, environment=without_displays(dict(os.environ)))
    assert (run.returncode, said(run.stderr)) == (0, [])
    pixels = picture(file)
    assert pixels.shape == (size[1], size[0], 4)
    check(pixels, (frames - 1) / 60 / 6)


@pytest.mark.every_driver
@pytest.mark.rule("A24", "A25")
def test_what_is_on_the_screen_is_what_was_drawn_and_what_capture_gives(vks_adapter: Any, x11: XDisplay) -> None:
    options = StageOptions(
        320, 200, backend=vks_adapter.backend, adapter=name_of(vks_adapter), output="kept.png"
    )  # fmt: skip
    with opened(options, "a triangle") as stage:
        assert stage.window is not None
        window = x11.find("a triangle")
        stage.play(lambda frame, number, seconds: triangle.draw(stage.device, frame, 1.5), 5)
        kept = stage.shown()
        check(kept, 0.25)
        wait_for(lambda: np.array_equal(x11.picture(window)[..., :3], kept[..., :3]), "it is on the screen")


def test_escape_ends_it(vks_adapter: Any, x11: XDisplay, tmp_path: Path) -> None:
    file = tmp_path / "out.png"
    with shown_demo(x11, "triangle", *on(vks_adapter), "--size", "320x200", "--output", str(file)) as run:
        wait_for(lambda: _is_filled(x11.picture(run.window)), "the triangle")
        x11.resize(run.window, 400, 300)
        wait_for(lambda: _is_filled(x11.picture(run.window)), "the picture follows the window's size")
        assert run.press_escape() == (0, [])
    pixels = picture(file)
    assert pixels.shape == (300, 400, 4)
    check_middle(pixels)


def _is_filled(pixels: Any) -> bool:
    try:
        check_middle(pixels)
    except AssertionError:
        return False
    return bool(np.abs(pixels[-1, -1, :3] - NIGHT).max() <= 1)


def test_the_close_button_ends_the_program_that_is_to_be_copied(vks_adapter: Any, x11: XDisplay) -> None:
    command = [sys.executable, "-m", "vkshare.demos.triangle"]
    environment = {"VKSHARE_ADAPTER": name_of(vks_adapter), "VKSHARE_BACKEND": vks_adapter.backend}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with shown(x11, "vkshare: triangle", command) as run:
            wait_for(lambda: _is_filled(x11.picture(run.window)), "the triangle")
            x11.ask_to_close(run.window)
            assert run.end() == (0, [])


def test_ctrl_c_ends_it_without_a_traceback(vks_adapter: Any, x11: XDisplay) -> None:
    with shown_demo(x11, "triangle", *on(vks_adapter)) as run:
        run.process.send_signal(signal.SIGINT)
        assert run.end() == (130, ["vkshare demo: interrupted"])


def test_its_source_is_one_screen_long_and_needs_vkshare_only() -> None:
    source = Path(triangle.__file__).read_text()
    assert len(source.splitlines()) <= 50
    code = "import sys, vkshare.demos.triangle; print('PIL' in sys.modules, 'vkshare.demos.stage' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
    assert vks.Window.__module__
