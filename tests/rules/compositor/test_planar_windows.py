"""Windows whose surfaces are in planes: shown by the composite itself. Rule Y7."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.compositor_fixtures import Compose
from support.painted_clients import pixel, shows
from support.pixel_formats import PLANAR
from support.planar_pictures import exact
from support.render_servers import Place, open_cpu

import vkshare as vks
from vkshare.compositor import Compositor, Desktop, Service

pytest_plugins = ["support.compositor_fixtures"]
pytestmark = pytest.mark.rule("Y7")

# Codes of pure red in BT.709 of limited range, 8 bits.
RED = {"luma": 63, "blue": 102, "red": 240}


@pytest.mark.parametrize("name", PLANAR)
def test_a_window_in_planes_is_shown_in_its_colours(compose: Compose, vks_device: vks.Device, name: str) -> None:
    if name not in vks_device.capabilities.formats:
        pytest.skip(f"no {name}: {vks_device.capabilities.reasons[f'format {name}']}")
    compositor = compose()
    device = vks_device
    with device.create_surface(16, 16, name) as video:
        compositor.open_window(video, at=(8, 4))
        shift = 8 if name == "p010" else 0
        with video.access(0, 1, 20):
            video.write_planes(
                [
                    np.full(plane.shape, 0, plane.dtype) + np.array(codes, plane.dtype) * (1 << shift)
                    for plane, codes in zip(video.read_planes(), _codes(len(video.spec.format.planes)), strict=True)
                ]
            )
        shows(compositor, 12, 8, (1, 0, 0, 1))


@pytest.fixture
def desktop(compositor: Compositor, stack: ExitStack, tmp_path: Path) -> Desktop:
    """A client over a server."""
    service = stack.enter_context(Service([compositor], linger=0.05))
    server = stack.enter_context(Place(tmp_path)).server(kinds=service.kinds)
    return stack.enter_context(Desktop(server.path, device=stack.enter_context(open_cpu())))


@pytest.fixture
def compositor(compose: Compose) -> Compositor:
    return compose()


def _paint(frame: vks.Surface) -> tuple[np.ndarray[Any, Any], ...]:
    planes = tuple(np.full((12, 16, 1), code, np.uint8) for code in (100, 90, 160))
    frame.write_planes(planes)
    return planes


@pytest.mark.no_driver
@pytest.mark.parametrize("kind", ["pipe", "surface"])
def test_a_window_of_another_process_keeps_the_colour_of_its_frames(
    compositor: Compositor, desktop: Desktop, stack: ExitStack, kind: str
) -> None:
    """The matrices differ in what these codes are."""
    colors = [vks.Color("bt709", "bt709", matrix, "full", "center") for matrix in ("bt601", "bt2020")]
    for x, color in zip((0, 32), colors, strict=True):
        if kind == "pipe":
            window = desktop.open_window(16, 12, "yuv444p", at=(x, 4), color=color)
            with window.frame(timeout=20) as frame:
                assert frame.surface.color == color
                planes = _paint(frame.surface)
        else:
            video = stack.enter_context(desktop.device.create_surface(16, 12, "yuv444p", color=color))
            desktop.show(video, at=(x, 4))
            with video.access(0, 1, 20):
                planes = _paint(video)
        shows(compositor, x + 8, 8, (*exact(planes, "yuv444p", color)[0, 0], 1))
    assert pixel(compositor, 8, 8) != pixel(compositor, 40, 8)


def _codes(planes: int) -> list[list[int]]:
    luma, blue, red = RED.values()
    return [[luma], [blue, red]] if planes == 2 else [[luma], [blue], [red]]
