"""Sources of vertical blanks from Vulkan: VK_KHR_present_wait, VK_EXT_display_control, VK_EXT_present_timing.

They need an engine's device that was created with the extension (``Device.from_handles``), because
vkshare's own devices enable none of the three. The time of a tick is the time at which the driver's
wait returned.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from vkshare.errors import SurfaceLostError, VulkanError
from vkshare.util import arguments
from vkshare.vsync.sources import vulkan_calls
from vkshare.vsync.sources.base import Blank, Run, VsyncSource

if TYPE_CHECKING:
    from vkshare.core.device import Device

# ns of one wait in the driver, which cannot be interrupted; bounds the duration of stop()
SLICE = 100_000_000
_MOST_PRESENTS = 64  # kept; more than any swapchain has images, so that dropped ones are complete
_OUT_OF_DATE = -1000001004  # VK_ERROR_OUT_OF_DATE_KHR


class PresentWaitSource(VsyncSource):
    """The vertical blanks at which a swapchain's presents are shown: vkWaitForPresentKHR.

    It ticks only while the swapchain presents, and at the display's rate only in modes that wait
    for it (FIFO). The presenter gives each present an id (VkPresentIdKHR) and calls presented()
    after it.

    Parameters
    ----------
    device
        A device created with VK_KHR_present_id, VK_KHR_present_wait and their features, and opened
        with both extensions in `enabled_extensions`.
    swapchain
        The VkSwapchainKHR. Close the source before destroying it, and open another source for the
        next swapchain.

    Raises
    ------
    UnsupportedError
        The device is not a Vulkan device, or was created without them.
    """

    kind = "present-wait"

    def __init__(self, device: Device, swapchain: int) -> None:
        self._swapchain = arguments.integer("swapchain", swapchain, 1, 2**64 - 1)
        self._wait = vulkan_calls.present_wait(device, self._swapchain)
        super().__init__()
        # The ids of presents, the oldest first, each with its run: those of earlier runs are
        # ignored.
        self._presents: deque[tuple[Run, int]] = deque(maxlen=_MOST_PRESENTS)
        # the id of an earlier present, which was not complete when checked; 0: none
        self._pending = 0

    def presented(self, present_id: int) -> None:
        """Notes that vkQueuePresentKHR was called with an id. From any thread; never blocks.

        Parameters
        ----------
        present_id
            The VkPresentIdKHR of that present, 1 to 2**64 - 1 and growing.
        """
        present_id = arguments.integer("present_id", present_id, 1, 2**64 - 1)
        with self._changed:
            if self._run is not None and not self._run.is_over:
                self._presents.append((self._run, present_id))
                self._changed.notify_all()

    def _begin(self) -> None:
        self._pending = 0

    def _next(self, run: Run) -> Blank | None:
        if not self._pending:
            self._pending = self._take_present(run)
            return None
        if not self._is_over(self._pending, SLICE):
            return None
        self._pending = 0
        return Blank(time.monotonic_ns())

    def _take_present(self, run: Run) -> int:
        """Returns the next present's id; 0 if it gives no tick, because it completed at an unknown time."""
        with self._changed:
            self._changed.wait_for(lambda: self._presents or run.is_over)
            if run.is_over:
                return 0
            its_run, present_id = self._presents.popleft()
        if its_run is not run:
            return 0
        if self._is_over(present_id, 0):
            self._count_ignored()
            return 0
        return present_id

    def _is_over(self, present_id: int, ns: int) -> bool:
        try:
            return self._wait(present_id, ns)
        except VulkanError as error:
            if error.result != _OUT_OF_DATE:
                raise
            raise SurfaceLostError("the swapchain is out of date: open a source for the one after it") from error

    def _release(self) -> None:
        self._presents.clear()

    def _where(self) -> str:
        return f"of VkSwapchainKHR 0x{self._swapchain:x}"


class DisplayControlSource(VsyncSource):
    """The moments at which a display begins to show a picture: vkRegisterDisplayEventEXT, first pixel out.

    Parameters
    ----------
    device
        A device created with VK_EXT_display_control, and opened with it in `enabled_extensions`.
    display
        A VkDisplayKHR: a monitor that this process owns (direct mode, or no window system). Close
        the source before releasing the display.

    Raises
    ------
    UnsupportedError
        The device is not a Vulkan device, or was created without it.
    """

    kind = "display-control"

    def __init__(self, device: Device, display: int) -> None:
        self._display = arguments.integer("display", display, 1, 2**64 - 1)
        self._calls = vulkan_calls.display_events(device, self._display)
        super().__init__(self._calls.interval)
        # for the next tick; a fence of one run may be signalled in a later run
        self._fence: Any = None

    def _begin(self) -> None:
        if self._fence is not None and self._calls.wait(self._fence, 0):
            self._drop()  # signalled while no thread waited, at an unknown time
            self._count_ignored()

    def _next(self, run: Run) -> Blank | None:
        if self._fence is None:
            self._fence = self._calls.register()
        if not self._calls.wait(self._fence, SLICE):
            return None
        blank = Blank(time.monotonic_ns())
        self._drop()
        return blank

    def _drop(self) -> None:
        fence, self._fence = self._fence, None
        if fence is not None:
            self._calls.destroy(fence)

    def _release(self) -> None:
        self._drop()

    def _where(self) -> str:
        return f"of VkDisplayKHR 0x{self._display:x}"


class PresentTimingSource(VsyncSource):
    """The times at which presents were shown, as stamped by the driver (VK_EXT_present_timing). Not available yet.

    Parameters
    ----------
    device, swapchain
        As of PresentWaitSource.

    Raises
    ------
    UnsupportedError
        Always: vkshare's Vulkan headers do not have the extension.
    """

    kind = "present-timing"

    def __init__(self, device: Device, swapchain: int) -> None:
        raise vulkan_calls.refuse_present_timing(device)

    def _begin(self) -> None: ...

    def _next(self, run: Run) -> NoReturn:
        raise AssertionError("no PresentTimingSource can be created")

    def _release(self) -> None: ...

    def _where(self) -> str:
        return ""
