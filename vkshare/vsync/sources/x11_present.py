"""X11's Present extension as a source: the server is asked to tell of each vertical blank (PresentNotifyMSC)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare import _arguments
from vkshare.errors import SurfaceLostError, UnsupportedError
from vkshare.present._x11_connection import BAD_WINDOW, GENERIC_EVENT, Event, X11Connection, XError
from vkshare.vsync.sources import randr
from vkshare.vsync.sources.base import VsyncSource
from vkshare.vsync.sources.run import Blank, Run

if TYPE_CHECKING:
    from vkshare.present.window import Window

KIND = "x11-present"
_NOTIFY_MSC = 2  # the request's number in Present
_COMPLETE_NOTIFY, _OF_NOTIFY_MSC = 1, 1  # the event's, and what was completed
_COMPLETE_NOTIFY_MASK = 1 << 1
_COMPLETE_NOTIFY_SIZE = 40
_DESTROY_NOTIFY, _STRUCTURE_NOTIFY, _EVENT_MASK = 17, 1 << 17, 1 << 11
_RETRY_DELAY = 0.004  # seconds before the server is asked again when its answer was no tick: it may answer at once


class MscRequests:
    """What is asked of the server, and which of its answers are ticks. No connection and no clock.

    One question is out at a time: for the next vertical blank after the server reads it (divisor 1). Naming a count
    that has gone by would be answered at once, with the time of the answer (seen with Xvfb).
    """

    def __init__(self, send: Callable[[bytes], object], opcode: int, window_id: int) -> None:
        """`send` gives the server a request, `opcode` is Present's."""
        self.is_pending = False
        self._send = send
        self._opcode = opcode
        self._window_id = window_id
        self._serial = 0
        self._msc = -1  # the count of vertical blanks at the last tick
        self._ust = 0  # its time, in us

    def request(self) -> None:
        """For the next tick, if that was not done."""
        if self.is_pending:
            return
        self._serial = self._serial % 0xFFFFFFFF + 1
        self._send(struct.pack("=xBxxIIIQQQ", _NOTIFY_MSC, self._window_id, self._serial, 0, 0, 1, 0))
        self.is_pending = True

    def take(self, event: Event | XError) -> Blank | None:
        """The tick that the event tells of, if it does.

        SurfaceLostError: the window is gone. XError: the server refuses.
        """
        if isinstance(event, XError):
            if event.code == BAD_WINDOW:
                raise SurfaceLostError(f"there is no window 0x{self._window_id:x}: {event}")
            raise event
        if event.is_sent:  # another client may send anything
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
        # The same blank again, with whatever time; or a time that the server does not know.
        if msc == self._msc or ust <= self._ust:
            return None
        self._msc, self._ust = msc, ust
        return Blank(int(ust) * 1000, int(msc))


class X11PresentSource(VsyncSource):
    """The vertical blanks of the monitor that an X11 window is on, as its server tells them (Present 1.0).

    It has a connection of its own to the server, whose end it survives. The server stamps each in microseconds of
    CLOCK_MONOTONIC; what has no monitor (Xvfb, a window that is not on any) it paces by a timer of its own.

    Parameters
    ----------
    window
        A vks.Window or an X11 window's id; None: the root window. Whoever made it, it stays theirs.
    display_name
        The X server, e.g. ``":0"``; None: the Window's own, or what DISPLAY says.

    Raises
    ------
    UnsupportedError
        There is no X server to ask (DISPLAY is not set, the window is Wayland's), it is not reached by a local socket,
        it lacks Present, or libxcb is missing.
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
        try:
            opcode = _open_present(self._x)
            self.window_id = window_id or int(self._x.setup.roots[self._x.screen].root)
            self._requests = MscRequests(self._send(opcode), opcode, self.window_id)
            try:
                self._select_events()
                interval = randr.interval_of(self._x, self.window_id)
            except XError as error:
                raise SurfaceLostError(f"there is no window 0x{self.window_id:x}: {error}") from None
        except BaseException:
            self._x.close()
            raise
        super().__init__(interval)

    def _select_events(self) -> None:
        """Has the server tell of the window's vertical blanks and of its end."""
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
                x.flush()  # no wait: one small request is out at a time

        return send

    def _begin(self) -> None:
        """A blank that was asked for in an earlier run may have been answered since. Its successor is asked for, or is
        out already."""
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
    """(window id or 0 for the root window, display name)."""
    if display_name is not None:
        display_name = _arguments.text("display_name", display_name)
    if window is None or isinstance(window, int):
        window_id = 0 if window is None else _arguments.integer("window", window, 1, 2**32 - 1)
        display_name = os.environ.get("DISPLAY", "") if display_name is None else display_name
        if not display_name:
            raise UnsupportedError(KIND, "DISPLAY is not set", "the software timer ticks without a window system")
        return window_id, display_name
    from vkshare.present.window import Window

    if not isinstance(window, Window):
        raise TypeError(f"window must be a vkshare.Window, an X11 window id or None, not {type(window).__name__}")
    if window.platform != "x11":
        raise UnsupportedError(KIND, f"the window is on {window.platform}", "the software timer ticks there")
    return window.native_window, window.display_name if display_name is None else display_name


def _open_present(x: X11Connection) -> int:
    """Present's major opcode."""
    if not x.is_local:
        raise UnsupportedError(KIND, f"the X server {x.display_name!r} is not local: its clock is another machine's")
    found = x.extension("Present")
    if found is None:
        raise UnsupportedError(KIND, f"the X server {x.display_name!r} has no Present extension")
    x.reply(x.present.QueryVersion(1, 0))
    return found[0]
