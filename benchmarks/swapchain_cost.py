"""Measures the cost of a frame over C, both on the no-op driver."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from benchmarks import over_c
from benchmarks.c_swapchain import CDevice
from benchmarks.loops import counted
from benchmarks.measure import Timed
from benchmarks.nothing import COMMAND_BUFFER, QUEUE, VK_DEVICE, NothingDriver
from benchmarks.over_c import Call
from benchmarks.plan import Plan
from benchmarks.report import Must, Row
from vkshare.core.surface_core import SurfaceCore
from vkshare.formats import FORMATS
from vkshare.present.frame import Frame
from vkshare.present.swapchain_core import SwapchainCore

if TYPE_CHECKING:
    from vkshare import Device

_SIZE = (256, 256)
_FORMAT = FORMATS["bgra8unorm"]
_MUST = Must(1.5e-6)


def run(plan: Plan) -> list[Row]:
    """With both policies of the history. Without a C compiler none, and a note."""
    rows = []
    for by_fences in (False, True):
        rows += over_c.run("a frame's own cost is", partial(_calls, by_fences), plan)
    return rows


def _calls(by_fences: bool, driver: NothingDriver, device: Device, stack: contextlib.ExitStack) -> list[Call]:
    how = ", present fences" if by_fences else ""
    ours = stack.enter_context(NothingSwapchain(driver, device, by_fences=by_fences))
    gpu = stack.enter_context(CDevice.over(driver.get_proc_addr, VK_DEVICE, QUEUE))
    chain = gpu.swapchain(_SIZE, vk_format=_FORMAT.vk_format, images=3, present_fences=by_fences)
    theirs = stack.enter_context(chain)
    return [
        Call(f"own cost of frame(c){how}", one_call(ours), theirs.frames, _MUST),
        Call(f"own cost of acquire, submit, present{how}", three_calls(device, ours), theirs.frames, _MUST),
    ]


class NothingSwapchain(SwapchainCore):
    """A swapchain on the driver that does nothing: what vkshare.Swapchain is, without a target and pictures."""

    def __init__(self, driver: NothingDriver, device: Device, *, by_fences: bool) -> None:
        self._device = device
        width, height = _SIZE
        options = {"width": width, "height": height, "image_count": 3, "frames_in_flight": 2, "retired_limit": 4}
        options |= dict.fromkeys(("proof_deadline", "fence_deadline"), 10**9)
        vulkan = {
            "physical_device": 1,
            "surface": 1,
            "get_capabilities": driver.function("vkGetPhysicalDeviceSurfaceCapabilitiesKHR"),
            "queue_family": 0,
            "format": _FORMAT.vk_format,
            "color_space": 0,
            "usage": 1,
            "composite_alpha": 1,
            "present_mode": 2,  # VK_PRESENT_MODE_FIFO_KHR
            "by_fences": by_fences,
            "has_views": False,
            "sizes_itself": True,
            "can_name": False,
            "modes": (),
        }
        super().__init__(device, Frame, options, vulkan)
        self.commands: dict[int, Any] = {}  # a list an image, that writes to it
        self.lists: dict[int, Any] = {}  # the same, as _run() looks them up

    def _adopt(self, index: int, generation: int) -> None:
        """The image is out for the first time: gives it its surface."""
        width, height = _SIZE
        surface = SurfaceCore(self._device, width=width, height=height, format=_FORMAT.code, presentable=True)
        self._attach(index, generation, surface)
        commands = self._device.record()
        commands._set_vulkan(COMMAND_BUFFER, [(surface, True)], lambda: None)
        self.commands[index] = self.lists[generation * 16 + index] = commands

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close()


def one_call(swapchain: NothingSwapchain) -> Timed:
    """present_prepared(prepared)."""
    return counted("present(lists)", present=swapchain._run, lists=swapchain.lists)


def three_calls(device: Device, swapchain: NothingSwapchain) -> Timed:
    """acquire(), submit(), present()."""
    calls = "frame = swapchain.acquire(); device.submit(commands[frame.index]); swapchain.present(frame)"
    return counted(calls, swapchain=swapchain, device=device, commands=swapchain.commands)
