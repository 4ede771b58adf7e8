"""Windows whose surfaces are in planes: shown by the composite itself. Rule Y7."""

from __future__ import annotations

import numpy as np
import pytest
from support.compositor_fixtures import Compose
from support.painted_clients import shows
from support.pixel_formats import PLANAR

import vkshare as vks

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


def _codes(planes: int) -> list[list[int]]:
    luma, blue, red = RED.values()
    return [[luma], [blue, red]] if planes == 2 else [[luma], [blue], [red]]
