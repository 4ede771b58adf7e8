"""Swapchains: the frames that a window, or a headless target, shows."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, overload

from vkshare import _native, formats
from vkshare.core.view import View
from vkshare.core.watchable import Watchable
from vkshare.core.watched_picture import Picture
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError
from vkshare.present.frame import Frame, FrameScope, Prepared
from vkshare.present.image_surfaces import ImageSurfaces
from vkshare.present.images import PRESENT_MODES, open_images
from vkshare.present.shown import FrameCapture
from vkshare.present.statistics import SwapchainStatistics
from vkshare.present.targets import GlfwTarget, Headless, resolve
from vkshare.util import arguments

if TYPE_CHECKING:
    import numpy as np

    from vkshare.core.commands import CommandList
    from vkshare.core.device import Device
    from vkshare.core.outlet import Outlet
    from vkshare.window.window import Window

_PROOF_DEADLINE = 1_000_000_000  # ns that a resize past the bound, and close(), wait for proof
_FENCE_DEADLINE = 5_000_000_000  # ns after which a present fence is quarantined


class Swapchain(ImageSurfaces, Watchable):
    """The frames of a window or of a headless target. Made by ``device.create_swapchain()``.

    Every method is thread-safe; a frame is drawn and presented by one thread at a time.
    """

    _published_as = "swapchain"

    def __init__(
        self,
        device: Device,
        target: Any,
        *,
        image_count: int = 3,
        present_mode: str = "fifo",
        format: str | formats.Format | None = None,
        frames_in_flight: int = 2,
        retired_limit: int = 4,
        present_fences: bool | None = None,
        capture: bool = False,
    ) -> None:
        counts = {
            "image_count": arguments.integer("image_count", image_count, 1, 16),
            "frames_in_flight": arguments.integer("frames_in_flight", frames_in_flight, 1, 16),
            "retired_limit": arguments.integer("retired_limit", retired_limit, 1, 64),
        }
        arguments.choice("present_mode", present_mode, PRESENT_MODES)
        arguments.flag("capture", capture)
        if present_fences is not None:
            arguments.flag("present_fences", present_fences)
        wanted = formats.get(format) if format is not None else None
        if wanted is not None and wanted.is_depth:
            raise UnsupportedError(
                f"a swapchain of format {wanted}", "depth is not shown", "use it as the depth of draw_triangles()"
            )
        self._target = resolve(target)
        if isinstance(self._target, Headless):
            _check_size(device, self._target.width, self._target.height)
        self._lock = threading.RLock()  # guards the surfaces
        self._surfaces, self._old, self._views = {}, [], {}
        self._generation = 0
        self._hidden = None
        self._mode = present_mode
        self._counts = counts
        self._window: Window | None = self._target.window if isinstance(self._target, GlfwTarget) else None
        self._images = open_images(device, self._target, wanted, present_mode, present_fences)
        self._shown: FrameCapture | None = None
        size = self._target_size()
        try:
            limits = {"proof_deadline": _PROOF_DEADLINE, "fence_deadline": _FENCE_DEADLINE, **counts}
            super().__init__(device, Frame, {"width": size[0], "height": size[1], **limits}, self._images.native)
            self._start(size, capture)
        except BaseException:
            with contextlib.suppress(InvalidCallError):  # there is none yet
                self._close()
            self._images.close()
            raise

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def extent(self) -> tuple[int, int]:
        """(width, height) in pixels of the frames that acquire() gives now.

        After a resize() they are those asked for from the next acquire() on, within what the
        driver's surface allows (its maxImageExtent): SwiftShader makes no swapchain wider or higher
        than 3840, of any target.
        """
        counters = self._counters()
        return counters["width"], counters["height"]

    @property
    def image_count(self) -> int:
        """Images that there are: at least as many as were asked for, where the target allows it."""
        return self._counters()["image_count"]

    @property
    def format(self) -> str:
        """The frames' format, e.g. ``"bgra8unorm"``."""
        return self._images.format.name

    @property
    def color_space(self) -> str:
        """How the target shows the values: ``"srgb-nonlinear"``, nearly always."""
        return self._images.color_space

    @property
    def present_mode(self) -> str:
        """``"fifo"``, ``"fifo_relaxed"``, ``"mailbox"`` or ``"immediate"``; may be set.

        A change takes hold with the next present where the driver allows that
        (VK_EXT_swapchain_maintenance1), else with a new swapchain at the next acquire.
        UnsupportedError where the target has no such mode.
        """
        return self._mode

    @present_mode.setter
    def present_mode(self, name: str) -> None:
        self._check_open()
        arguments.choice("present_mode", name, PRESENT_MODES)
        self._set_mode(*self._images.mode(name))
        self._mode = name

    # ---- frames ---------------------------------------------------------------------------------------------------

    @overload
    def frame(self, prepared: None = None, timeout: float | None = None) -> FrameScope: ...
    @overload
    def frame(self, prepared: Prepared, timeout: float | None = None) -> None: ...
    def frame(self, prepared: Prepared | None = None, timeout: float | None = None) -> FrameScope | None:
        """Acquires a frame for a ``with`` block, and presents it at the end of the block.

        A block that raises gives the frame back unpresented. ``frame(prepared)`` is deprecated: it
        calls present_prepared().

        Parameters
        ----------
        prepared
            None. Deprecated: the argument of present_prepared().
        timeout
            Seconds to wait for a frame; None: without limit.

        Returns
        -------
        FrameScope
            A context manager, which gives a Frame.

        Examples
        --------
        >>> with swapchain.frame() as frame:
        ...     submission = device.submit(device.record().clear(frame.view, (0, 0, 1, 1)))
        """
        if prepared is None:
            return FrameScope(self, arguments.timeout(timeout))
        text = "swapchain.frame(prepared) is deprecated; call swapchain.present_prepared(prepared)"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        self.present_prepared(prepared, timeout)
        return None

    def present_prepared(self, prepared: Prepared, timeout: float | None = None) -> None:
        """Acquires a frame, submits the commands that prepare() made for its image, and presents it.

        All of it is one call of the C core. The errors are those of acquire(), submit() and
        present().

        Parameters
        ----------
        prepared
            As prepare() returned it.
        timeout
            Seconds to wait for a frame; None: without limit.

        Raises
        ------
        InvalidCallError
            The commands were prepared for another swapchain.
        """
        if not isinstance(prepared, Prepared) or prepared.swapchain is not self:
            arguments.instance("prepared", prepared, Prepared, "result of swapchain.prepare()")
            raise InvalidCallError(f"the commands were prepared for another swapchain, {prepared.swapchain!r}")
        self._run(prepared._lists, timeout)

    def prepare(self, record: Callable[[CommandList, View], object]) -> Prepared:
        """Records commands for present_prepared().

        Parameters
        ----------
        record
            Called as ``record(commands, view)`` once for each image, and again after a resize: `commands` is an empty
            list, `view` the image to draw into.

        Returns
        -------
        Prepared
            A command list for each image.
        """
        if not callable(record):
            raise TypeError(f"record must be a function of (commands, view), not {type(record).__name__}")
        self._check_open()
        return Prepared(self, record)

    def resize(self, width: int, height: int) -> None:
        """Asks for another size, from the next acquire on.

        A vkshare.Window and a vkshare.X11Window are followed; call this for a Headless target, and
        where another window of an engine changes: not every window system notifies the driver.
        Frames that are out then can be presented until the next acquire. Where the driver's surface
        allows less than the device, the frames are as large as it allows, and `extent` says so.

        Parameters
        ----------
        width, height
            Pixels, 1 to what the device allows.

        Raises
        ------
        ValueError
            The size is outside of that.
        InvalidCallError
            The target is a vkshare.Window.
        """
        self._check_open()
        if self._window is not None:
            raise InvalidCallError("the swapchain follows its vkshare.Window by itself: resize that")
        _check_size(self.device, width, height)
        self._follow(width, height)

    def retarget(self, target: Any) -> None:
        """Goes on with another target after SurfaceLostError: a window, a GLFW window, or a VkSurfaceKHR.

        Frames presented on the old one may be dropped. Blocks until its GPU work has run.

        Raises
        ------
        UnsupportedError
            The swapchain is headless, or the target shows other formats.
        """
        self._check_open()
        with self._lock:
            new = resolve(target)
            window = new.window if isinstance(new, GlfwTarget) else None
            wanted = self._images.format
            images = open_images(self.device, new, wanted, self._mode, self._images.by_fences or None)
            if (images.native is None) != (self._images.native is None):
                images.close()
                raise UnsupportedError("retarget() to that", "it is shown in another way", "create another swapchain")
            self._retarget(images.native["surface"] if images.native is not None else 1)
            if self._window is not None:
                self._window._remove_dependent(self)
            old, self._images = self._images, images
            self._target, self._window = new, window
            assert self._shown is not None
            self._shown = self._shown.renewed(images)
            old.close()
            self._follow(*self._target_size())
            self._tell_window()
        self._hook()

    def capture(self) -> np.ndarray[Any, Any]:
        """Returns the pixels that are shown: those of the last presented frame, as (H, W, C) in memory order.

        Headless targets can tell at any time, whatever frames are out meanwhile, and while other
        threads draw and present: the shown image is handed out again only when all others are out.
        It is read where it is, so a thread that needs that very image waits until it was read. For
        a window create the swapchain with capture=True: each frame is then copied before it is
        presented.

        After a resize, from the next acquire until a frame is presented, and while all images of a
        headless target are acquired, there is nothing to read: the call waits for another thread's
        present, a second at most.

        Raises
        ------
        InvalidCallError
            Nothing was presented yet, or not within that second, or a window's frames were not kept.
        TimeoutError
            For a second other threads' captures had the image, or the driver did not give it back.
        """
        self._check_open()
        with self.device._active_call():
            assert self._shown is not None
            return self._shown.read()

    def statistics(self) -> SwapchainStatistics:
        """Returns a snapshot of the counters."""
        counters = self._counters()
        for name in ("generation", "width", "height", "present_mode", "shown", "is_current"):
            del counters[name]
        return SwapchainStatistics(
            **counters, retired_limit=self._counts["retired_limit"], by_fences=self._images.by_fences
        )

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Waits until what was presented is over (a second at most) and frees all. The window stays. Idempotent.

        Raises
        ------
        TimeoutError
            Another thread's call has not returned from the driver for ten seconds, another thread has recorded commands
            for a frame for a second, or what was submitted has not run: nothing was freed, and close() again goes on
            from there. So after Ctrl-C.
        """
        self.device._refuse_in_forked_child()
        self._close_outlets()
        with self._lock:
            self._close()
            for surface in (*self._surfaces.values(), *self._old):
                surface._end()
            self._surfaces, self._views, self._old = {}, {}, []
            if self._hidden is not None:
                self._hidden.close()
            if self._shown is not None:
                self._shown.close()
            self._hidden = None
            self._images.close()

    def __repr__(self) -> str:
        if self.is_closed or self.device._is_unusable:
            return "<vkshare.Swapchain closed>"
        width, height = self.extent
        return f"<vkshare.Swapchain {width}x{height} {self.format}, {self.image_count} images, {self._mode}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Swapchain cannot be pickled: a window is shown by the process that made it")

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...
        def acquire(self, timeout: float | None = None) -> Frame:
            """Returns the next frame to draw.

            Waits while `frames_in_flight` frames are being drawn, and while all images are out. A
            window's driver may wait for the window system (Mesa 22: in each call): while that is
            stopped, neither the timeout nor Ctrl-C ends the call; other threads run.

            Parameters
            ----------
            timeout
                Seconds; None: without limit.

            Raises
            ------
            TimeoutError
                No image was free in time.
            InvalidCallError
                All images are acquired already, and no timeout would end the wait.
            SurfaceLostError
                The window is gone: retarget(), or close the swapchain.
            """

        def present(self, frame: _native.Frame) -> None:
            """Shows the frame, behind all that was submitted to it.

            Parameters
            ----------
            frame
                As acquire() returned it.

            Raises
            ------
            InvalidCallError
                The frame was presented or closed before, is of another swapchain, or of before a resize.
            TimeoutError
                Work of the frame is held for 10 s, or another thread's call has not returned from the driver for 10 s.
            """

    # ---- within the package -----------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        self.device._check()
        if self.is_closed:
            raise ClosedError("this swapchain is closed; create another with device.create_swapchain()")

    def _picture(self) -> Picture:
        self._check_open()
        return Picture(self.device, *self.extent, self.format)

    def _frame_count(self) -> int:
        return int(self._counters()["frames"])

    def _check_watchable(self) -> None:
        self._check_open()
        if not isinstance(self._target, Headless):
            raise UnsupportedError(
                "watching the swapchain of a window",
                "its images are the window system's",
                "use vkshare.Headless, draw to a surface and blit it to the window, or publish a Compositor",
            )

    def _set_watched(self, outlet: Outlet | None) -> None:
        super()._set_watched(outlet)
        if not self.is_closed:
            self._hook()

    def _show_last(self, outlet: Outlet) -> bool:
        assert self._shown is not None
        return self._shown.show_last(outlet)

    def _start(self, size: tuple[int, int], capture: bool) -> None:
        self._set_mode(*self._images.mode(self._mode))
        if self._images.native is not None:
            self._prepare()
        elif all(size):
            self._renew_offscreen(*size)
        self._shown = FrameCapture(self, self._images, keep=bool(capture))
        self._hook()
        self._tell_window()
        with self.device._lock:
            self.device._swapchains.add(self)

    def _hook(self) -> None:
        assert self._shown is not None
        self._acquired_hook = self._shown.acquired_hook()
        self._presenting_hook = self._shown.presenting_hook()
        watched = self._images.watched if self._window is None else self._window
        self._window_check = watched._look if watched is not None else None

    def _let_go(self) -> None:
        """Called by the window's connection before it ends: nothing may refer to its display any more.

        The swapchain is lost until retarget().
        """
        with self._lock:
            if not self.is_closed:
                self._retarget(0)
                self._images.close()

    def _tell_window(self) -> None:
        if self._window is not None:
            self._window._add_dependent(self)
            self._follow(*self._window.framebuffer_size)  # it may have changed since it was asked

    def _target_size(self) -> tuple[int, int]:
        if self._window is not None:
            return self._window.framebuffer_size
        if isinstance(self._target, Headless):
            return self._target.width, self._target.height
        if self._images.watched is not None:
            return self._images.watched.size
        if isinstance(self._target, GlfwTarget):
            return self._target.framebuffer_size()
        return 1, 1  # the surface itself knows; where it does not, resize() tells

    def _follow(self, width: int, height: int) -> None:
        """The target has this size now: from any thread."""
        self._resize(width, height)


def _check_size(device: Device, width: int, height: int) -> None:
    limit = device.capabilities.max_dimension
    arguments.integer("width", width, 1, limit)
    arguments.integer("height", height, 1, limit)
