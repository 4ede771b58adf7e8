"""What a swapchain shows: put on the screen where that is ours to do, and read back for capture()."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare.errors import InvalidCallError
from vkshare.present.targets import Headless

if TYPE_CHECKING:
    import numpy as np

    from vkshare.present._shm_segment import Segment, Token
    from vkshare.present.frame import Frame
    from vkshare.present.images import Images
    from vkshare.present.swapchain import Swapchain
    from vkshare.surface import Surface

_CAPTURE_TIMEOUT = 1.0  # seconds for an image that was presented to a headless target to come back


class Shown:
    """The presented pictures of one swapchain."""

    def __init__(self, swapchain: Swapchain, images: Images, *, keep: bool) -> None:
        self._swapchain = swapchain
        self._output = images.output
        self._keep = keep
        self._kept: Surface | None = None  # a copy of the last presented frame
        self._last: Frame | None = None
        self._segments: dict[Surface, Segment] = {}
        self._tokens: dict[Surface, Token] = {}

    def renewed(self, images: Images) -> Shown:
        """For another target. This one is closed."""
        self.close()
        return Shown(self._swapchain, images, keep=self._keep)

    # ---- hooks: what C calls round a frame --------------------------------------------------------------------------

    def acquired_hook(self) -> Callable[[Frame], None] | None:
        return self._wait_until_shown if self._output is not None else None

    def presenting_hook(self) -> Callable[[Frame], None] | None:
        return self._present if self._output is not None or self._keep else None

    def _wait_until_shown(self, frame: Frame) -> None:
        """The window system still reads what was shown of that image before."""
        token = self._tokens.pop(frame.view.surface, None) if not frame.is_hidden else None
        if token is not None:
            assert self._output is not None
            self._output.wait(token, _CAPTURE_TIMEOUT)

    def _present(self, frame: Frame) -> None:
        if frame.is_hidden:
            return
        surface = frame.view.surface
        if self._keep:
            self._copy(surface)
        if self._output is not None:
            self._show(surface)

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
        kept, device = self._kept, self._swapchain.device
        if kept is None or (kept.width, kept.height) != (surface.width, surface.height):
            if kept is not None:
                kept.close()
            kept = self._kept = device.create_surface(surface.width, surface.height, surface.format)
            kept.acquire()
        device.submit(device.record().copy(surface, kept))

    def read(self) -> np.ndarray[Any, Any]:
        """Swapchain.capture()."""
        if self._kept is not None:
            return self._kept.read()
        swapchain = self._swapchain
        if self._keep or swapchain.counters()["shown"] >= swapchain.image_count:
            raise InvalidCallError(
                "Swapchain.capture: nothing was presented since the last resize, or all images are acquired, the shown "
                "one too: present or close a frame first"
            )
        if swapchain._images.native is None:
            return self._read_ring()
        if isinstance(swapchain._target, Headless):
            return self._read_headless()
        raise InvalidCallError(
            "Swapchain.capture: a window's frames are not kept; create the swapchain with capture=True, then present"
        )

    def _read_ring(self) -> np.ndarray[Any, Any]:
        swapchain = self._swapchain
        index = swapchain._lend_shown(True)
        try:
            return swapchain._surfaces[index].read()
        finally:
            swapchain._lend_shown(False)

    def _read_headless(self) -> np.ndarray[Any, Any]:
        """Acquires until the shown image comes back: it has its pixels still (VkSwapchainCreateInfoKHR::clipped is
        false). It is presented anew, and the others are handed out next.
        """
        swapchain, others = self._swapchain, []
        shown = swapchain.counters()["shown"]
        while True:
            frame = swapchain._acquire_same(_CAPTURE_TIMEOUT)
            if frame.index == shown:
                break
            others.append(frame)
        pixels: np.ndarray[Any, Any] = frame.view.surface.read()
        swapchain.present(frame)
        for other in others:
            other.close()
        return pixels

    def close(self) -> None:
        for segment in self._segments.values():
            segment.close()
        self._segments, self._tokens = {}, {}
        if self._kept is not None:
            self._kept.close()
            self._kept = None
