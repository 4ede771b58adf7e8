"""Depth on a real GPU: the memory crosses to another device and another process, and draws agree with the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.run_volumes import unhurried

import vkshare as vks

pytestmark = [pytest.mark.vks_gpu, unhurried, pytest.mark.rule("E6")]

Open = Callable[..., vks.Device]
NAMES = ("d16unorm", "d32float")


def wedge() -> list[tuple[float, ...]]:
    return [(x, y, z, 1, 1, 1, 1, 1) for x, y, z in ((-1, -1, 0.125), (3, -1, 0.875), (-1, 3, 0.625))]


def drawn(device: vks.Device, depth: vks.Surface) -> np.ndarray:
    """The surface's depth after a slope was drawn on it; it is owned."""
    with device.create_surface(depth.width, depth.height) as colours, colours.access():
        device.submit(
            device.record()
            .clear(colours, (0, 0, 0, 0))
            .clear(depth, 0.5)
            .draw_triangles(colours, wedge(), depth=depth, depth_test="less_equal")
        )
        pixels = depth.read()
    assert np.unique(pixels).size > 500
    return pixels


@pytest.mark.parametrize("name", NAMES)
def test_a_slope_has_the_depth_of_the_cpu_backend(gpu: Open, name: str) -> None:
    results = []
    with vks.open(backend="cpu") as cpu:
        for device in (gpu(name="gpu"), cpu):
            with device.create_surface(1024, 768, name) as depth, depth.access():
                results.append(drawn(device, depth).astype(np.float64))
    bound = 1 if name == "d16unorm" else 4e-6
    assert np.abs(results[0] - results[1]).max() <= bound


@pytest.mark.parametrize("name", NAMES)
def test_another_device_sees_the_depth_and_tests_against_it(gpu: Open, name: str) -> None:
    one, two = gpu(name="one"), gpu(name="two")
    with one.create_surface(1920, 1080, name) as depth, depth.export() as descriptor:
        other = two.open_surface(descriptor)
        with depth.access(0, 1):
            pixels = drawn(one, depth)
        with other.access(1, 2), two.create_surface(1920, 1080, "r8unorm") as colours, colours.access():
            np.testing.assert_array_equal(other.read(), pixels)
            again = two.record().clear(colours, (0, 0, 0, 0))
            two.submit(again.draw_triangles(colours, wedge(), depth=other, depth_test="equal", depth_write=False))
            nearer = (pixels < pixels.max())[:, :, 0]  # where the slope passed
            np.testing.assert_array_equal(colours.read()[:, :, 0][nearer], 255)
        other.close()
