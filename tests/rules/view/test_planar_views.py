"""Published pictures in planes: in windows, recordings and cells, converted by the device. Rules W2, W8 and Y3."""

from __future__ import annotations

import io
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.pixel_formats import PLANAR
from support.planar_pictures import exact, noise
from support.private_displays import wait_for
from support.recorded_files import need_av, pixels_of

import vkshare as vks
from vkshare import view
from vkshare.color import Color
from vkshare.view import notebook
from vkshare.view.feed import Feed
from vkshare.view.window import PictureWindow

pytest_plugins = ["support.published_names"]
pytestmark = [pytest.mark.rule("Y3"), pytest.mark.usefixtures("runtime")]

HANG = 60.0  # seconds: only ends hangs
HDR = Color("bt2020", "pq", "bt2020", "limited", "top-left")


@pytest.fixture(autouse=True)
def _has_planes(vks_device: vks.Device) -> None:
    missing = [name for name in PLANAR if name not in vks_device.capabilities.formats]
    if missing:
        pytest.skip(f"no {missing[0]}: {vks_device.capabilities.reasons[f'format {missing[0]}']}")


def painted(device: vks.Device, stack: ExitStack, name: str, width: int = 40, height: int = 30) -> Any:
    """A surface of noise in planes, and its pixels in R'G'B'."""
    surface = stack.enter_context(device.create_surface(width, height, name, color=HDR))
    planes = noise(surface)
    with surface.access(0, 0):
        surface.write_planes(planes)
    return surface, exact(planes, name, HDR) * 255


def is_near(found: Any, wanted: np.ndarray[Any, Any]) -> bool:
    return found is not None and bool(np.abs(found[..., :3] - wanted).max() <= 1 and (found[..., 3] == 255).all())


@pytest.mark.rule("W2")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("name", ["nv12", "p010", "yuv444p"])
def test_a_window_shows_a_published_surface_in_its_colours(device: vks.Device, stack: ExitStack, name: str) -> None:
    surface, wanted = painted(device, stack, name)
    stack.enter_context(surface.publish("video"))
    shown = stack.enter_context(PictureWindow("video", "video", size=(40, 30), headless=True))

    def is_there() -> bool:
        shown.turn(0.01)
        return is_near(shown.capture(), wanted)

    wait_for(is_there, "the picture", HANG)


@pytest.mark.rule("W4")
def test_a_feed_has_pictures_in_planes_as_rgba(device: vks.Device, stack: ExitStack) -> None:
    sender, descriptor = vks.pipe(device, 40, 30, "i420", color=HDR)
    stack.enter_context(sender)
    with descriptor:
        receiver = stack.enter_context(vks.open_receiver(device, descriptor))
    feed = stack.enter_context(Feed(receiver))
    assert feed.format == "i420"
    with feed.subscribe() as subscription:
        for seed in range(3):
            with sender.frame(timeout=HANG) as frame:
                planes = noise(frame.surface, seed)
                frame.surface.write_planes(planes)
            picture = subscription.take(HANG)
            assert (picture.width, picture.height, picture.format) == (40, 30, "rgba8unorm")
            assert is_near(picture.rgba8, exact(planes, "i420", HDR) * 255)


@pytest.mark.rule("W8")
def test_a_recording_has_pictures_in_planes_as_rgba_and_says_that_it_is_not_lossless(
    device: vks.Device, stack: ExitStack, tmp_path: Path
) -> None:
    need_av()
    sender, descriptor = vks.pipe(device, 40, 30, "nv12", color=HDR)
    stack.enter_context(sender)
    with descriptor:
        receiver = stack.enter_context(vks.open_receiver(device, descriptor))
    wanted = []
    with view.record(receiver, tmp_path / "out.mkv", drop=False, frames=3) as recorder:
        for seed in range(3):
            with sender.frame(timeout=HANG) as frame:
                planes = noise(frame.surface, seed)
                frame.surface.write_planes(planes)
                wanted.append(exact(planes, "nv12", HDR) * 255)
        assert recorder.wait(HANG)
    counts = recorder.statistics()
    assert (counts.frames, counts.format, counts.is_lossless) == (3, "nv12", False)
    found = pixels_of(tmp_path / "out.mkv", "rgba8unorm")
    assert all(is_near(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.mark.rule("W2")
def test_a_cell_shows_a_surface_in_planes(device: vks.Device, stack: ExitStack) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures are written with Pillow")
    surface, wanted = painted(device, stack, "nv16")
    with surface.access(0, 0):
        shown = np.asarray(image.open(io.BytesIO(notebook._png_of(surface))).convert("RGBA"))
    assert is_near(shown, wanted)
