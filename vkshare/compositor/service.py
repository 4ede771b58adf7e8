"""The compositor for clients in other processes: a plug-in of vkshare.server (rules R18, R19).

On the server's loop, requests are only checked and answered, which takes no time. The service's
thread opens clients' memory, the compositor's thread draws it; neither waits for a client.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkshare.compositor import messages as m
from vkshare.compositor.compositor import Compositor
from vkshare.compositor.frame_sources import Keys
from vkshare.compositor.window import ClientWindow
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.ipc import transport
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.server import messages
from vkshare.server.request_types import Answer, Kind, Request
from vkshare.server.session_state import Route
from vkshare.util import arguments, fd_ops
from vkshare.util.closing import FlagClosing
from vkshare.util.forks import OwnLock
from vkshare.vsync import VsyncBridge

if TYPE_CHECKING:
    from vkshare.server.session import ServedClient
    from vkshare.window.events import Event

_log = logging.getLogger("vkshare.compositor")

MOST_WINDOWS = 16  # of one client
_MOST_FDS = 253  # the kernel's SCM_MAX_FD


@dataclass(slots=True)
class _ServedWindow:
    """One window of a client."""

    window: ClientWindow
    bridge: VsyncBridge
    fds: int
    # the compositor to which the service's thread will move it
    destination: Compositor | None = None

    def close(self, seconds: float) -> None:
        """Closes the window without waiting for the client.

        ValueError: `seconds` is out of bounds; the window stays open.
        """
        self.window._close(seconds, is_blocking=False)
        self.bridge.close()


class _Windows(dict[int, _ServedWindow]):
    """A client's windows by their ids.

    Windows that fade out or are being closed have no id, but count toward the limits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fading: list[_ServedWindow] = []

    def all(self) -> list[_ServedWindow]:
        """Returns all windows that keep file descriptors open."""
        self.fading = [served for served in self.fading if served.window._holds_memory]
        return [*self.values(), *self.fading]


class Service(FlagClosing):
    """Clients of a RenderServer open windows on compositors: ``RenderServer(device, kinds=service.kinds)``.

    One service is for one server. Close the server first, then the service, then the compositors,
    which stay the caller's.

    Parameters
    ----------
    compositors
        One for each target; clients select them by index.
    linger
        Seconds over which the windows of a client that is gone fade out.
    """

    def __init__(self, compositors: Sequence[Compositor], *, linger: float = 0.25) -> None:
        self._compositors = tuple(compositors)
        if not self._compositors or not all(isinstance(each, Compositor) for each in self._compositors):
            raise TypeError("compositors must be one Compositor or more")
        self._linger = arguments.number("linger", linger, 0, 3600)
        self._lock = OwnLock(self)  # guards the windows' destinations
        self._opener = ThreadPoolExecutor(1, "vks-open-windows")
        self._closed = False
        self.kinds = (
            Kind(m.Op.OPEN, m.Open, Route.INLINE, self._open, most_fds=_MOST_FDS),
            Kind(m.Op.MOVE, m.Move, Route.INLINE, self._move),
            Kind(m.Op.FADE, m.Fade, Route.INLINE, self._fade),
            Kind(m.Op.STACK, m.Stack, Route.INLINE, self._stack),
            Kind(m.Op.SEND, m.Send, Route.INLINE, self._send),
            Kind(m.Op.CLOSE, m.Close, Route.INLINE, self._close_window),
            Kind(m.Op.STATISTICS, m.WindowId, Route.INLINE, self._statistics),
        )

    def close(self) -> None:
        """Closes the service; waits until its thread opens no client's memory any more. Idempotent."""
        self._lock.check()
        self._closed = True
        self._opener.shutdown()

    def _is_lost(self) -> bool:
        return not self._closed and self._lock.is_here

    def __repr__(self) -> str:
        return f"<vkshare.compositor.Service on {len(self._compositors)} compositors{', closed' * self._closed}>"

    # ---- requests, on the loop's thread ---------------------------------------------------------------------------

    def _open(self, client: ServedClient, request: Request) -> Answer:
        body: m.Open = request.body
        compositor = self._compositor(body.output)
        windows = self._windows(client)
        if body.id in windows:
            raise InvalidCallError(f"id {body.id} is taken: close that window, or choose another")
        kept = windows.all()
        if len(kept) >= MOST_WINDOWS:
            raise InvalidCallError(
                f"this client has {MOST_WINDOWS} windows, which is the limit: close one, and let it fade out"
            )
        kind = QueueDescriptor if body.kind == "pipe" else SurfaceDescriptor
        with kind.from_bytes(body.descriptor, request.take_fds()) as descriptor:
            # Factor 2, because the window keeps each fd, and the device duplicates it.
            fds = 2 * descriptor.fd_count
            used = sum(served.fds for served in kept)
            if used + fds > transport.quota():
                raise InvalidCallError(
                    f"this client's windows keep {used} file descriptors open in the compositor, and this one needs "
                    f"{fds}; allowed are {transport.quota()}: close windows, or use fewer surfaces for each"
                )
            window = compositor._prepare(
                descriptor, body.title, body.at, body.opacity, body.is_opaque, Keys(*body.keys),
                on_input=(lambda event: self._notify_input(client, body.id, event)) if body.takes_input else None,
                on_end=lambda window, why: self._notify_end(client, body.id, window, why),
            )  # fmt: skip
        with contextlib.ExitStack() as failed:
            failed.callback(window.close)  # its memory was not opened yet
            bridge = failed.enter_context(VsyncBridge(window.dispatcher))
            width, height = compositor.swapchain.extent
            with bridge.export() as ticks:
                answer = Answer.of(m.Opened(width, height, ticks.to_bytes()), ticks._duplicates())
            failed.callback(fd_ops.close_all, answer.fds)
            self._opener.submit(self._show, client, body.id, window)
            failed.pop_all()
        windows[body.id] = _ServedWindow(window, bridge, fds)
        return answer

    def _move(self, client: ServedClient, request: Request) -> None:
        body: m.Move = request.body
        self._window(client, body.id).move(body.x, body.y, body.seconds)

    def _fade(self, client: ServedClient, request: Request) -> None:
        body: m.Fade = request.body
        self._window(client, body.id).fade(body.opacity, body.seconds)

    def _stack(self, client: ServedClient, request: Request) -> None:
        body: m.Stack = request.body
        window = self._window(client, body.id)
        window.raise_to_top() if body.on_top else window.lower_to_bottom()

    def _send(self, client: ServedClient, request: Request) -> None:
        body: m.Send = request.body
        served, compositor = self._served(client, body.id), self._compositor(body.output)
        # at most one queued move per window: a flood of moves does not delay other windows
        with self._lock:
            is_queued = served.destination is not None
            served.destination = compositor
        if not is_queued:
            self._opener.submit(self._move_to_destination, client, body.id, served)

    def _close_window(self, client: ServedClient, request: Request) -> None:
        body: m.Close = request.body
        windows = self._windows(client)
        served = windows.get(body.id)
        if served is not None:
            served.close(body.seconds)
            del windows[body.id]
            windows.fading.append(served)

    def _statistics(self, client: ServedClient, request: Request) -> Answer:
        window = self._window(client, request.body.id)
        counters, place = window.statistics(), (window.x, window.y, window.opacity)
        numbers = {name: getattr(counters, name) for name in ("shown", "superseded", "lost", "waiting")}
        numbers |= dict(zip(("x", "y", "opacity"), place, strict=True)) | {"is_late": int(counters.is_late)}
        return Answer.of(messages.Counters(numbers))

    # ---- clients' windows -------------------------------------------------------------------------------------------

    def _windows(self, client: ServedClient) -> _Windows:
        found = client.notes.get(self)
        if found is None:
            found = client.notes[self] = _Windows()
            client.on_close(self._client_closed)
        assert isinstance(found, _Windows)
        return found

    def _served(self, client: ServedClient, number: int) -> _ServedWindow:
        served = self._windows(client).get(number)
        if served is None:
            raise InvalidCallError(f"this client has no window {number}")
        return served

    def _window(self, client: ServedClient, number: int) -> ClientWindow:
        return self._served(client, number).window

    def _compositor(self, output: int) -> Compositor:
        if output >= len(self._compositors):
            raise InvalidCallError(f"output is {output}; this compositor has 0 to {len(self._compositors) - 1}")
        return self._compositors[output]

    def _client_closed(self, client: ServedClient) -> None:
        for served in self._windows(client).all():
            served.close(self._linger)
        client.notes.pop(self, None)

    # ---- on the service's thread ------------------------------------------------------------------------------------

    def _show(self, client: ServedClient, number: int, window: ClientWindow) -> None:
        try:
            window._show()
        except ClosedError:
            pass  # its client, or the compositor, has closed it
        except Exception as error:
            self._notify_end(client, number, window, f"it could not be opened: {type(error).__name__}: {error}")

    def _move_to_destination(self, client: ServedClient, number: int, served: _ServedWindow) -> None:
        with self._lock:
            compositor, served.destination = served.destination, None
        assert compositor is not None
        try:
            served.window.move_to(compositor)
        except ClosedError:
            pass
        except Exception as error:
            _log.exception("%r could not be moved to %r", served.window, compositor)
            self._notify_end(client, number, served.window, f"it could not be moved: {type(error).__name__}: {error}")

    # ---- events, from any thread ------------------------------------------------------------------------------------

    @staticmethod
    def _notify(client: ServedClient, opcode: m.Op, body: messages.Body) -> None:
        messages.encode(body)  # a body that cannot be encoded fails here, and not on the loop
        client.server.call_soon(lambda: client.tell(opcode, body))

    def _notify_end(self, client: ServedClient, number: int, window: ClientWindow, why: str) -> None:
        self._notify(client, m.Op.ENDED, m.Ended(number, window.is_closed, why))

    def _notify_input(self, client: ServedClient, number: int, event: Event) -> None:
        values = (getattr(event, name) for name in m.EVENT_FIELDS)
        self._notify(client, m.Op.INPUT, m.Input(number, *values))
