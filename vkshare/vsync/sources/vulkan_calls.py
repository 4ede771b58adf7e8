"""The Vulkan calls of sources, as functions that tests can replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    from vkshare.backends.vulkan.context import Context
    from vkshare.core.device import Device

# The device extensions that each kind of source needs; `vkshare info` shows whether the driver has
# them.
EXTENSIONS = {
    "present-wait": ("VK_KHR_present_id", "VK_KHR_present_wait"),
    "display-control": ("VK_EXT_display_control",),
    "present-timing": ("VK_EXT_present_timing",),
}
NO_TIMING = "the Vulkan headers that vkshare is built with do not have VK_EXT_present_timing yet"
_HINT = "open an engine's device that has it enabled (Device.from_handles, enabled_extensions); see x11-present"


@dataclass(frozen=True, slots=True)
class DisplayEventCalls:
    """Each call may raise VulkanError."""

    register: Callable[[], Any]  # a VkFence for the next first pixel out, or later: the caller's to destroy
    wait: Callable[[Any, int], bool]  # (fence, ns): whether it is signalled by then; blocks
    destroy: Callable[[Any], object]
    interval: Fraction | None  # seconds, if the display has only one refresh rate


def present_wait(device: Device, swapchain: int) -> Callable[[int, int], bool]:
    """Returns vkWaitForPresentKHR for one VkSwapchainKHR. UnsupportedError: the device was created without it.

    wait(present_id, ns) blocks, and returns whether the present was shown by then. It may raise
    VulkanError.
    """
    context = _context(device, "present-wait")
    from vkshare.backends.vulkan.api import VK, handle

    vk_swapchain = handle("VkSwapchainKHR", swapchain)
    function = context.vk.vkWaitForPresentKHR

    def wait(present_id: int, ns: int) -> bool:
        return bool(function(context.device, vk_swapchain, present_id, ns) != VK.TIMEOUT)

    return wait


def display_events(device: Device, display: int) -> DisplayEventCalls:
    """Returns vkRegisterDisplayEventEXT for one VkDisplayKHR. UnsupportedError: the device was created without it."""
    context = _context(device, "display-control")
    from vkshare.backends.vulkan.api import VK, handle, new

    vk, vk_display = context.vk, handle("VkDisplayKHR", display)
    info = new("VkDisplayEventInfoEXT", displayEvent=VK.DISPLAY_EVENT_TYPE_FIRST_PIXEL_OUT_EXT)

    def wait(fence: Any, ns: int) -> bool:
        return bool(vk.vkWaitForFences(context.device, 1, [fence], 1, ns) != VK.TIMEOUT)

    return DisplayEventCalls(
        register=lambda: vk.make("vkRegisterDisplayEventEXT", context.device, vk_display, info, None),
        wait=wait,
        destroy=lambda fence: vk.vkDestroyFence(context.device, fence, None),
        interval=_only_interval(context, vk_display),
    )


def refuse_present_timing(device: Device) -> UnsupportedError:
    """Returns the error that says why there is no such source."""
    try:
        _context(device, "present-timing")
    except UnsupportedError as error:
        return error
    return UnsupportedError("present-timing", NO_TIMING, _HINT)


def _only_interval(context: Context, display: Any) -> Fraction | None:
    """Returns the interval if all modes of the display have the same one, because no call returns the current mode."""
    physical = context.physical
    modes = physical.vk.list("vkGetDisplayModePropertiesKHR", physical.handle, display)
    rates = {int(mode.parameters.refreshRate) for mode in modes}  # in mHz
    return Fraction(1000, rates.pop()) if len(rates) == 1 and 0 not in rates else None


def _context(device: Device, kind: str) -> Context:
    if device.backend != "vulkan":
        raise UnsupportedError(kind, f"{device!r} is not on Vulkan", _HINT)
    device._check()
    context: Context = device._backend.context  # type: ignore[attr-defined]
    lacking = [name for name in EXTENSIONS[kind] if name not in context.extensions]
    if lacking:
        have = "has" if set(lacking) <= set(context.physical.extensions) else "does not have"
        raise UnsupportedError(
            kind, f"the device was made without {', '.join(lacking)}, which its driver {have}", _HINT
        )
    return context
