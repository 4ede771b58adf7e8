"""The client side of the compositor: windows of this process in a compositor in another.

with vks.compositor.Desktop(name="clock") as desktop:
    window = desktop.open_window(320, 200, title="clock")
    for tick in window.ticks():
        with window.frame() as frame:
            desktop.device.submit(desktop.device.record().clear(frame.surface, (1, 0, 0, 1)))
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal

from vkshare.compositor import messages as m
from vkshare.compositor.frame_sources import STAMP_SIZE, Descriptor, stamp
from vkshare.core.adapter import adapters
from vkshare.core.opening import open as open_device
from vkshare.core.pipe import Sender, pipe
from vkshare.core.surface import Surface
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError, VkshareError
from vkshare.server import Client, messages
from vkshare.util import arguments, fd_ops
from vkshare.util.closing import Closing, FlagClosing, on_error
from vkshare.util.forks import OwnLock
from vkshare.vsync import Display, Tick, VsyncDescriptor, VsyncDispatcher
from vkshare.vsync.dispatcher import Observer
from vkshare.window.events import Event

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.core.queue_ends import QueueFrame

_REOPEN_TIMEOUT = 10.0  # seconds that a compositor may take to replace a lost device
_RETRY = 0.005  # seconds between checks whether it has
_Look = tuple[str, tuple[float, float], float, bool, bool]  # these fields of messages.Open
_EVENT_POLL_INTERVAL = 0.25  # seconds between checks for events of the compositor, without a tick


class Desktop(Closing):
    """A connection to a compositor in another process (``vkshare serve``). Thread-safe.

    Parameters
    ----------
    path, name, timeout
        As of vkshare.server.Client.
    device
        The device of the windows' frames; stays the caller's. None: opens one on the server's
        adapter, and closes it.

    Raises
    ------
    OSError, InvalidCallError
        As of vkshare.server.Client.
    UnsupportedError
        `device` is None, and this process does not have the server's adapter.
    RemoteLostError
        Every call: the compositor's process is gone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        name: str = "",
        device: Device | None = None,
        timeout: float | None = 30.0,
    ) -> None:
        self._lock = OwnLock(self)
        self._windows: dict[int, RemoteWindow] = {}
        self._owns_device = device is None
        self._client = Client(path, name, timeout, device=device)
        with on_error(self._client.close):
            self._device: Device = _open_same_adapter(self._client.server, name) if device is None else device
        self._client._device = self._device

    @property
    def client(self) -> Client:
        """The connection, which can also render in the server."""
        return self._client

    @property
    def device(self) -> Device:
        """The device of the windows' frames."""
        return self._device

    @property
    def windows(self) -> tuple[RemoteWindow, ...]:
        """The open windows."""
        with self._lock:
            return tuple(self._windows.values())

    def open_window(
        self,
        width: int,
        height: int,
        format: str = "rgba8unorm",
        *,
        title: str = "",
        at: Sequence[float] = (0, 0),
        opacity: float = 1.0,
        is_opaque: bool = False,
        count: int = 3,
        wants_input: bool = False,
        output: int = 0,
    ) -> RemoteWindow:
        """Opens a window with frames of this size. It is visible from its first frame on.

        Parameters
        ----------
        title
            A title for logs and statistics; up to 64 characters.
        at, opacity, is_opaque
            As of Compositor.open_window().
        count
            Surfaces to draw on in turn, 2 to 64.
        wants_input
            Whether events() returns input events; the left button does not drag the window then.
        output
            Index of the compositor's target.

        Raises
        ------
        InvalidCallError
            There is no such output, or this client has too many windows.
        """
        surfaces = arguments.integer("count", count, 2, 64)
        look = _look(title, at, opacity, is_opaque, wants_input)
        sender, descriptor = pipe(self._device, width, height, format, surfaces, STAMP_SIZE)
        with on_error(sender.close), descriptor:
            return self._open(descriptor, sender, look, output)

    def show(
        self,
        surface: Surface,
        *,
        acquire: int = 1,
        release: int = 0,
        title: str = "",
        at: Sequence[float] = (0, 0),
        opacity: float = 1.0,
        is_opaque: bool = False,
        wants_input: bool = False,
        output: int = 0,
    ) -> RemoteWindow:
        """Opens a window that shows a surface's contents each time that it is released with the key `acquire`.

        The compositor copies them and releases the surface with `release`. The surface stays the
        caller's. Other parameters are as of open_window().
        """
        arguments.instance("surface", surface, Surface)
        keys = arguments.keys(acquire, release)
        look = _look(title, at, opacity, is_opaque, wants_input)
        with surface.export() as descriptor:
            return self._open(descriptor, None, look, output, keys)

    def _open(
        self, descriptor: Descriptor, sender: Sender | None, look: _Look, output: int, keys: tuple[int, int] = (1, 0)
    ) -> RemoteWindow:
        output = arguments.integer("output", output, 0, 255)
        kind: Literal["pipe", "surface"] = "surface" if sender is None else "pipe"
        with self._lock:
            number = self._client._new_id()
            body = m.Open(number, output, *look, keys, kind, descriptor.to_bytes())
            with self._client._undoing(m.Op.CLOSE, m.Close(number, 0.0)):
                reply, fds = self._client.call(m.Op.OPEN, body, descriptor._unused_fds())
                descriptor._used = True
                opened: m.Opened = self._client.decoded(m.Opened, reply, fds)
                with VsyncDescriptor.from_bytes(opened.descriptor, fds) as ticks:
                    size = descriptor.spec.width, descriptor.spec.height
                    window = RemoteWindow(self, number, look[0], size, (opened.width, opened.height), sender, ticks)
            self._windows[number] = window
            return window

    def poll(self) -> None:
        """Handles the compositor's events. Does not wait. ticks() and events() call it."""
        with self._lock:
            came = self._client.events()
            for _, _, fds in came:
                fd_ops.close_all(fds)
            for opcode, data, _ in came:
                self._handle_event(opcode, data)

    def _handle_event(self, opcode: int, data: bytes) -> None:
        kinds: dict[int, type[messages.Body]] = {m.Op.ENDED: m.Ended, m.Op.INPUT: m.Input}
        body = self._client.decoded(kinds[opcode], data) if opcode in kinds else None
        window = None if body is None else self._windows.get(body.id)
        if window is None:
            return
        if isinstance(body, m.Ended):
            window._why = body.why
        else:
            window._events.append(Event(**{name: getattr(body, name) for name in m.EVENT_FIELDS}))

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    def close(self) -> None:
        """Closes its windows and the connection. Idempotent."""
        for window in self.windows:
            with contextlib.suppress(VkshareError, OSError):
                window.close()
        self._client.close()
        if self._owns_device:
            self._device.close()

    def _is_lost(self) -> bool:
        return not self.is_closed and self._lock.is_here

    def __repr__(self) -> str:
        return f"<vkshare.compositor.Desktop {len(self._windows)} windows, {self._client!r}>"


class RemoteWindow(FlagClosing):
    """A window of this client, shown by a compositor in another process.

    Created by Desktop. Thread-safe, except frame().

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
        """Yields the display's newest tick each time, until the window is closed here or by the compositor.

        RemoteLostError: the compositor's process is gone.
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
        """``with window.frame() as frame:`` gives a surface to draw on.

        It is shown at the tick after the newest one of ticks(), once its GPU work is complete.

        Parameters and errors as of Sender.frame(). While the compositor replaces a lost device,
        frames are not shown. ClosedError: the compositor has closed the window; the text says why.
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
        """As ClientWindow.move()."""
        self._request(m.Op.MOVE, m.Move(self._id, float(x), float(y), float(seconds)))

    def fade(self, opacity: float, seconds: float = 0) -> None:
        """As ClientWindow.fade()."""
        self._request(m.Op.FADE, m.Fade(self._id, float(opacity), float(seconds)))

    def raise_to_top(self) -> None:
        """As ClientWindow.raise_to_top()."""
        self._request(m.Op.STACK, m.Stack(self._id, True))

    def lower_to_bottom(self) -> None:
        """As ClientWindow.lower_to_bottom()."""
        self._request(m.Op.STACK, m.Stack(self._id, False))

    def move_to(self, output: int) -> None:
        """Moves the window to another of the compositor's targets. It then gets that target's ticks."""
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


def _look(title: str, at: Sequence[float], opacity: float, is_opaque: bool, wants_input: bool) -> _Look:
    if len(arguments.text("title", title)) > 64:
        raise ValueError(f"title has {len(title)} characters; allowed are 64")
    x, y = (float(each) for each in at)
    return title, (x, y), float(opacity), bool(is_opaque), bool(wants_input)


def _open_same_adapter(server: messages.Welcome, name: str) -> Device:
    """Opens a device on the server's adapter, because the server usually cannot open memory of another adapter.

    UnsupportedError: this process has no such adapter.
    """
    for adapter in adapters(server.backend):
        if adapter.capabilities.device_uuid == server.device_uuid:
            return open_device(adapter, name=name[:23])
    raise UnsupportedError(
        "a Desktop without a device of its own",
        f"this process has no adapter {server.adapter!r} ({server.backend}), which the server draws on",
        "give it one: Desktop(device=vks.open(...))",
    )
