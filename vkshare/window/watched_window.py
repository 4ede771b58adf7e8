"""An X11 window of any creator, and the connection on which its end and the server's answers are noticed."""

from __future__ import annotations

import contextlib
import logging
import os
import struct
from collections import deque
from collections.abc import Iterator

from vkshare.errors import ClosedError, InvalidCallError, SurfaceLostError, UnsupportedError
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error
from vkshare.window.shm_segment import Token
from vkshare.window.x11_connection import BAD_DRAWABLE, BAD_WINDOW, Event, X11Connection, XError

_log = logging.getLogger("vkshare.present")

_DESTROY_NOTIFY, _CONFIGURE_NOTIFY = 17, 22
_STRUCTURE_NOTIFY = 1 << 17
_EVENT_MASK = 1 << 11  # CWEventMask
_XFIXES_VERSION = (6, 0)  # as Mesa states it


def unsupported_on_wayland() -> UnsupportedError:
    """Return the error for a Wayland window on the CPU backend."""
    return UnsupportedError(
        "showing CPU windows on Wayland",
        "pictures in memory are shown by X11's MIT-SHM, and GLFW draws nothing itself",
        "run under Xwayland (DISPLAY set, PYGLFW_LIBRARY_VARIANT=x11), or open a device on the Vulkan backend",
    )


class WatchedWindow(FlagClosing):
    """The connection to an X11 window's server: its lock, its events, and the errors of a window that is lost.

    Parameters
    ----------
    display_name
        The X server, e.g. ``":0"``; None: what DISPLAY says.
    window_id
        The window's X11 id.

    Raises
    ------
    SurfaceLostError
        No such server or window.
    UnsupportedError
        Wayland; libxcb is missing.
    """

    _unpicklable = "open one in the other process"

    def __init__(self, display_name: str | None, window_id: int) -> None:
        self._closed = True  # for __del__, until there is something to close
        self._pid = os.getpid()  # in a forked child even a disconnect would end the parent's connection
        if display_name is not None:
            display_name = arguments.text("display_name", display_name)
        elif not os.environ.get("DISPLAY"):
            if os.environ.get("WAYLAND_DISPLAY"):
                raise unsupported_on_wayland()
            raise UnsupportedError("an X11 window", "DISPLAY is not set", "start an X server, or use vks.Headless")
        self.window_id = arguments.integer("window_id", window_id, 1, 2**32 - 1)
        self._loss: str | None = None
        self._pending: deque[Token] = deque()
        self._completion = -1  # the number of MIT-SHM's event
        self._size = (0, 0)
        self._x = X11Connection(display_name)
        self._lock = self._x.lock
        with on_error(self._x.close), self._losing():
            self._set_up()
            self._watch()
        self._closed = False

    def _set_up(self) -> None:
        """Prepares the connection for a driver, before the window is watched.

        Mesa knows a connection by its address. It takes a new one at the address of a closed one
        for negotiated, and the server refuses XFIXES to a client that has stated no version.
        """
        if self._x.extension("XFIXES") is not None:
            self._x.ask(self._x.xfixes.QueryVersion, *_XFIXES_VERSION)

    def _watch(self) -> None:
        """Has the server report the window's sizes and its end."""
        with self._x.use():
            self._x.core.ChangeWindowAttributes(self.window_id, _EVENT_MASK, [_STRUCTURE_NOTIFY])
            cookie = self._x.core.GetGeometry(self.window_id)
        self._size = struct.unpack_from("=HH", self._x.reply(cookie), 16)
        self._x.sync()
        self._drain()
        self._check_found()

    @property
    def connection(self) -> int:
        """The address of the xcb_connection_t, valid until close()."""
        return self._x.address

    @property
    def size(self) -> tuple[int, int]:
        """The window's (width, height), as the server last reported it. Never waits."""
        with self._using():
            return self._size

    def geometry(self) -> tuple[int, int]:
        """The window's (width, height), asked of the server."""
        with self._using():
            cookie = self._x.core.GetGeometry(self.window_id)
        with self._losing():
            width, height = struct.unpack_from("=HH", self._x.reply(cookie), 16)
        return width, height

    def _drain(self) -> None:
        """Takes up what the server has said. Called with the lock."""
        try:
            while (event := self._x.next_event()) is not None:
                if isinstance(event, XError):
                    self._lose(f"the X server refused a picture: {event}")
                elif not event.is_sent:
                    self._take(event)
        except SurfaceLostError as error:
            self._lose(str(error))

    def _take(self, event: Event) -> None:
        if event.kind == _CONFIGURE_NOTIFY and struct.unpack_from("=I", event.packet, 8) == (self.window_id,):
            self._size = struct.unpack_from("=HH", event.packet, 20)
        elif event.kind == _DESTROY_NOTIFY and struct.unpack_from("=I", event.packet, 8) == (self.window_id,):
            self._lose(f"window 0x{self.window_id:x} was destroyed")
        elif event.kind == self._completion:
            # The server works in order: with this picture, all that were shown before are read.
            for count, token in enumerate(self._pending, 1):
                if token._sequence & 0xFFFF == event.sequence:
                    for _ in range(count):
                        self._pending.popleft()._is_done = True
                    break

    @property
    def is_lost(self) -> bool:
        """Whether the window or the X server is gone: nothing can be shown any more. Never waits."""
        self._refuse_in_forked_child()
        with self._lock:
            if not self._closed:
                self._drain()
            return self._loss is not None

    def _look(self) -> bool:
        """is_lost, as Window has it."""
        return self.is_lost

    def _lose(self, why: str) -> None:
        if self._loss is None:
            self._loss = why
            _log.info("%s", why)

    def _check_found(self) -> None:
        if self._loss is not None:
            raise SurfaceLostError(self._loss)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the {type(self).__name__} was closed")

    def close(self) -> None:
        """Disconnects. May be repeated."""
        self._refuse_in_forked_child()
        with self._lock:
            self._closed = True
            self._x.close()

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        """Round each public call: the lock, and the errors of a window that is closed, lost or in a forked child."""
        self._refuse_in_forked_child()
        with self._lock, self._losing():
            self._check_open()
            self._drain()
            self._check_found()
            yield

    @contextlib.contextmanager
    def _losing(self) -> Iterator[None]:
        """Turns the errors that mean a lost window into SurfaceLostError."""
        try:
            yield
        except XError as error:
            if error.code not in (BAD_WINDOW, BAD_DRAWABLE):
                raise
            self._lose(f"there is no window 0x{self.window_id:x}: {error}")
            self._check_found()
        except SurfaceLostError as error:
            self._lose(str(error))
            raise

    def _refuse_in_forked_child(self) -> None:
        if self._pid != os.getpid():
            raise InvalidCallError(
                f"this {type(self).__name__} was opened by process {self._pid}, before os.fork(): its connection to "
                "the X server is that process's; open another here"
            )
