"""`vkshare demo window`: the shared demo's scene in a window, at whatever size, with its frame times."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the demo needs Pillow")

from support.demo_runs import demo, name_of, on, picture, said, shown_demo
from support.private_displays import XDisplay, sway, wait_for, without_displays, xvfb

from vkshare.demos import marks
from vkshare.demos.inspection import Inspector
from vkshare.demos.layout import SMALLEST, Layout
from vkshare.demos.lettering import PARTY_COLOURS
from vkshare.demos.stage import Stage, StageOptions, opened, rgba
from vkshare.demos.window import FrameTimes, Graph, Picture, Show, ceiling, plot_of

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.slow]

SMALL = (320, 180)
SIZES = (SMALL, (333, 334), (256, 400))


def faults(pixels: Any, frame: int | None = None) -> list[str]:
    """What the shared demo's checker finds; without a number, in the frame that the renderer's mark tells."""
    height, width = pixels.shape[:2]
    layout = Layout(width, height)
    if frame is None:
        reported = marks.read(pixels, layout.render_mark, layout.mark_cell)
        frame = next((number for number in range(20_000) if marks.code(number, 0) == reported), -1)
    return Inspector(layout).faults(frame, np.ascontiguousarray(pixels))


# ---- the demo as a user starts it ----------------------------------------------------------------------------------


@pytest.mark.every_driver
@pytest.mark.rule("A24", "A25")
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_headless_the_scene_is_as_the_shared_demos_checker_wants_it(
    vks_adapter: Any, tmp_path: Path, size: tuple[int, int]
) -> None:
    file = tmp_path / "out.png"
    more = ("--headless", "--frames", "7", "--size", f"{size[0]}x{size[1]}", "--output", str(file))
    run = demo("window", *on(vks_adapter), *more, environment=without_displays(dict(os.environ)))
    assert (run.returncode, said(run.stderr)) == (0, [])
    pixels = picture(file)
    assert pixels.shape == (size[1], size[0], 4)
    assert faults(pixels, 6) == []
    # A frame's time is known when the next one begins; a pause, as a loaded machine has it, is none.
    assert 1 <= _bars(pixels) <= 6


def _bars(pixels: Any) -> int:
    """How many there are in the graph, by the colours in its lowest row."""
    height, width = pixels.shape[:2]
    x, y, plot_width, plot_height = plot_of(Layout(width, height))
    row = pixels[y + plot_height - 1, x : x + plot_width, :3].astype(int)
    return int((row.max(1) > 180).sum())


@pytest.mark.every_driver
def test_a_window_follows_its_size_and_escape_ends_it(vks_adapter: Any, x11: XDisplay, tmp_path: Path) -> None:
    file = tmp_path / "out.png"
    with shown_demo(x11, "window", *on(vks_adapter), "--size", "320x180", "--output", str(file)) as run:
        x11.resize(run.window, 400, 260)
        time.sleep(0.2)  # a size that does not stay is not laid out
        x11.resize(run.window, 500, 300)
        wait_for(lambda: not faults(x11.picture(run.window)), "the scene, laid out for the new size", 20)
        assert run.press_escape() == (0, [])
    pixels = picture(file)
    assert pixels.shape == (300, 500, 4)
    assert faults(pixels) == []


@pytest.mark.rule("A14")
def test_a_minimised_window_burns_no_cpu_and_comes_back(vks_adapter: Any, x11: XDisplay) -> None:
    with shown_demo(x11, "window", *on(vks_adapter), "--size", "320x180") as run:
        x11.iconify(run.window)
        time.sleep(0.3)
        before = run.seconds_of_cpu()
        time.sleep(0.7)
        assert run.seconds_of_cpu() - before <= 0.07, "of 0.7 seconds"
        x11.restore(run.window)
        wait_for(lambda: run.seconds_of_cpu() - before > 0.15, "it draws again", 20)
        run.wait_for_colours()
        assert run.press_escape() == (0, [])


def test_the_close_button_ends_it(vks_adapter: Any, x11: XDisplay) -> None:
    with shown_demo(x11, "window", *on(vks_adapter), "--size", "320x180") as run:
        x11.ask_to_close(run.window)
        assert run.end() == (0, [])


def test_a_display_that_dies_is_told_without_a_traceback(vks_adapter: Any) -> None:
    with xvfb() as display, shown_demo(display, "window", *on(vks_adapter), "--size", "320x180") as run:
        display.kill()
        status, reported = run.end()
    assert status == 1
    assert reported
    assert reported[-1].startswith("vkshare demo: ")
    assert "Traceback" not in "".join(reported)


@pytest.mark.every_driver
@pytest.mark.rule("A24")
def test_on_wayland_vulkan_shows_it_and_the_cpu_backend_says_what_would(vks_adapter: Any) -> None:
    command = [sys.executable, "-m", "vkshare", "demo", "window", *on(vks_adapter), "--size", "320x180"]
    with sway() as display:
        process = subprocess.Popen(command, env=display.environment, stderr=subprocess.PIPE, text=True)
        try:
            if vks_adapter.backend == "vulkan":
                display.find("vkshare: window")
                display.resize("vkshare: window", 500, 300)
                wait_for(lambda: not faults(display.picture("vkshare: window")), "the scene, laid out anew", 20)
                process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
            process.communicate()
    if vks_adapter.backend == "vulkan":
        assert (process.returncode, said(err)) == (130, ["vkshare demo: interrupted"])
    else:
        assert process.returncode == 1
        assert "showing CPU windows on Wayland is not supported" in err
        assert "Traceback" not in err


# ---- in this process: exactly what is on the screen ----------------------------------------------------------------


@pytest.mark.every_driver
@pytest.mark.rule("A24", "A25")
@pytest.mark.parametrize("size", [SMALL, (500, 300)], ids=["small", "larger"])
def test_what_is_on_the_screen_is_the_frame_that_was_drawn_last(
    vks_adapter: Any, x11: XDisplay, size: tuple[int, int]
) -> None:
    with _window(vks_adapter, size) as stage, Show(stage, None) as show:
        window = x11.find("the scene")
        count = stage.play(show.draw, 5)
        kept = stage.shown()
        assert count == 5
        assert faults(kept, 4) == []
        wait_for(lambda: np.array_equal(x11.picture(window)[..., :3], kept[..., :3]), "it is on the screen")


def test_while_a_size_does_not_stay_the_picture_is_stretched(vks_adapter: Any, x11: XDisplay) -> None:
    with _window(vks_adapter, SMALL) as stage, Show(stage, None) as show:
        window = x11.find("the scene")
        stage.play(show.draw, 1)
        first = show._picture
        x11.resize(window, 640, 360)
        wait_for(lambda: stage.poll() or stage.window.size == (640, 360), "the size arrived")
        stage.play(show.draw, 1)
        assert show._picture is first
        stretched = stage.shown()
        assert stretched.shape == (360, 640, 4)
        assert first is not None
        drawn = _drawn_apart(stage, first)
        assert np.abs(stretched[..., :3].reshape(180, 2, 320, 2, 3).mean((1, 3)) - drawn).mean() < 3
        stage.play(show.draw, 12)
        assert show._picture is not first
        assert faults(stage.shown()) == []


def test_a_window_too_small_for_the_text_shows_the_scene_scaled_down(vks_adapter: Any) -> None:
    headless = StageOptions(64, 36, headless=True, backend=vks_adapter.backend, adapter=name_of(vks_adapter))
    with opened(headless, "the scene") as stage, Show(stage, 3) as show:
        stage.play(show.draw, 3)
        small = stage.shown()
        assert small.shape == (36, 64, 4)
        assert show._picture is not None
        large = _drawn_apart(stage, show._picture)
    assert large.shape[:2] == SMALLEST[::-1]
    assert np.abs(large.mean((0, 1)) - small[..., :3].mean((0, 1))).max() < 6


def _drawn_apart(stage: Stage, picture: Picture) -> Any:
    """What is scaled afterwards: (H, W, 3)."""
    surface = picture._surface_apart()
    return rgba(surface.read(), surface.format)[..., :3].astype(float)


def _window(adapter: Any, size: tuple[int, int]) -> Any:
    options = StageOptions(*size, backend=adapter.backend, adapter=name_of(adapter), output="kept.png")
    return opened(options, "the scene")


# ---- the graph -----------------------------------------------------------------------------------------------------


def test_bars_are_as_high_as_the_times_and_coloured_by_them(device: Any) -> None:
    layout = Layout(1280, 720)
    times = FrameTimes()
    now = 0.0
    for milliseconds in (0, *[10] * 30, *[25] * 30, *[38] * 30):
        now += milliseconds / 1000
        times.tick(now)
    graph = Graph(device, layout)
    with device.create_surface(1280, 720) as surface, surface.access() as view:
        commands = device.record().clear(view, (0, 0, 0, 1))
        graph.record(commands, view, times)
        device.submit(commands)
        pixels = surface.read().astype(int)
    graph.close()
    x, y, width, height = plot_of(layout)
    assert ceiling(np.array(times.recent)) == 40
    for index, (milliseconds, colour) in enumerate(zip((38, 25, 10), PARTY_COLOURS[::-1], strict=True)):
        column = x + width - 3 * (30 * index + 15)  # in the middle of that third: bars are 3 pixels apart
        bar = pixels[y : y + height, column, :3]
        covered = np.abs(bar - 0.92 * np.array(colour[:3])).max(1) < 25
        assert covered.sum() == pytest.approx(height * milliseconds / 40, abs=4)
        assert not covered[: round(height * (1 - milliseconds / 40)) - 3].any(), "above the bar is the panel"
    panel_x, panel_y, panel_width, panel_height = layout.graph
    assert (pixels[:panel_y] == (0, 0, 0, 255)).all()
    assert (pixels[panel_y + panel_height :] == (0, 0, 0, 255)).all()
    assert pixels[panel_y : y - 4, panel_x + panel_width // 2 :, :3].max() > 120, "the median is written above"


def test_a_pause_is_no_frames_time() -> None:
    times = FrameTimes()
    for now in (0.0, 0.010, 5.0, 5.020):
        times.tick(now)
    assert list(times.recent) == pytest.approx([10, 20])


def test_the_graphs_top_is_a_round_number_that_one_slow_frame_does_not_move() -> None:
    assert ceiling(np.array([])) == 5
    assert ceiling(np.array([4.0] * 99 + [900.0])) == 5
    assert ceiling(np.array([16.7] * 50)) == 20
    assert ceiling(np.array([5000.0] * 50)) == 1000


@pytest.mark.parametrize("size", [*SIZES, (1280, 720), (720, 1280), (4096, 300)])
def test_the_graph_covers_neither_marks_nor_text_nor_the_sky(size: tuple[int, int]) -> None:
    layout = Layout(*size)
    x, y, width, height = layout.graph
    live_x, _, live_width, _ = layout.live_line
    assert live_x + live_width <= x or layout.live_line[1] + layout.live_line[3] <= y
    assert x + width == layout.width - layout.margin
    assert y + height < layout.render_mark[1]
    assert y > 0.3 * layout.height
