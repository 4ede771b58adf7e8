"""Surfaces as textures of stock slangpy: in turns with another VkDevice, with what the others wrote."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from support.engine_process import run_with_layer
from support.run_volumes import LONG, rounds, unhurried

import vkshare as vks
from vkshare.engines import layer
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError

pytestmark = unhurried


def makes_a_device() -> bool:
    import slangpy

    try:
        slangpy.Device(type=slangpy.DeviceType.vulkan).close()
    except RuntimeError:
        return False
    return True


@cache
def is_served() -> bool:
    """Whether slangpy, without the layer, makes a device on this driver. It wants more than lavapipe 22 has."""
    return bool(run_with_layer(makes_a_device))


@pytest.fixture(autouse=True)
def _needs_slangpy(vks_adapter: vks.Adapter) -> None:
    pytest.importorskip("slangpy", reason="slangpy is not installed (vkshare[engines])")
    if vks_adapter.backend != "vulkan":
        pytest.skip("slangpy has no device on the CPU backend")
    if not is_served():
        pytest.skip(f"slangpy itself makes no device on {vks_adapter.driver}")


def clear(slang_device: Any, texture: Any, colour: tuple[float, ...]) -> None:
    encoder = slang_device.create_command_encoder()
    encoder.clear_texture_float(texture, clear_value=colour)
    slang_device.submit_command_buffer(encoder.finish())


def keyed_turns(turns: int) -> int:
    vks.engines.enable()
    import slangpy

    slang_device = slangpy.Device(type=slangpy.DeviceType.vulkan)
    with (
        vks.engines.slangpy.open(slang_device) as device,
        vks.open(device.adapter) as other,
        other.create_surface(64, 32) as far,
        far.export() as descriptor,
        device.open_surface(descriptor) as near,
    ):
        texture = vks.engines.slangpy.texture(near)
        with pytest.raises(InvalidCallError, match="which is not slangpy's"):
            vks.engines.slangpy.texture(far)
        for turn in range(turns):
            pixels = np.random.default_rng(turn).integers(0, 256, (32, 64, 4), np.uint8)
            with far.access(0, 1, 60):
                far.write(pixels)
            with near.access(1, 2, 60):
                assert (texture.to_numpy() == pixels).all(), f"turn {turn}: slangpy reads other pixels"
                clear(slang_device, texture, (turn % 2, 0, 1, 1))
            with far.access(2, 0, 60):
                assert (far.read() == (255 * (turn % 2), 0, 255, 255)).all(), f"turn {turn}: {far.read()[0, 0]}"
        assert layer.misuses() == 0
        clear(slang_device, texture, (0, 0, 0, 0))
        near.close()
        clear(slang_device, texture, (0, 0, 0, 0))
    clear(slang_device, texture, (0, 0, 0, 0))  # the Device is closed, and the texture has its image
    del texture
    slang_device.close()
    return layer.misuses()


@pytest.mark.rule("E11", "E12", "E13", "E14")
def test_turns_of_slangpy_with_another_vkdevice_are_byte_equal_both_ways() -> None:
    # Without the validation layer: 1.3.239 complains of structures in slangpy's own vkCreateDevice that are newer.
    assert run_with_layer(keyed_turns, rounds(10_000, 100, full=1000), timeout=LONG) == 3


def slangpy_ends_first(after: str) -> tuple[bool, str]:
    vks.engines.enable()
    import slangpy

    slang_device = slangpy.Device(type=slangpy.DeviceType.vulkan)
    device = vks.engines.slangpy.open(slang_device)
    with vks.open(device.adapter) as other, other.create_surface(64, 32) as far:
        near = device.open_surface(far)
        texture = vks.engines.slangpy.texture(near)
        near.acquire()
        clear(slang_device, texture, (1, 0, 0, 1))
        if after == "release":
            near.release()
        slang_device.close()
        with pytest.raises(ClosedError):
            near.acquire(0)
        device.close()
        del texture
        if after == "release":
            with far.access(0, 0, 10):
                assert (far.read() == (255, 0, 0, 255)).all()
        return device.is_closed, far.mutex.statistics().state


@pytest.mark.rule("E14")
@pytest.mark.parametrize(("after", "state"), [("release", "free"), ("acquire", "abandoned")])
def test_slangpys_device_may_end_first(after: str, state: str) -> None:
    assert run_with_layer(slangpy_ends_first, after) == (True, state)


def too_late() -> str:
    import slangpy

    with pytest.raises(UnsupportedError) as refused:
        vks.engines.slangpy.open(slangpy.Device(type=slangpy.DeviceType.vulkan))
    return str(refused.value)


@pytest.mark.rule("E11")
def test_a_device_of_slangpy_without_the_layer_is_refused() -> None:
    assert "call vkshare.engines.enable() first" in run_with_layer(too_late)
