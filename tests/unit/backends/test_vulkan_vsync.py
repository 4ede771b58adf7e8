"""What vsync sources ask of a Vulkan driver (a stub of one: none here has the extensions), and what refuses them."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

import vkshare as vks
from vkshare.errors import UnsupportedError
from vkshare.vsync.sources import DisplayControlSource, PresentTimingSource, PresentWaitSource, vulkan_calls

pytestmark = [pytest.mark.wheel, pytest.mark.rule("V22")]


@pytest.fixture(autouse=True)
def on_vulkan(device: vks.Device) -> None:
    if device.backend != "vulkan":
        pytest.skip("of the Vulkan backend")


def test_a_device_without_the_extensions_is_refused(device: vks.Device) -> None:
    with pytest.raises(UnsupportedError, match="made without VK_KHR_present_id, VK_KHR_present_wait"):
        PresentWaitSource(device, 1)
    with pytest.raises(UnsupportedError, match="made without VK_EXT_display_control"):
        DisplayControlSource(device, 1)
    with pytest.raises(UnsupportedError, match="made without VK_EXT_present_timing, which its driver does not have"):
        PresentTimingSource(device, 1)


class Driver:
    """Functions of a device that take what Vulkan's do, and answer what they are told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answer = 0

    def __getattr__(self, name: str) -> Any:
        def function(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            return self.answer

        return function

    def make(self, name: str, *arguments: Any) -> str:
        self.calls.append((name, *arguments))
        return "a fence"

    def list(self, name: str, *arguments: Any) -> list[Any]:
        return [SimpleNamespace(parameters=SimpleNamespace(refreshRate=rate)) for rate in (59_940, 59_940)]


@pytest.fixture
def engine() -> Any:
    """A device that was made with all of them, on a stub of a driver."""
    driver = Driver()
    extensions = frozenset(name for names in vulkan_calls.EXTENSIONS.values() for name in names)
    physical = SimpleNamespace(vk=driver, handle="physical", extensions=extensions)
    context = SimpleNamespace(extensions=extensions, vk=driver, device="device", physical=physical)
    backend = SimpleNamespace(context=context)
    return SimpleNamespace(backend="vulkan", _check=lambda: None, _backend=backend, driver=driver)


def test_the_driver_is_asked_for_the_swapchains_present(engine: Any) -> None:
    from vkshare.backends.vulkan.api import address

    wait = vulkan_calls.present_wait(engine, 0x5151)
    for engine.driver.answer, is_over in ((0, True), (2, False), (1000001003, True)):  # success, timeout, suboptimal
        assert wait(7, 1000) is is_over
        name, device, swapchain, present_id, ns = engine.driver.calls.pop()
        assert (name, device, address(swapchain), present_id, ns) == (
            "vkWaitForPresentKHR",
            "device",
            0x5151,
            7,
            1000,
        )


def test_the_driver_is_asked_for_the_displays_first_pixel_out(engine: Any) -> None:
    from vkshare.backends.vulkan.api import VK, address

    calls = vulkan_calls.display_events(engine, 0xD1D1)
    assert calls.interval == Fraction(1000, 59_940)
    assert calls.register() == "a fence"
    name, device, display, info, _ = engine.driver.calls.pop()
    assert (name, device, address(display)) == ("vkRegisterDisplayEventEXT", "device", 0xD1D1)
    assert info.displayEvent == VK.DISPLAY_EVENT_TYPE_FIRST_PIXEL_OUT_EXT
    engine.driver.answer = 2
    assert not calls.wait("a fence", 1000)
    assert engine.driver.calls.pop() == ("vkWaitForFences", "device", 1, ["a fence"], 1, 1000)
    calls.destroy("a fence")
    assert engine.driver.calls.pop() == ("vkDestroyFence", "device", "a fence", None)


def test_present_timing_is_refused_though_the_driver_has_it(engine: Any) -> None:
    with pytest.raises(UnsupportedError, match="headers that vkshare is built with"):
        PresentTimingSource(engine, 1)
