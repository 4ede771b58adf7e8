"""X11's Present extension as a source: requests an event for each vertical blank (PresentNotifyMSC)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare.errors import SurfaceLostError, UnsupportedError
from vkshare.util import arguments
from vkshare.util.closing import on_error
from vkshare.vsync.sources import randr
from vkshare.vsync.sources.base import Blank, Run, VsyncSource
from vkshare.window.x11_connection import BAD_WINDOW, GENERIC_EVENT, Event, X11Connection, XError

if TYPE_CHECKING:
    from vkshare.window.window import Window

KIND = "x11-present"
_NOTIFY_MSC = 2  # the request's number in Present
_COMPLETE_NOTIFY, _OF_NOTIFY_MSC = 1, 1  # the event's number, and its kind
_COMPLETE_NOTIFY_MASK = 1 << 1
_COMPLETE_NOTIFY_SIZE = 40
_DESTROY_NOTIFY, _STRUCTURE_NOTIFY, _EVENT_MASK = 17, 1 << 17, 1 << 11
# seconds before the next request if the answer was no tick, because the server may answer at once
_RETRY_DELAY = 0.004


class MscRequests:
    """Requests to the server, and the filter of its answers. Has no connection and no clock.

    One request is pending at a time, for the next vertical blank after the server reads it (divisor
    1). A request for a count that has passed would be answered at once, with the time of the answer
    (seen with Xvfb).
    """

    def __init__(self, send: Callable[[bytes], object], opcode: int, window_id: int) -> None:
        """`send` sends a request to the server, `opcode` is Present's."""
        self.is_pending = False
        self._send = send
        self._opcode = opcode
        self._window_id = window_id
        self._serial = 0
        self._msc = -1  # the count of vertical blanks at the last tick
        self._ust = 0  # its time, in us

    def request(self) -> None:
        """Requests the next tick, unless a request is pending."""
        if self.is_pending:
            return
        self._serial = self._serial % 0xFFFFFFFF + 1
        self._send(struct.pack("=xBxxIIIQQQ", _NOTIFY_MSC, self._window_id, self._serial, 0, 0, 1, 0))
        self.is_pending = True

    def take(self, event: Event | XError) -> Blank | None:
        """Returns the tick that the event reports, or None.

        SurfaceLostError: the window is gone. XError: the server refused the request.
        """
        if isinstance(event, XError):
            if event.code == BAD_WINDOW:
                raise SurfaceLostError(f"there is no window 0x{self._window_id:x}: {event}")
            raise event
        if event.is_sent:  # untrusted: another client may send any event
            return None
        if event.kind == _DESTROY_NOTIFY and struct.unpack_from("=I", event.packet, 8)[0] == self._window_id:
            raise SurfaceLostError(f"the window 0x{self._window_id:x} was destroyed")
        if event.kind != GENERIC_EVENT or len(event.packet) < _COMPLETE_NOTIFY_SIZE:
            return None
        opcode, number, kind = struct.unpack_from("=xB6xHB", event.packet)
        if (opcode, number, kind) != (self._opcode, _COMPLETE_NOTIFY, _OF_NOTIFY_MSC):
            return None
        window_id, serial, ust, msc = struct.unpack_from("=IIQQ", event.packet, 16)
        if (window_id, serial) != (self._window_id, self._serial) or not self.is_pending:
            return None
        self.is_pending = False
        # The same blank again, or a time that the server does not know.
        if msc == self._msc or ust <= self._ust:
            return None
        self._msc, self._ust = msc, ust
        return Blank(int(ust) * 1000, int(msc))


class X11PresentSource(VsyncSource):
    """The vertical blanks of the monitor that an X11 window is on, as the X server reports them (Present 1.0).

    It has its own connection to the server, and survives the server's exit. The server stamps each
    blank in microseconds of CLOCK_MONOTONIC; without a monitor (Xvfb, a window on no monitor) the
    server uses a timer.

    Parameters
    ----------
    window
        A vks.Window or an X11 window's id; None: the root window. It stays its creator's.
    display_name
        The X server, e.g. ``":0"``; None: the Window's own, or the value of DISPLAY.

    Raises
    ------
    UnsupportedError
        There is no X server (DISPLAY is not set, or the window is a Wayland window), it is not
        reached by a local socket, it lacks Present, or libxcb is missing.
    SurfaceLostError
        No such server or window.
    """

    kind = KIND

    def __init__(self, window: Window | int | None = None, *, display_name: str | None = None) -> None:
        window_id, name = _resolve(window, display_name)
        try:
            self._x = X11Connection(name)
        except ValueError as error:
            if display_name is not None:
                raise
            raise UnsupportedError(KIND, str(error), "see DISPLAY") from None
        with on_error(self._x.close):
            opcode = _open_present(self._x)
            self.window_id = window_id or int(self._x.setup.roots[self._x.screen].root)
            self._requests = MscRequests(self._send(opcode), opcode, self.window_id)
            try:
                self._select_events()
                interval = randr.interval_of(self._x, self.window_id)
            except XError as error:
                raise SurfaceLostError(f"there is no window 0x{self.window_id:x}: {error}") from None
        super().__init__(interval)

    def _select_events(self) -> None:
        """Selects the window's events: vertical blanks, and its destruction."""
        with self._x.use():
            self._x.core.ChangeWindowAttributes(self.window_id, _EVENT_MASK, [_STRUCTURE_NOTIFY])
            self._x.present.SelectInput(self._x.generate_id(), self.window_id, _COMPLETE_NOTIFY_MASK)
        self._x.sync()
        while (event := self._x.next_event()) is not None:
            if isinstance(event, XError):
                raise event

    def _send(self, opcode: int) -> Callable[[bytes], object]:
        x = self._x

        def send(request: bytes) -> None:
            with x.lock:
                x.send(request, opcode)
                x.flush()  # does not block, because only one small request is pending at a time

        return send

    def _begin(self) -> None:
        """Drops answers to requests of an earlier run, and requests the next blank, unless that is pending."""
        while (event := self._x.next_event()) is not None:
            if self._requests.take(event) is not None:
                self._count_ignored()
        self._requests.request()

    def _next(self, run: Run) -> Blank | None:
        event = self._x.next_event()
        if event is None:
            run.wait(None, self._x.fd)
            return None
        blank = self._requests.take(event)
        if blank is None and not self._requests.is_pending:
            self._count_ignored()
            run.wait(_RETRY_DELAY)
        if not run.is_over:
            self._requests.request()
        return blank

    def _release(self) -> None:
        self._x.close()

    def _where(self) -> str:
        return f"of window 0x{self.window_id:x} on {self._x.display_name!r}"


def _resolve(window: Any, display_name: str | None) -> tuple[int, str]:
    """Returns the window's id, or 0 for the root window, and the display name."""
    if display_name is not None:
        display_name = arguments.text("display_name", display_name)
    if window is None or isinstance(window, int):
        window_id = 0 if window is None else arguments.integer("window", window, 1, 2**32 - 1)
        display_name = os.environ.get("DISPLAY", "") if display_name is None else display_name
        if not display_name:
            raise UnsupportedError(KIND, "DISPLAY is not set", "the software timer ticks without a window system")
        return window_id, display_name
    from vkshare.window.window import Window

    if not isinstance(window, Window):
        raise TypeError(f"window must be a vkshare.Window, an X11 window id or None, not {type(window).__name__}")
    if window.platform != "x11":
        raise UnsupportedError(KIND, f"the window is on {window.platform}", "the software timer ticks there")
    return window.native_window, window.display_name if display_name is None else display_name


def _open_present(x: X11Connection) -> int:
    """Returns Present's major opcode."""
    if not x.is_local:
        raise UnsupportedError(KIND, f"the X server {x.display_name!r} is not local: its clock is another machine's")
    found = x.extension("Present")
    if found is None:
        raise UnsupportedError(KIND, f"the X server {x.display_name!r} has no Present extension")
    x.reply(x.present.QueryVersion(1, 0))
    return found[0]
