"""A Surface and a View for each image of a swapchain, made when the image first comes."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from vkshare.core.closable import Closable
from vkshare.core.surface import Surface
from vkshare.core.view import View
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.present.frame import Frame
from vkshare.present.images import Images
from vkshare.present.swapchain_core import SwapchainCore, check_acquired
from vkshare.util.library_calls import lib

if TYPE_CHECKING:
    from vkshare.core.commands import CommandList
    from vkshare.core.device import Device

_HIDDEN_NAP = 0.05  # seconds between the frames of a window without pixels: no CPU is burnt


class ImageSurfaces(Closable, SwapchainCore):
    """The part of Swapchain that makes its images accessible. Most of it is called from C."""

    _lock: threading.RLock  # guards the fields below
    _surfaces: dict[int, Surface]  # by image, of the current generation
    _old: list[Surface]  # of the one before: their work may still run
    _views: dict[int, View]
    _generation: int
    _hidden: Surface | None
    _images: Images
    _counts: dict[str, int]

    if TYPE_CHECKING:

        @property
        def extent(self) -> tuple[int, int]: ...
        @property
        def device(self) -> Device: ...
        def _check_open(self) -> None: ...
        def acquire(self, timeout: float | None = None) -> Frame: ...

    def _not_acquired(self, status: int, width: int, height: int, timeout: float | None) -> Frame:
        """Called from C in the middle of an acquire: makes the frame, or raises the reason why there is none."""
        if status == lib.VKS_OUTDATED:
            self._renew_offscreen(width, height)
            return self.acquire(timeout)
        if status == lib.VKS_HIDDEN:
            return self._hidden_frame(timeout)
        check_acquired(status, "Swapchain.acquire", timeout)
        raise AssertionError(f"status {status} is no error")

    def _renew_offscreen(self, width: int, height: int) -> None:
        """Make the ring of that size."""
        with self._lock:
            if self.extent == (width, height):
                return  # another thread was first
            self._new_offscreen(width, height, self._counts["image_count"])

    def _adopt(self, index: int, generation: int) -> bool:
        """Called from C when an image first comes: its Surface. False: it is of before a resize by another thread."""
        with self._lock, self.device._active_call():
            if generation < self._generation:
                return False
            if generation == self._generation and index in self._surfaces:
                return True
            try:
                place = self._image(index, generation)
            except InvalidCallError:
                if self._counters()["generation"] == generation:
                    raise
                return False
            if generation != self._generation:
                for surface in self._old:
                    surface._end()
                self._old = list(self._surfaces.values())
                self._generation = generation  # before the views: see _view_of()
                self._surfaces, self._views = {}, {}
            here = weakref.ref(self)  # not to be kept alive by its images
            surface = self._images.make(place, lambda: _pinned(here(), generation))
            surface._kept_by = here
            surface._is_frame = True
            try:
                self._attach(index, generation, surface)
            except BaseException as error:
                surface._end()
                if isinstance(error, InvalidCallError) and self._counters()["generation"] != generation:
                    return False
                raise
            self._surfaces[index] = surface
            self._views[index] = View(surface, writable=True)
            with self.device._lock:
                self.device._surfaces.add(surface)
            return True

    def _view_of(self, frame: Frame) -> View:
        if frame.is_hidden:
            return View(self._hidden_surface(), writable=True)
        views = self._views  # first: _adopt() may be about to change both
        view = views.get(frame.index) if frame.generation == self._generation else None
        if view is None:
            self._check_open()
            raise InvalidCallError("the frame is of before the swapchain was resized: acquire() another")
        return view

    def _hidden_surface(self) -> Surface:
        with self._lock:
            if self._hidden is None or self._hidden.is_closed:
                self._hidden = self.device.create_surface(1, 1, self._images.format)
                self._hidden.acquire()
            return self._hidden

    def _hidden_frame(self, timeout: float | None) -> Frame:
        """A frame of a window without pixels. Waits a little, so that a loop of frames burns no CPU."""
        time.sleep(_HIDDEN_NAP if timeout is None else min(timeout, _HIDDEN_NAP))
        return Frame(self, 1, 1)

    def _record_for(self, index: int, record: Callable[[CommandList, View], object]) -> CommandList:
        view = self._views.get(index)
        if view is None:
            raise InvalidCallError("the swapchain was resized in the middle of a frame: the next one works")
        commands = self.device.record()
        record(commands, view)
        return commands


def _pinned(swapchain: ImageSurfaces | None, generation: int) -> AbstractContextManager[None]:
    """Inside, commands may be recorded for images of that generation: none is destroyed."""
    if swapchain is None:
        raise ClosedError("the swapchain of this frame is gone")
    return swapchain._pinned(generation)
