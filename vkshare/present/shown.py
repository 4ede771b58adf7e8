"""Presented frames of a swapchain: shown by vkshare where no driver presents them, and copied for capture()."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare.errors import ClosedError, InvalidCallError, NotOwnerError, VkshareError
from vkshare.present.targets import Headless
from vkshare.util.deadline import Deadline

if TYPE_CHECKING:
    import numpy as np

    from vkshare.core.outlet import Outlet
    from vkshare.core.surface import Surface
    from vkshare.present.frame import Frame
    from vkshare.present.images import Images
    from vkshare.present.swapchain import Swapchain
    from vkshare.window.shm_segment import Segment, Token

_SHOW_TIMEOUT = 1.0  # seconds for the window system to have read an image
_CAPTURE_TIMEOUT = 1.0  # seconds for a capture to find an image that is shown


class FrameCapture:
    """Shows and captures the presented frames of one swapchain."""

    def __init__(self, swapchain: Swapchain, images: Images, *, keep: bool) -> None:
        self._swapchain = swapchain
        self._output = images.output
        self._presenter = images.presenter
        self._watched = images.watched
        self._size = (0, 0)  # that the watched window had
        self._keep = keep
        self._capturing = threading.Lock()  # one capture reads a copy
        self._copying = threading.Lock()  # guards both:
        self._kept: Surface | None = None  # a copy of the last presented frame
        self._being_read: Surface | None = None  # the CPU may read it: no frame is copied into it
        self._last: Frame | None = None
        self._segments: dict[Surface, Segment] = {}
        self._tokens: dict[Surface, Token] = {}

    def renewed(self, images: Images) -> FrameCapture:
        """Make the FrameCapture of another target, and close this one."""
        self.close()
        return FrameCapture(self._swapchain, images, keep=self._keep)

    # ---- hooks: what C calls round a frame --------------------------------------------------------------------------

    def acquired_hook(self) -> Callable[[Frame], None] | None:
        return self._wait_until_shown if self._output is not None else None

    def presenting_hook(self) -> Callable[[Frame], None] | None:
        takers = self._watched, self._presenter, self._swapchain._watched
        is_needed = self._keep or any(taker is not None for taker in takers)
        return self._present if is_needed else None

    def _wait_until_shown(self, frame: Frame) -> None:
        """The window system still reads what was shown of that image before."""
        token = self._tokens.pop(frame.view.surface, None) if not frame.is_hidden else None
        if token is not None:
            assert self._output is not None
            self._output.wait(token, _SHOW_TIMEOUT)

    def _present(self, frame: Frame) -> None:
        if frame.is_hidden:
            return
        surface = frame.view.surface
        if self._keep:
            self._copy(surface)
        outlet = self._swapchain._watched
        if outlet is not None:
            outlet.copy(surface)
        if self._presenter is not None:
            surface._cpu_access()
            self._presenter.present(surface)
            if (wanted := self._presenter.size) is not None and wanted != self._size:
                self._size = wanted
                self._swapchain._follow(*wanted)
        if self._output is not None:
            self._show(surface)
        if self._watched is not None and (size := self._watched.size) != self._size:
            self._size = size
            self._swapchain._follow(*size)

    # ---- on the screen ----------------------------------------------------------------------------------------------

    def _show(self, surface: Surface) -> None:
        assert self._output is not None
        surface._cpu_access()
        segment = self._segments.get(surface)
        if segment is None:
            self._forget_closed()
            segment = self._segments[surface] = self._attach(surface)
        self._tokens[surface] = self._output.show(
            segment, surface.width, surface.height, surface.stride, surface.format
        )

    def _attach(self, surface: Surface) -> Segment:
        assert self._output is not None
        memory = surface._open_image().export()
        try:
            return self._output.attach(memory.fd, memory.size)
        finally:
            os.close(memory.fd)

    def _forget_closed(self) -> None:
        for surface in [s for s in self._segments if s.is_closed]:
            self._segments.pop(surface).close()
            self._tokens.pop(surface, None)

    # ---- back from it -----------------------------------------------------------------------------------------------

    def _copy(self, surface: Surface) -> None:
        device = self._swapchain.device
        with self._copying:
            before = kept = self._kept
            size = surface.width, surface.height
            if kept is None or kept is self._being_read or (kept.width, kept.height) != size:
                kept = device.create_surface(*size, surface.format)
                kept.acquire()
            device.submit(device.record().copy(surface, kept))
            self._kept = kept
            over = before if before not in (kept, self._being_read) else None
        if over is not None:
            over.close()

    def read(self) -> np.ndarray[Any, Any]:
        """Swapchain.capture()."""
        if self._keep:
            return self._read_kept()
        if self._swapchain._images.native is None or isinstance(self._swapchain._target, Headless):
            return self._read_shown()
        raise InvalidCallError(
            "Swapchain.capture: a window's frames are not kept; create the swapchain with capture=True, then present"
        )

    def _read_kept(self) -> np.ndarray[Any, Any]:
        with self._capturing:
            with self._copying:
                kept = self._being_read = self._kept
            if kept is None:
                raise InvalidCallError("Swapchain.capture: nothing was presented: present a frame first")
            try:
                return kept.read()
            finally:
                with self._copying:
                    self._being_read = None
                    is_over = kept is not self._kept
                if is_over:
                    kept.close()

    def _read_shown(self) -> np.ndarray[Any, Any]:
        """The image has its pixels still (VkSwapchainCreateInfoKHR::clipped is false).

        Other threads draw and present meanwhile; where one of them resizes, what is shown then is
        read.
        """
        swapchain, deadline = self._swapchain, Deadline(_CAPTURE_TIMEOUT)
        while True:
            frame = swapchain._acquire_shown(deadline.left())
            try:
                if not swapchain._adopt(frame.index, frame.generation):
                    continue  # another thread resized the swapchain
                pixels: np.ndarray[Any, Any] = frame.view.surface.read()
            except (ClosedError, InvalidCallError, NotOwnerError):
                swapchain._check_open()
                if deadline.left() == 0:
                    raise
            else:
                return pixels
            finally:
                frame.close()

    def show_last(self, outlet: Outlet) -> bool:
        """Copies the picture that is shown for new watchers of a headless target, if it can be had at once."""
        swapchain = self._swapchain
        try:
            frame = swapchain._acquire_shown(0)
        except (VkshareError, TimeoutError):  # nothing was presented, or the image is out
            return False
        try:
            is_there = swapchain._adopt(frame.index, frame.generation)
            if is_there:
                outlet.show_last(frame.view.surface)
        except VkshareError:  # another thread resized the swapchain, and presents soon
            return False
        finally:
            frame.close()
        return is_there

    def close(self) -> None:
        for segment in self._segments.values():
            segment.close()
        self._segments, self._tokens = {}, {}
        with self._copying:
            kept, self._kept = self._kept, None
            over = kept if kept is not self._being_read else None
        if over is not None:
            over.close()
