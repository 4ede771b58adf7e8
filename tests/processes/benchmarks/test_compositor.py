"""benchmarks/compositor.py: the contenders draw the same picture, and every frame is counted."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import pytest

import vkshare
from benchmarks import compositor_load
from benchmarks.compositor import BACKGROUND, BASELINE, NATIVE, Composites, InC, Pixels, pictures, seen_pixels
from benchmarks.compositor_load import HEIGHT, PLACES, WIDTH
from vkshare.compositor import Compositor

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(
        os.environ.get("VKSHARE_TEST_DRIVER", "cpu") != "cpu",
        reason="it asks the CPU backend alone: the run on cpu tests it",
    ),
]


@pytest.fixture
def device() -> Iterator[vkshare.Device]:
    with vkshare.open(backend="cpu") as device:
        yield device


def _in_c(windows: list[Pixels], **options: bool | tuple[str, ...]) -> Pixels:
    loops = InC(windows, **options)  # type: ignore[arg-type]
    assert loops.timed(1) > 0
    return loops.picture


def _furthest(a: Pixels, b: Pixels) -> int:
    return int(np.abs(a.astype(int) - b.astype(int)).max())


@pytest.mark.parametrize("opaque", [False, True])
def test_the_loops_in_c_and_the_composite_that_is_timed_draw_the_same_picture(
    device: vkshare.Device, opaque: bool
) -> None:
    windows = pictures(opaque=opaque)
    expected = _in_c(windows, flags=BASELINE)
    for options in ({"in_bands": True}, {"flags": NATIVE}, {"flags": NATIVE, "in_bands": True}):
        assert _furthest(_in_c(windows, **options), expected) == 0
    with Composites(device, windows, opaque=opaque) as ours:
        ours.composite()
        assert _furthest(ours.swapchain.capture(), expected) <= 1


def test_a_compositor_shows_the_picture_that_is_timed(device: vkshare.Device) -> None:
    windows = pictures()
    with (
        Composites(device, windows) as timed,
        Compositor(device, vkshare.Headless(WIDTH, HEIGHT), background=BACKGROUND) as compositor,
    ):
        timed.composite()
        for picture, (x, y, opacity) in zip(timed.pictures.values(), PLACES, strict=True):
            picture.release(1)
            compositor.open_window(picture, at=(x, y), opacity=opacity)
        _wait_until_shown(compositor, len(PLACES))
        assert _furthest(compositor.capture(), timed.swapchain.capture()) == 0
        for window in compositor.windows:
            window.close()


def _wait_until_shown(compositor: Compositor, frames: int) -> None:
    end = time.monotonic() + 60
    while compositor.statistics().shown < frames:
        assert time.monotonic() < end, compositor.statistics()
        time.sleep(0.01)


@pytest.mark.parametrize("windows", [1, 8])
def test_what_is_counted_as_seen_of_the_windows_lies_in_the_target(windows: int) -> None:
    seen = np.zeros((HEIGHT, WIDTH), int)
    for x, y, _ in PLACES[:windows]:
        seen[max(y, 0) : max(y + 720, 0), max(x, 0) : max(x + 1280, 0)] += 1
    assert seen_pixels(windows) == seen.sum()


def test_every_frame_that_clients_draw_is_counted_once() -> None:
    load = compositor_load.run(clients=2, seconds=0.5)
    assert load.clients == 2
    assert load.seconds >= 0.5
    counts = load.counts
    assert load.drawn == counts["shown"] + counts["lost"] + counts["superseded"]
    assert load.due == counts["shown"] + load.not_shown
    assert counts["shown"] > 0
    assert counts["composites"] > 0
    assert counts["cpu"] > 0
    assert load.clients_cpu > 0
    assert load.machine_cpu > 0
