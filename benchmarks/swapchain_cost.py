"""Measures the cost of a frame over C, both on the no-op driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from benchmarks import over_c
from benchmarks.c_swapchain import CDevice
from benchmarks.compiler import NoCompiler
from benchmarks.measure import Timed, timed
from benchmarks.nothing import COMMAND_BUFFER, QUEUE, VK_DEVICE, NothingDriver
from benchmarks.over_c import Call
from benchmarks.placement import alone, placed
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
    try:
        driver = NothingDriver()
    except NoCompiler as error:
        plan.note(f"a frame's own cost is measured on a driver in C: {error}")
        return []
    rows = []
    with driver.open() as device:
        for fences in (False, True):
            for place in alone(plan.pinned_only):
                with placed(place), _calls(driver, device, by_fences=fences) as calls:
                    plan.progress(f"a frame's own cost, {place.name}")
                    rows += [over_c.row(call, place.name, plan) for call in calls]
    return rows


@contextlib.contextmanager
def _calls(driver: NothingDriver, device: Device, *, by_fences: bool) -> Iterator[list[Call]]:
    how = ", present fences" if by_fences else ""
    with (
        NothingSwapchain(driver, device, by_fences=by_fences) as ours,
        CDevice.over(driver.get_proc_addr, VK_DEVICE, QUEUE) as gpu,
        gpu.swapchain(_SIZE, vk_format=_FORMAT.vk_format, images=3, present_fences=by_fences) as theirs,
    ):
        yield [
            Call(f"own cost of frame(c){how}", one_call(ours), theirs.frames, _MUST),
            Call(f"own cost of acquire, submit, present{how}", three_calls(device, ours), theirs.frames, _MUST),
        ]


class NothingSwapchain(SwapchainCore):
    """A swapchain on the driver that does nothing: what vkshare.Swapchain is, without a target and pictures."""

    def __init__(self, driver: NothingDriver, device: Device, *, by_fences: bool) -> None:
        options = {
            "width": _SIZE[0],
            "height": _SIZE[1],
            "image_count": 3,
            "frames_in_flight": 2,
            "retired_limit": 4,
            "proof_deadline": 10**9,
            "fence_deadline": 10**9,
        }
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
        surface = SurfaceCore(self.device, width=width, height=height, format=_FORMAT.code, presentable=True)
        self._attach(index, generation, surface)
        commands = self.device.record()
        commands._set_vulkan(COMMAND_BUFFER, [(surface, True)], lambda: None)
        self.commands[index] = self.lists[generation * 16 + index] = commands

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close()

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...
        def acquire(self, timeout: float | None = None) -> Frame: ...


def one_call(swapchain: NothingSwapchain) -> Timed:
    """present_prepared(prepared)."""
    lists, present = swapchain.lists, swapchain._run

    @timed
    def loop(n: int) -> None:
        for _ in range(n):
            present(lists)

    return loop


def three_calls(device: Device, swapchain: NothingSwapchain) -> Timed:
    """acquire(), submit(), present()."""
    commands = swapchain.commands

    @timed
    def loop(n: int) -> None:
        for _ in range(n):
            frame = swapchain.acquire()
            device.submit(commands[frame.index])
            swapchain.present(frame)

    return loop
