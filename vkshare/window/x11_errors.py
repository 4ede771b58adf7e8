"""Xlib's error handlers, set while vkshare's windows are open, so that the end of an X server is no end of the process.

Xlib calls exit() when it loses its connection, unless both the I/O error handler (one a process)
and the I/O error exit handler (one a display) are set and return. Errors of other displays, for
example an engine's, are passed to the previous handlers.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_log = logging.getLogger("vkshare.window")

_OnIOError = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_OnExit = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class _ErrorEvent(ctypes.Structure):
    """XErrorEvent of X11/Xlib.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("display", ctypes.c_void_p),
        ("resource", ctypes.c_ulong),
        ("serial", ctypes.c_ulong),
        ("error", ctypes.c_ubyte),
        ("request", ctypes.c_ubyte),
        ("minor", ctypes.c_ubyte),
    )


_OnError = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_ErrorEvent))


@dataclass
class _Guard:
    """The installed handlers: their display, the callback, and the previous handlers to restore."""

    display: int
    on_lost: Callable[[], None]
    previous_io: int = 0
    previous: int = 0


_guard: _Guard | None = None
# The handlers that ours have replaced, the oldest first. Never freed, because other code's handler
# may call ours.
_left: dict[Any, list[int]] = {}
_passing = threading.local()


def _xlib() -> Any:
    """libX11, the very copy that GLFW uses: both load it by this name."""
    xlib = ctypes.CDLL("libX11.so.6")
    for name in ("XSetIOErrorHandler", "XSetErrorHandler"):
        getattr(xlib, name).argtypes = [ctypes.c_void_p]
        getattr(xlib, name).restype = ctypes.c_void_p
    xlib.XConnectionNumber.argtypes = [ctypes.c_void_p]
    if hasattr(xlib, "XSetIOErrorExitHandler"):  # libX11 1.7
        xlib.XSetIOErrorExitHandler.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        xlib.XSetIOErrorExitHandler.restype = None
    return xlib


def connection_fd(display: int) -> int:
    """The file descriptor of a Display's connection, which stays Xlib's."""
    return int(_xlib().XConnectionNumber(display))


def install(display: int, on_lost: Callable[[], None]) -> None:
    """Sets the handlers for `display` (the address of a Display). on_lost() is called from any thread, once or more.

    One display at a time: GLFW has one. Main thread.
    """
    global _guard
    xlib = _xlib()
    if _guard is not None:
        uninstall()
    if not hasattr(xlib, "XSetIOErrorExitHandler"):
        _log.info("libX11 is older than 1.7: the process ends when the X server does")
        return
    # In place before the handlers that look at it.
    guard = _guard = _Guard(display, on_lost)
    guard.previous_io = _leave(_OnIOError, xlib.XSetIOErrorHandler(_address(_IO_ERROR)))
    guard.previous = _leave(_OnError, xlib.XSetErrorHandler(_address(_ERROR)))
    xlib.XSetIOErrorExitHandler(display, _address(_EXIT), None)


def uninstall(*, is_display_closed: bool = False) -> None:
    """Restores the previous handlers. `is_display_closed`: the Display's own handler is gone with it. Idempotent."""
    global _guard
    guard, _guard = _guard, None
    if guard is None:
        return
    xlib = _xlib()
    if not is_display_closed:
        xlib.XSetIOErrorExitHandler(guard.display, None, None)  # NULL: Xlib's default
    _put_back(xlib.XSetIOErrorHandler, guard.previous_io, _address(_IO_ERROR))
    _put_back(xlib.XSetErrorHandler, guard.previous, _address(_ERROR))


def _put_back(setter: Any, previous: int, ours: int) -> None:
    found = setter(previous)
    if found != ours:
        setter(found)  # other code has set a later one, which may call ours: it stays


def _leave(kind: Any, previous: int | None) -> int:
    known = _left.setdefault(kind, [])
    if previous and previous not in known:
        known.append(previous)
    return previous or 0


def _pass_on(kind: Any, *arguments: Any) -> int:
    """Calls the handler before ours; and where that one calls ours again, the one before it."""
    depth = getattr(_passing, "depth", 0)
    handlers = _left.get(kind, [])
    if depth >= len(handlers):
        return 0
    _passing.depth = depth + 1
    try:
        return int(kind(handlers[-1 - depth])(*arguments))
    finally:
        _passing.depth = depth


def _on_io_error(display: int) -> int:
    guard = _guard
    if guard is not None and display == guard.display:
        guard.on_lost()
        return 0
    return _pass_on(_OnIOError, display)


def _on_exit(display: int, data: int) -> None:
    """In place of exit(1). Called for our display only."""


def _on_error(display: int, event: Any) -> int:
    guard = _guard
    if guard is None or display != guard.display:
        return _pass_on(_OnError, display, event)
    found = event.contents
    _log.info("X error %d of request %d.%d for 0x%x", found.error, found.request, found.minor, found.resource)
    return 0


# Never freed: Xlib, or other code's handler, may call them at any time.
_IO_ERROR, _EXIT, _ERROR = _OnIOError(_on_io_error), _OnExit(_on_exit), _OnError(_on_error)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
