"""Command buffers and what belongs to them: used again, and gone with their device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare.errors import ClosedError

pytestmark = [pytest.mark.wheel, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

RED = (1, 0, 0, 1)
TRIANGLE = [(-1, -1, *RED), (3, -1, *RED), (-1, 3, *RED)]


@pytest.fixture
def device(vks_device: vks.Device) -> vks.Device:
    if vks_device.backend != "vulkan":
        pytest.skip("of the Vulkan backend")
    return vks_device


def owned(device: vks.Device) -> vks.Surface:
    surface = device.create_surface(16, 16)
    surface.acquire()
    return surface


def statistics(device: vks.Device) -> dict[str, int]:
    """Of the recorder."""
    backend: Any = device._backend
    counts: dict[str, int] = backend._pipelines.recorder.statistics()
    return counts


def test_lists_of_one_frame_each_use_the_same_command_buffers(device: vks.Device) -> None:
    surface = owned(device)
    for _ in range(100):
        device.submit(device.record().clear(surface, RED).draw_triangles(surface, TRIANGLE)).wait()
    counts = statistics(device)
    assert counts["made"] <= 3
    assert counts["vertex_bytes"] <= 3 * 65536


def test_one_list_that_is_recorded_on_uses_the_same_command_buffers(device: vks.Device) -> None:
    surface = owned(device)
    commands = device.record()
    for _ in range(100):
        device.submit(commands.clear(surface, RED)).wait()
    assert statistics(device)["made"] <= 3


def test_lists_that_are_kept_stay_as_they_are_while_others_are_recorded(device: vks.Device) -> None:
    surfaces = [owned(device) for _ in range(5)]
    kept = [
        device.record().clear(surface, (n / 255, 0, 0, 1)).draw_triangles(surface, np.full((3, 6), 5, np.float32))
        for n, surface in enumerate(surfaces)
    ]
    for commands in kept:
        device.submit(commands)
    for _ in range(20):
        device.submit(*(device.record().clear(surface, RED) for surface in surfaces))
        device.submit(*kept)
        assert [int(surface.read()[0, 0, 0]) for surface in surfaces] == list(range(5))


def test_a_descriptor_set_is_made_for_each_image_and_used_again_for_the_next(device: vks.Device) -> None:
    target = owned(device)
    for n in range(20):
        with device.create_surface(16, 16) as source:
            source.acquire()
            source.write(np.full((16, 16, 4), (n, 2 * n, 3 * n, 255), np.uint8))
            device.submit(device.record().composite(source, target))
            assert target.read()[5, 5].tolist() == [n, 2 * n, 3 * n, 255]
            source.release()
        device.wait_idle()
    assert statistics(device)["sets"] <= 3


def test_a_list_that_outlives_its_device_is_refused_and_freed(device: vks.Device) -> None:
    surface = owned(device)
    commands = device.record().clear(surface, RED)
    device.submit(commands)
    device.close()
    with pytest.raises(ClosedError):
        device.submit(commands)
    commands.close()
