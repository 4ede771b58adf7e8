"""Ctrl-C between any two steps of Python: every Vulkan object is destroyed once, at the latest with its device."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from support.ctrl_c import CtrlC, at_any_place
from support.run_volumes import rounds, unhurried

import vkshare as vks
from vkshare.demos import triangle

if TYPE_CHECKING:
    from vkshare.backends.vulkan.device import VulkanBackend

pytestmark = [
    pytest.mark.wheel,
    unhurried,
    pytest.mark.usefixtures("backend"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]


def work(device: vks.Device) -> None:
    """Frames, pipelines, vertices, staging, surfaces: made and closed."""
    with device.create_swapchain(vks.Headless(16, 16)) as swapchain:
        for _ in range(2):
            with swapchain.frame() as frame:
                triangle.draw(device, frame, 1.0)
        swapchain.capture()
    with device.create_surface(16, 16, tiling="optimal") as surface, surface.export() as descriptor:
        device.open_surface(descriptor).close()


def interrupted(vks_open: Open, n: int) -> CtrlC:
    device = vks_open()
    try:
        with CtrlC(n) as ctrl_c:
            work(device)
    except KeyboardInterrupt:
        pass
    gc.collect()
    device.close()
    return ctrl_c


@pytest.mark.rule("X8")
@at_any_place
def test_whenever_it_comes_nothing_is_destroyed_twice_and_nothing_left(vks_open: Open) -> None:
    places = interrupted(vks_open, 0).places
    assert places > 1000
    times = rounds(places, 15, full=60)
    for n in range(times):
        interrupted(vks_open, 1 + n * places // times)


class Fences:
    """Objects of one owner: VkFences."""

    def __init__(self, backend: VulkanBackend) -> None:
        from vkshare.backends.vulkan.objects import Objects

        self.context = backend.context
        self.objects = Objects(backend.context)

    def make(self) -> Any:
        from vkshare.backends.vulkan.api import new

        return self.objects.make("vkCreateFence", new("VkFenceCreateInfo"))

    def has(self, fence: Any) -> bool:
        from vkshare.backends.vulkan.api import VK

        return bool(self.context.vk.vkGetFenceStatus(self.context.device, fence) == VK.NOT_READY)


def test_what_nobody_destroyed_goes_with_the_device(backend: VulkanBackend) -> None:
    for _ in range(3):
        Fences(backend).make()
    backend.close()  # the validation layer would tell


def test_objects_are_destroyed_once_however_often_they_are_told_to(backend: VulkanBackend) -> None:
    fences, others = Fences(backend), Fences(backend)
    fences.make()
    fences.objects.record(lambda commands: None)
    fences.objects.destroy()
    other = others.make()  # its number may be the old one's, and it must stay
    fences.objects.destroy()
    assert others.has(other)


def test_what_a_driver_did_not_make_is_not_destroyed(backend: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    fences, others = Fences(backend), Fences(backend)
    other = others.make()

    def refuse(*arguments: Any) -> None:
        arguments[-1][0] = other  # drivers may leave anything there
        raise vks.VulkanError(-2, "vkCreateFence")

    vk = backend.context.vk
    refuse.parameters = vk.vkCreateFence.parameters  # type: ignore[attr-defined]
    monkeypatch.setattr(vk, "vkCreateFence", refuse)
    with pytest.raises(vks.VulkanError, match="vkCreateFence"):
        fences.make()
    fences.objects.destroy()
    assert others.has(other)
