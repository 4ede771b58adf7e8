"""Windows of remote programs at the viewer. Thread-safe, except turn(), which is the main thread's."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vkshare.core.device import Device
from vkshare.core.surface import Surface
from vkshare.errors import (
    AbandonedError,
    DeviceLostError,
    InvalidCallError,
    SurfaceLostError,
    UnsupportedError,
    VkshareError,
)
from vkshare.present.swapchain import Swapchain
from vkshare.present.targets import Headless
from vkshare.remote import relay_messages as m
from vkshare.remote.playout import MOST_DELAY, Playout
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.core.commands import Submission
    from vkshare.window.window import Window

_log = logging.getLogger("vkshare.remote")

Tell = Callable[[int, m.Input | m.WindowLost], object]  # the session's client, and an event of its window

MOST_WINDOWS = 64  # of one program; its host has fewer, but those that were closed end in the next turn()
_SLICE = 0.004  # seconds between looks whether a copy still waits
_LEAST_BUFFERS, _MOST_BUFFERS = 3, 32  # pictures of a window that wait to be shown
_MOST_BYTES = 96 << 20  # of these pictures, where they are more than the least number
_RATE_OVER = 10.0  # seconds
_MOST_DIGESTS = 10_000
_MOST_WHY = 1024  # characters of m.WindowLost


@dataclass(slots=True)
class _Buffer:
    """A copy of a picture."""

    surface: Surface  # owned
    copied: Submission

    @property
    def is_ready(self) -> bool:
        """Whether the copy waits for no other program: what uses it now is not held."""
        return not self.copied.is_held


@dataclass(slots=True)
class _Shown:
    """One window: its pictures, and the window of this machine, which the main thread makes."""

    spec: m.Window
    client: int
    playout: Playout[_Buffer]
    front: _Buffer | None = None  # what is shown
    spare: list[Surface] = field(default_factory=list)
    is_new: bool = False  # the front was not shown yet
    has_ended: bool = False
    window: Window | None = None
    swapchain: Swapchain | None = None
    frames: int = 0  # that were shown
    has_failed: bool = False  # a picture could not be drawn, and a message says so

    def take_surface(self, picture: Surface) -> Surface | None:
        """A surface for a copy of such a picture, which nothing waits for, or the oldest that does; None: make one."""
        for surface in self.spare:
            if _matches(surface, picture):
                self.spare.remove(surface)
                return surface
        while self.spare:
            self.spare.pop().close()
        if len(self.playout) < _room_for(picture):
            return None
        oldest = self.playout.drop_oldest().surface
        if _matches(oldest, picture):
            return oldest
        oldest.close()
        return None

    def settle(self, now: float) -> bool:
        """Makes the newest picture that is due the front; whether it is one that was not shown."""
        newest, older = self.playout.take(now)
        self.spare += [buffer.surface for buffer in older]
        if newest is not None:
            if self.front is not None:
                self.spare.append(self.front.surface)
            self.front, self.is_new = newest, True
        keep = _LEAST_BUFFERS + round(self.playout.delay.seconds * 60)
        while len(self.spare) > keep:
            self.spare.pop().close()
        return self.is_new

    def newest(self) -> _Buffer | None:
        """The newest picture that is ready, whether it is due or not."""
        return next((buffer for buffer in reversed(self.playout.pictures) if buffer.is_ready), self.front)

    def close(self) -> None:
        buffers = [*self.playout.pictures, *([self.front] if self.front is not None else ())]
        for thing in (self.swapchain, self.window, *self.spare, *(buffer.surface for buffer in buffers)):
            if thing is not None:
                thing.close()


def _matches(surface: Surface, picture: Surface) -> bool:
    return (surface.width, surface.height, surface.format) == (picture.width, picture.height, picture.format)


def _room_for(picture: Surface) -> int:
    """How many such pictures may wait."""
    size = picture.width * picture.height * picture.spec.format.bytes_per_pixel
    return max(_LEAST_BUFFERS, min(_MOST_BUFFERS, _MOST_BYTES // size))


class ViewerWindows:
    """The windows of one viewer.

    Attributes
    ----------
    arrived, composites
        Pictures that programs have presented, and pictures that were shown.
    digested, digests
        The title of a window (None: none), and the SHA-256 of each of its pictures that was shown, the oldest first.
    """

    def __init__(
        self,
        device: Device,
        tell: Tell,
        *,
        headless: bool,
        playout: float = MOST_DELAY,
        digested: str | None = None,
    ) -> None:
        self._device = device
        self._tell = tell
        self._is_headless = headless
        self._playout = playout
        self._changed = threading.Condition()
        self._windows: dict[int, _Shown] = {}
        self._lost: dict[int, int] = {}  # windows that cannot be shown, until their programs close them: the client
        self.arrived = 0
        self.composites = 0
        self.digested = digested
        self.digests: deque[str] = deque(maxlen=_MOST_DIGESTS)
        self._times: deque[float] = deque()  # at which pictures were shown, of late

    # ---- the sessions' workers -----------------------------------------------------------------------------------

    def open(self, client: int, spec: m.Window) -> None:
        """Opens a window for a session."""
        with self._changed:
            if spec.id in self._windows or spec.id in self._lost:
                raise InvalidCallError(f"window {spec.id} is open already")
            clients = [*self._lost.values(), *(shown.client for shown in self._windows.values())]
            if clients.count(client) >= MOST_WINDOWS:
                raise InvalidCallError(f"this program has {MOST_WINDOWS} windows")
            self._windows[spec.id] = _Shown(spec, client, Playout(self._playout))
            self._changed.notify_all()

    def show(self, client: int, number: int, picture: Surface, stamp: float) -> None:
        """Copies a picture, which the caller owns and may release then. It is shown once it is due.

        `stamp`: the host's time of its present, in seconds.
        """
        with self._changed:
            if self._lost.get(number) == client:
                return  # the program learns of it from m.WindowLost
            shown = self._windows.get(number)
            if shown is None or shown.client != client:
                raise InvalidCallError(f"this program has no window {number}")
            copy = shown.take_surface(picture)
        # submit() may wait for other programs, which must be able to show their pictures meanwhile
        if copy is None:
            copy = self._device.create_surface(picture.width, picture.height, picture.format)
        with on_error(copy.close):
            if not copy.is_owned:
                copy.acquire()
            submission = self._device.submit(self._device.record().copy(picture, copy))
        with self._changed:
            self.arrived += 1
            if self._windows.get(number) is shown:
                shown.playout.add(_Buffer(copy, submission), stamp)
                self._changed.notify_all()
                return
        copy.close()  # the window was closed meanwhile

    def end(self, client: int, number: int) -> None:
        """Closes a window."""
        with self._changed:
            shown = self._windows.get(number)
            if self._lost.get(number) == client:
                del self._lost[number]
            elif shown is not None and shown.client == client:
                shown.has_ended = True
                self._changed.notify_all()

    # ---- the main thread -------------------------------------------------------------------------------------------

    def turn(self, timeout: float) -> None:
        """Shows new pictures, and takes the windows' events. Waits for something to do."""
        with self._changed:
            left = self._time_left(time.monotonic())
            if left > 0:
                self._changed.wait(min(timeout, left))
            for number in [number for number, shown in self._windows.items() if shown.has_ended]:
                self._windows.pop(number).close()
            windows = list(self._windows.values())
        for shown in windows:
            try:
                self._present(shown)
            except (SurfaceLostError, UnsupportedError, DeviceLostError) as error:
                self._lose(shown, error)
            except VkshareError as error:
                if not shown.has_failed:
                    shown.has_failed = True
                    _log.error("a picture of window %r could not be drawn: %s", shown.spec.title, error)

    def _lose(self, shown: _Shown, error: Exception) -> None:
        """Closes a window that cannot be shown, and notifies its program."""
        number, title = shown.spec.id, shown.spec.title
        with self._changed:
            if self._windows.pop(number, None) is not None and not shown.has_ended:
                self._lost[number] = shown.client
        _log.error("window %r cannot be shown: %s", title, error)
        self._tell(shown.client, m.WindowLost(number, str(error)[:_MOST_WHY]))
        shown.close()

    def _time_left(self, now: float) -> float:
        """Returns seconds until there is something to do, if nothing arrives."""
        left = math.inf
        for shown in self._windows.values():
            if shown.has_ended or shown.swapchain is None or shown.settle(now):
                return 0.0
            left = min(left, shown.playout.next_due() - now, _SLICE if shown.playout.has_unready else math.inf)
        return left

    def _present(self, shown: _Shown) -> None:
        if shown.swapchain is None:
            try:
                self._make(shown)
            except (VkshareError, ValueError, OSError) as error:  # the next attempt would fail, too
                raise SurfaceLostError(str(error)) from error
        assert shown.swapchain is not None
        if shown.window is not None:
            self._poll(shown, shown.window)
        with self._changed:
            if not shown.settle(time.monotonic()) or shown.front is None:
                return
            shown.is_new = False
            front = shown.front.surface  # which only this thread replaces
        with shown.swapchain.frame() as frame:  # it may wait for the screen
            commands = self._device.record()
            if (frame.width, frame.height) == (front.width, front.height) and front.format == frame.view.format:
                commands.copy(front, frame.view)
            else:
                commands.blit(front, frame.view)
            self._device.submit(commands)
        self._count(shown, front)

    def _count(self, shown: _Shown, front: Surface) -> None:
        now = time.monotonic()
        with self._changed:
            shown.frames += 1
            self.composites += 1
            self._times.append(now)
            while self._times[0] < now - _RATE_OVER:
                self._times.popleft()
        if shown.spec.title == self.digested:
            with contextlib.suppress(AbandonedError):
                self.digests.append(hashlib.sha256(front.read().tobytes()).hexdigest())

    def _make(self, shown: _Shown) -> None:
        spec = shown.spec
        target: Any = Headless(spec.width, spec.height)
        if not self._is_headless:
            from vkshare.window.window import Window

            target = shown.window = Window(spec.width, spec.height, spec.title)
        shown.swapchain = self._device.create_swapchain(target, present_mode="mailbox" if self._is_headless else "fifo")

    def _poll(self, shown: _Shown, window: Window) -> None:
        for event in window.poll(0):
            data = json.dumps(event.as_dict()).encode()
            self._tell(shown.client, m.Input(shown.spec.id, data))

    # ---- looking -------------------------------------------------------------------------------------------------

    def pictures(self) -> dict[str, Any]:
        """Returns the newest picture of each window as an array, by title, whether it is due or not."""
        found: dict[str, Any] = {}
        with self._changed:
            for shown in self._windows.values():
                newest = shown.newest()
                if newest is not None:
                    with contextlib.suppress(AbandonedError):  # its program has died in the middle of a picture
                        found[shown.spec.title] = newest.surface.read()
        return found

    def pace(self) -> tuple[float, float, float]:
        """Returns pictures shown a second of late, the longest time between two of them, and the play-out delay."""
        with self._changed:
            times = list(self._times)
            delay = max((shown.playout.delay.seconds for shown in self._windows.values()), default=0.0)
        steps = [after - before for before, after in itertools.pairwise(times)]
        return (len(steps) / sum(steps), max(steps), delay) if steps and sum(steps) else (0.0, 0.0, delay)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Closes all windows. On the main thread, where there are windows of this machine."""
        with self._changed:
            windows, self._windows = list(self._windows.values()), {}
        for shown in windows:
            shown.close()
