"""One window of a Desktop: its frames, its ticks and its position, in the client's process."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from vkshare.compositor import messages as m
from vkshare.compositor.frame_sources import stamp
from vkshare.core.pipe_ends import Sender
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.server import messages
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing
from vkshare.vsync import Display, Tick, VsyncDescriptor, VsyncDispatcher
from vkshare.vsync.dispatcher import Observer
from vkshare.window.events import Event

if TYPE_CHECKING:
    from vkshare.compositor.desktop import Desktop
    from vkshare.core.queue_ends import QueueFrame

_REOPEN_TIMEOUT = 10.0  # seconds that a compositor may take to replace a lost device
_RETRY = 0.005  # seconds between checks whether it has
_EVENT_POLL_INTERVAL = 0.25  # seconds between checks for events of the compositor, without a tick


class RemoteWindow(FlagClosing):
    """A window of this client, shown by a compositor in another process.

    Created by Desktop. Thread-safe, except frame(). Calls raise RemoteLostError once the
    compositor's process is gone.

    Attributes
    ----------
    title
        A title for logs and statistics.
    size
        (width, height) of its frames, in pixels.
    output_size
        (width, height) of the target that it was opened on, in pixels.
    display
        A display of this process that ticks as the compositor's does.
    """

    def __init__(
        self,
        desktop: Desktop,
        number: int,
        title: str,
        size: tuple[int, int],
        output_size: tuple[int, int],
        sender: Sender | None,
        ticks: VsyncDescriptor,
    ) -> None:
        self.title = title
        self.size = size
        self.output_size = output_size
        self._desktop = desktop
        self._id = number
        self._sender = sender
        self._why = ""
        self._closed = True  # until the constructor succeeds
        self._drawn_for = 0  # vsync time of the newest tick of ticks(), ns
        self._events: deque[Event] = deque(maxlen=1024)
        with contextlib.ExitStack() as made:
            self.display = made.enter_context(Display(title, source=ticks))
            self._dispatcher = made.enter_context(VsyncDispatcher(self.display))
            self._observer = made.enter_context(self._dispatcher.observe())
            self._observer.rest()
            made.pop_all()
        self._closed = False

    @property
    def sender(self) -> Sender:
        """The pipe of its frames. InvalidCallError: the window shows a surface."""
        if self._sender is None:
            raise InvalidCallError(f"{self!r} shows a surface: release the surface with the compositor's key")
        return self._sender

    @property
    def end(self) -> str:
        """Why the compositor shows no further frame; "" while it does."""
        return self._why

    # ---- drawing --------------------------------------------------------------------------------------------------

    def observe(self) -> Observer:
        """Returns another observer of the display's ticks; the caller closes it."""
        return self._dispatcher.observe()

    def ticks(self) -> Iterator[Tick]:
        """Waits for ticks of the display, until the window is closed here or by the compositor.

        Yields
        ------
        Tick
            The newest tick.

        Raises
        ------
        ClosedError
            The window is closed before the first tick.
        """
        self._check()
        self._observer.attend()
        try:
            while not self._closed:
                tick = self._next()
                self._desktop.poll()
                if self._why:
                    return
                if tick is not None:
                    self._drawn_for = tick.vsync_time
                    yield tick
        finally:
            with contextlib.suppress(ClosedError):
                self._observer.rest()

    def _next(self) -> Tick | None:
        try:
            return self._observer.wait(_EVENT_POLL_INTERVAL)
        except (TimeoutError, ClosedError):
            return None

    @contextlib.contextmanager
    def frame(self, timeout: float | None = None) -> Iterator[QueueFrame]:
        """Hands out a surface to draw on for a ``with`` block, and sends it at the end of the block.

        It is shown at the tick after the newest one of ticks(), once its GPU work is complete.
        While the compositor replaces a lost device, frames are not shown.

        Parameters
        ----------
        timeout
            Seconds to wait for a free surface; None: without limit.

        Yields
        ------
        QueueFrame
            `frame.surface` is drawn on.

        Raises
        ------
        ClosedError
            The window is closed, here or by the compositor; the text says why.
        InvalidCallError
            The window shows a surface.
        AcquireTimeout, AbandonedError
            As Sender.frame().
        """
        self._check()
        scope, frame = self._begin_frame(timeout)
        try:
            yield frame
        except BaseException as error:
            scope.__exit__(type(error), error, error.__traceback__)
            raise
        try:
            scope.__exit__(None, None, None)
        except ClosedError:
            self._check_reopening()

    def _begin_frame(self, timeout: float | None) -> tuple[AbstractContextManager[QueueFrame], QueueFrame]:
        deadline = time.monotonic() + (_REOPEN_TIMEOUT if timeout is None else min(timeout, _REOPEN_TIMEOUT))
        while True:
            scope = self.sender.frame(stamp(self._drawn_for), timeout)
            try:
                return scope, scope.__enter__()
            except ClosedError:
                self._check_reopening()
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY)

    def _check_reopening(self) -> None:
        """Checks whether the compositor, which has closed the pipe, will open it again. ClosedError: it will not."""
        self._desktop.poll()
        self._check()

    def events(self) -> list[Event]:
        """Returns the input events since the last call, oldest first; positions are the window's pixels."""
        self._desktop.poll()
        found: list[Event] = []
        while self._events:
            found.append(self._events.popleft())
        return found

    # ---- position ----------------------------------------------------------------------------------------------

    def move(self, x: float, y: float, seconds: float = 0) -> None:
        """Moves the window, as ClientWindow.move().

        Parameters
        ----------
        x, y, seconds
            As of ClientWindow.move().
        """
        self._request(m.Op.MOVE, m.Move(self._id, float(x), float(y), float(seconds)))

    def fade(self, opacity: float, seconds: float = 0) -> None:
        """Changes the window's opacity, as ClientWindow.fade().

        Parameters
        ----------
        opacity, seconds
            As of ClientWindow.fade().
        """
        self._request(m.Op.FADE, m.Fade(self._id, float(opacity), float(seconds)))

    def raise_to_top(self) -> None:
        """Raises the window above all others of its target."""
        self._request(m.Op.STACK, m.Stack(self._id, True))

    def lower_to_bottom(self) -> None:
        """Lowers the window below all others of its target."""
        self._request(m.Op.STACK, m.Stack(self._id, False))

    def move_to(self, output: int) -> None:
        """Moves the window to the target with the index `output`; it then gets that target's ticks."""
        self._request(m.Op.SEND, m.Send(self._id, arguments.integer("output", output, 0, 255)))

    def statistics(self) -> dict[str, int | float]:
        """Returns the counters of WindowStatistics (shown, superseded, lost, waiting, is_late), and x, y, opacity."""
        counters: messages.Counters = self._desktop.client.decoded(
            messages.Counters, self._request(m.Op.STATISTICS, m.WindowId(self._id))
        )
        return counters.numbers

    def close(self, seconds: float = 0) -> None:
        """Closes the window, fading out in that many seconds. Idempotent."""
        with self._desktop._lock:
            if self._closed:
                return
            self._closed = True
            self._desktop._windows.pop(self._id, None)
        try:
            # the exit of the process closes it then
            if not self._desktop.is_closed and not sys.is_finalizing():
                self._desktop.client.call(m.Op.CLOSE, m.Close(self._id, float(seconds)))
        finally:
            self._end()

    # ---- within the package ---------------------------------------------------------------------------------------

    def _request(self, opcode: m.Op, body: messages.Body) -> bytes:
        self._check()
        return self._desktop.client.call(opcode, body)[0]

    def _check(self) -> None:
        self._desktop._lock.check()
        if self._closed:
            raise ClosedError(f"{self!r} is closed")
        if self._why:
            raise ClosedError(f"the compositor shows no further frame of {self.title!r}: {self._why}")

    def _is_lost(self) -> bool:
        return not self._closed and self._desktop._lock.is_here

    def _end(self) -> None:
        self._observer.close()
        self._dispatcher.close()
        self.display.close()
        if self._sender is not None:
            self._sender.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._why or "open"
        return f"<vkshare.compositor.RemoteWindow {self.title!r} {self.size[0]}x{self.size[1]}, {state}>"
