"""One client's window on a compositor."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.compositor import frame_sources
from vkshare.compositor.frame_sources import Descriptor, FrameSource, Keys
from vkshare.compositor.scene import Placement, Tween
from vkshare.errors import ClosedError, DeviceLostError, VkshareError
from vkshare.util import arguments
from vkshare.util.closing import common_deadline, destructor
from vkshare.util.forks import OwnLock
from vkshare.vsync import VsyncDispatcher

if TYPE_CHECKING:
    from vkshare.compositor.compositor import Compositor
    from vkshare.core.device import Device
    from vkshare.window.events import Event

_FURTHEST = 1 << 20  # pixels from the origin
_LONGEST = 3600.0  # seconds of a move or a fade


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """A snapshot of a window's counters. Each frame of the client counts in exactly one of the first four."""

    shown: int  # frames in a composite that was presented
    superseded: int  # replaced by a newer frame before their tick
    # due at a tick without a composite, and replaced by a newer frame before the next one
    lost: int
    waiting: int  # the newest frame taken, if it is in no composite yet: 0 or 1
    is_late: bool  # a frame is here whose GPU work is not complete
    end: str  # why no further frame will arrive; "" while one may


class ClientWindow:
    """A window, created by ``Compositor.open_window()``. All methods are thread-safe.

    Attributes
    ----------
    title
        A title for logs and reprs.
    width, height
        Size of its frames in pixels.
    dispatcher
        Ticks of the display that it is on, also after move_to(). observe() it in this process, or
        create a VsyncBridge on it for the client's process.
    """

    def __init__(
        self,
        compositor: Compositor,
        descriptor: Descriptor,
        keys: Keys,
        placement: Placement,
        title: str,
        on_input: Callable[[Event], object] | None,
        on_end: Callable[[ClientWindow, str], object] | None,
    ) -> None:
        self.title = title
        self.number = 0  # its token in the event queue of its compositor
        self._compositor = compositor
        # owned: another device, or another compositor, opens it again
        self._descriptor = descriptor
        self._keys = keys
        self._placement = placement
        self._on_input = on_input
        self._on_end = on_end
        self._source: FrameSource | None = None
        self._closes_at: int | None = None
        self._why = ""
        self._is_closed = False
        self._moving = OwnLock(self)  # held while the window moves to another compositor
        # with its compositor's lock, guards _compositor and _is_closed
        self._state = threading.Lock()
        self._is_watched = False  # an event for its next frame is requested
        self._is_new = False  # its picture was in no composite yet
        self._shown = self._superseded = self._lost = 0
        self.dispatcher = VsyncDispatcher(compositor.display)

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def compositor(self) -> Compositor:
        """The compositor that shows it now."""
        return self._compositor

    @property
    def width(self) -> int:
        return self._placement.width

    @property
    def height(self) -> int:
        return self._placement.height

    @property
    def x(self) -> float:
        """Pixels from the target's left, now."""
        return self._placement.x.at(time.monotonic_ns())

    @property
    def y(self) -> float:
        """Pixels from the target's top, now."""
        return self._placement.y.at(time.monotonic_ns())

    @property
    def opacity(self) -> float:
        """0 to 1, now."""
        return self._placement.opacity.at(time.monotonic_ns())

    @property
    def is_opaque(self) -> bool:
        """Whether its pictures have no transparent pixels, according to open_window()."""
        return self._placement.is_opaque

    @property
    def takes_input(self) -> bool:
        """Whether it has an on_input callback."""
        return self._on_input is not None

    @property
    def end(self) -> str:
        """Why its client will send no further frame; "" while one may arrive. The last frame stays."""
        source = self._source
        return source.end if source is not None else ""

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def why(self) -> str:
        """Why it was closed, if its owner did not close it; else ""."""
        return self._why

    def statistics(self) -> WindowStatistics:
        """Returns a snapshot of the counters."""
        with self._compositor._lock:
            source = self._source
            is_late = source is not None and source.has_unfinished_frame
            return WindowStatistics(self._shown, self._superseded, self._lost, int(self._is_new), is_late, self.end)

    # ---- for its owner --------------------------------------------------------------------------------

    def move(self, x: float, y: float, seconds: float = 0) -> None:
        """Moves it, at once or gradually.

        Parameters
        ----------
        x, y
            Its top left corner, in the target's pixels, -2**20 to 2**20.
        seconds
            Duration of the move, 0 to 3600.

        Raises
        ------
        ClosedError
            The window is closed.
        ValueError, TypeError
            An argument is not as above.
        """
        destination = _place("x", x), _place("y", y)
        duration = _duration(seconds)

        def change(placement: Placement, now: int) -> None:
            placement.x = placement.x.to(destination[0], now, duration)
            placement.y = placement.y.to(destination[1], now, duration)

        self._change(change)

    def fade(self, opacity: float, seconds: float = 0) -> None:
        """Changes its opacity, at once or gradually.

        Parameters
        ----------
        opacity
            0 to 1.
        seconds
            Duration of the change, 0 to 3600.

        Raises
        ------
        ClosedError, ValueError, TypeError
            As move().
        """
        destination = _opacity(opacity)
        duration = _duration(seconds)

        def change(placement: Placement, now: int) -> None:
            placement.opacity = placement.opacity.to(destination, now, duration)

        self._change(change)

    def raise_to_top(self) -> None:
        """Raises it above all other windows.

        Raises
        ------
        ClosedError
            The window is closed.
        """
        self._change(lambda placement, _: self._compositor._scene.raise_to_top(placement))

    def lower_to_bottom(self) -> None:
        """Lowers it below all other windows.

        Raises
        ------
        ClosedError
            The window is closed.
        """
        self._change(lambda placement, _: self._compositor._scene.lower_to_bottom(placement))

    def move_to(self, compositor: Compositor) -> None:
        """Moves it to another compositor, at the same position; it then gets that compositor's ticks.

        Its source is opened again if the compositors have different devices.

        Parameters
        ----------
        compositor
            The other compositor.

        Raises
        ------
        ClosedError
            The window is closed.
        VkshareError
            Another error of Compositor.open_window(); the window is closed then.
        """
        with self._moving:
            before = self._compositor
            if compositor is before:
                return
            with before._lock:
                self._check()
                before._detach(self)
                source, self._source = self._source, None
            device = before.device
            try:
                while source is None or compositor.device is not device or not compositor._attach(self, source, device):
                    if source is not None:
                        source.close()
                    device = compositor.device
                    source = frame_sources.open_source(device, self._descriptor, self._keys)
            except BaseException as error:
                if source is not None:
                    source.close()
                self._end(f"it could not be moved: {error}")
                raise

    def close(self, seconds: float = 0) -> None:
        """Closes it, at once or after fading out for that many seconds. Idempotent; the earliest end counts.

        At once, it waits until the client's memory is closed: half a second at most, for work of
        the client.

        Parameters
        ----------
        seconds
            Duration of the fade, 0 to 3600.

        Raises
        ------
        ValueError, TypeError
            `seconds` is not as above; the window stays open.
        """
        self._close(seconds, is_blocking=True)

    def _close(self, seconds: float, *, is_blocking: bool) -> None:
        """Closes it. Not is_blocking: the compositor's closer closes the client's memory, and this returns at once."""
        duration = _duration(seconds)
        compositor = self._compositor
        with compositor._lock:
            if self._is_closed:
                return
            if duration and self._placement.has_picture and compositor.is_running:
                now = time.monotonic_ns()
                self._placement.opacity = self._placement.opacity.to(0, now, duration)
                soon = now + duration
                self._closes_at = soon if self._closes_at is None else min(soon, self._closes_at)
                compositor._wake()
                return
        self._end("", is_blocking=is_blocking)

    # ---- for the compositor, under its lock -------------------------------------------------------------------------

    def _show(self) -> None:
        """Opens the client's memory, and shows the window, or closes it on an error. Caller does not hold the lock."""
        compositor, is_shown = self._compositor, False
        try:
            while not is_shown:
                self._check()
                device = compositor.device
                source = self._try_open(device)
                try:
                    is_shown = compositor._attach(self, source, device)
                finally:
                    if not is_shown and source is not None:
                        source.close()
        except BaseException as error:
            self._end(f"it could not be opened: {error}")
            raise

    def _try_open(self, device: Device) -> FrameSource | None:
        try:
            return frame_sources.open_source(device, self._descriptor, self._keys)
        except DeviceLostError:
            if self._compositor._output.factory is None:
                raise
            return None  # the next device opens it

    def _reopen_source(self, device: Device) -> None:
        """Opens its source on the next device. Caller does not hold the lock."""
        compositor = self._compositor
        source = frame_sources.open_source(device, self._descriptor, self._keys)
        with compositor._lock:
            if self._placement in compositor._windows:
                before, self._source = self._source, source
            else:  # it was closed or moved meanwhile
                before = source
        if before is not None:
            before.close()

    def _latch(self, vsync_time: int, skipped: int) -> bool:
        """Takes the newest complete frame that is due at the tick of that vsync time; returns whether there is one.

        `skipped`: ticks since the last composite.
        """
        source = self._source
        count = 0 if source is None else source.latch(vsync_time)
        if not count:
            return False
        replaced = count - 1 + self._is_new
        lost = min(replaced, max(skipped, self._is_new))
        self._lost += lost
        self._superseded += replaced - lost
        self._is_new = True
        self._placement.has_picture = True
        return True

    def _presented(self) -> None:
        if self._is_new:
            self._is_new = False
            self._shown += 1

    def _change(self, change: Callable[[Placement, int], object]) -> None:
        compositor = self._compositor
        with compositor._lock:
            self._check()
            change(self._placement, time.monotonic_ns())
            compositor._wake()

    def _check(self) -> None:
        if self._is_closed:
            raise ClosedError(f"this window is closed{': ' if self._why else ''}{self._why}")

    @property
    def _holds_memory(self) -> bool:
        """Whether it keeps a client's memory open."""
        return not self._is_closed or self._source is not None

    def _release_to_client(self) -> None:
        """Releases surfaces to the client, before _close_source()."""
        source = self._source
        if source is not None:
            source.release_to_client()

    def _close_source(self) -> None:
        """Closes its source; the placement stays."""
        source = self._source
        self._is_watched = False
        try:
            if source is not None:
                with contextlib.suppress(VkshareError):
                    source.close()
        finally:
            self._source = None

    def _end(self, why: str, *, is_blocking: bool = False) -> None:
        """Removes it from its compositor and closes its source, before it returns if is_blocking.

        Idempotent; from any thread.
        """
        while True:
            compositor = self._compositor
            with compositor._lock, self._state:
                if self._is_closed:
                    return
                if self._compositor is compositor:  # it has not moved meanwhile
                    self._why, self._is_closed = why, True
                    compositor._detach(self)
                    break
        if is_blocking and threading.current_thread() is not compositor._thread:
            with common_deadline():
                self._close_source()
        elif self._source is not None:
            compositor._closer.add(self)
        self.dispatcher.close()
        self._descriptor.close()

    @destructor
    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True) and self._moving.is_here:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{self.end or 'alive'}, {self._shown} frames shown"
        return f"<vkshare.compositor.ClientWindow {self.title!r} {self.width}x{self.height}, {state}>"


def placed(width: int, height: int, at: Any, opacity: Any, is_opaque: Any) -> Placement:
    """Checks the arguments of open_window(). ValueError, TypeError: the text names the argument that is wrong."""
    try:
        x, y = at
    except (TypeError, ValueError):
        raise TypeError(f"at must be (x, y) in pixels, not {at!r}") from None
    arguments.flag("is_opaque", is_opaque)
    left, top, shade = _place("x", x), _place("y", y), _opacity(opacity)
    return Placement(width, height, is_opaque, False, Tween(left, left), Tween(top, top), Tween(shade, shade))


def _place(name: str, value: Any) -> float:
    return arguments.number(name, value, -_FURTHEST, _FURTHEST)


def _opacity(value: Any) -> float:
    return arguments.number("opacity", value, 0, 1)


def _duration(seconds: Any) -> int:
    return round(arguments.number("seconds", seconds, 0, _LONGEST) * 1e9)
