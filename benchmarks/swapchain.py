"""How many frames a second does a swapchain pass on, against C that acquires, clears and presents?"""

from __future__ import annotations

from typing import Any

import vkshare
from benchmarks import swapchain_pairs
from benchmarks.c_swapchain import CDevice, CSwapchain
from benchmarks.measure import Contenders, Samples, Timed, counted
from benchmarks.nothing import COMMAND_BUFFER, QUEUE, VK_DEVICE, NothingDriver
from benchmarks.plan import Plan
from benchmarks.swapchain_pairs import FAILURES, TURN, Pair
from vkshare import Device
from vkshare.core.surface_core import SurfaceCore
from vkshare.formats import FORMATS
from vkshare.present.frame import Frame
from vkshare.present.swapchain_core import SwapchainCore
from vkshare.util.closing import NativeClosing

_SIZE = (256, 256)
_FORMAT = FORMATS["bgra8unorm"]
_CAPABILITIES = "vkGetPhysicalDeviceSurfaceCapabilitiesKHR"
_FIFO = 2  # VK_PRESENT_MODE_FIFO_KHR
_LEAST = 0.95


def run(plan: Plan) -> None:
    """On the driver that does nothing, then on every Vulkan adapter: headless, and in windows under an Xvfb."""
    with plan.noting("a frame's own cost is measured on a driver in C"):
        driver = NothingDriver()
        for by_fences in (False, True):
            with driver.open() as device:
                _own_cost(plan, driver, device, by_fences=by_fences)
    for adapter in vkshare.adapters("vulkan"):
        swapchain_pairs.run(plan, adapter, _SIZE, "windows", rows)
    if not vkshare.adapters("vulkan"):
        plan.note("swapchains on a real driver: there is no Vulkan driver here")


def rows(plan: Plan, pair: Pair) -> None:
    """The ways to write a frame, beside C's. Today's usual way takes part if it has no present fences either."""
    how, device, swapchain = pair.how, pair.device, pair.ours
    if pair.where == "ring":
        plan.note(f"{device.adapter.name} has no VK_EXT_headless_surface: rings of images are compared")
    one_call = swapchain_pairs.one_call(swapchain)
    for place in plan.alone(*pair.servers):
        with plan.noting(f"frames, {how}", *FAILURES):
            contenders = pair.contenders(one_call) | pair.pypi_contenders()
            samples = _frames(plan, f"frame(c), {how}", pair, contenders, _LEAST)
            _cost(plan, f"a frame(c), {how}", samples)
            if place.here is not None:
                what = f"CPU time of a frame(c), {how}"
                _cost(plan, what, plan.turns(what, pair.contenders(one_call, by_cpu=True), TURN))
            loop = swapchain_pairs.three_calls(device, swapchain)
            _frames(plan, f"acquire, submit, present, {how}", pair, pair.contenders(loop), _LEAST)
            if not pair.present_fences:
                loop = swapchain_pairs.recorded_anew(device, swapchain)
                _frames(plan, f"frame(): submit(record()), {how}", pair, pair.contenders(loop))


def _frames(
    plan: Plan, what: str, pair: Pair, contenders: Contenders, least: float | None = None
) -> dict[str, Samples]:
    """Unpinned there is no target: the driver's threads and ours run beside each other by chance."""
    samples = plan.turns(what, contenders, TURN)
    least = least if plan.place.here is not None else None
    plan.compare(f"{what}, {pair.device.adapter.name}", samples, least=least, is_rate=True)
    return samples


def _cost(plan: Plan, what: str, samples: dict[str, Samples]) -> None:
    """As time a frame. The driver's own time varies by more than ours: the target is for the own cost below."""
    if "c" in samples:
        plan.compare(what, samples, over_c=True)


# ---- a frame's own cost, on the driver that does nothing -------------------------------------------------------------


def _own_cost(plan: Plan, driver: NothingDriver, device: Device, *, by_fences: bool) -> None:
    """With either policy of the history."""
    how = ", present fences" if by_fences else ""
    gpu = CDevice(driver.get_proc_addr, VK_DEVICE, QUEUE, 0, 1, driver.function(_CAPABILITIES))
    how_c = {"format": _FORMAT.vk_format, "wanted_images": 3, "has_present_fences": by_fences}
    with NothingSwapchain(driver, device, by_fences=by_fences) as ours, CSwapchain(gpu, _SIZE, **how_c) as theirs:
        for _ in plan.alone():
            for what, loop in (("frame(c)", one_call(ours)), ("acquire, submit, present", three_calls(device, ours))):
                plan.calls(f"own cost of {what}{how}", {"ours": loop, "c": theirs.frames}, most=1.5e-6, over_c=True)


class NothingSwapchain(SwapchainCore, NativeClosing):
    """A swapchain on the driver that does nothing: what vkshare.Swapchain is, without a target and pictures."""

    def __init__(self, driver: NothingDriver, device: Device, *, by_fences: bool) -> None:
        self._device = device
        width, height = _SIZE
        options = {"width": width, "height": height, "image_count": 3, "frames_in_flight": 2, "retired_limit": 4}
        options |= dict.fromkeys(("proof_deadline", "fence_deadline"), 10**9)
        vulkan: dict[str, Any] = {"physical_device": 1, "surface": 1, "queue_family": 0, "format": _FORMAT.vk_format}
        vulkan |= {
            "get_capabilities": driver.function(_CAPABILITIES),
            "color_space": 0,
            "usage": 1,
            "composite_alpha": 1,
        }
        vulkan |= {"present_mode": _FIFO, "modes": (), "by_fences": by_fences, "sizes_itself": True}
        vulkan |= dict.fromkeys(("has_views", "can_name"), False)
        super().__init__(device, Frame, options, vulkan)
        self.commands: dict[int, Any] = {}  # a list an image, that writes to it
        self.lists: dict[int, Any] = {}  # the same, as _run() looks them up
        self._closed = False

    def _adopt(self, index: int, generation: int) -> None:
        """The image is out for the first time: gives it its surface."""
        width, height = _SIZE
        surface = SurfaceCore(self._device, width=width, height=height, format=_FORMAT.code, presentable=True)
        self._attach(index, generation, surface)
        commands = self._device.record()
        commands._set_vulkan(COMMAND_BUFFER, [(surface, True)], lambda: None)
        self.commands[index] = self.lists[generation * 16 + index] = commands


def one_call(swapchain: NothingSwapchain) -> Timed:
    """present_prepared(prepared)."""
    return counted("present(lists)", present=swapchain._run, lists=swapchain.lists)


def three_calls(device: Device, swapchain: NothingSwapchain) -> Timed:
    """acquire(), submit(), present()."""
    calls = "frame = swapchain.acquire(); device.submit(commands[frame.index]); swapchain.present(frame)"
    return counted(calls, swapchain=swapchain, device=device, commands=swapchain.commands)
