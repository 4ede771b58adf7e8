"""GLFW and the connection to the window system that it holds: one a process, from the first window on.

Main thread only, but for ``Connection.is_lost``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import logging
import math
import os
import select
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vkshare.errors import InvalidCallError, SurfaceLostError, UnsupportedError
from vkshare.window import x11_errors

if TYPE_CHECKING:
    from vkshare.window.window import Window

_log = logging.getLogger("vkshare.window")

_WAYLAND_LIBRARIES = ("libwayland-client.so.0", "libwayland-cursor.so.0", "libwayland-egl.so.1", "libxkbcommon.so.0")
_LOOK_AGAIN = 0.2  # seconds between two looks at whether the connection still stands, see is_lost()
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


def load() -> Any:
    """The glfw package, with the library that fits the display: PyPI's has one for X11 and one for Wayland."""
    if "glfw" in sys.modules or "PYGLFW_LIBRARY_VARIANT" in os.environ:
        return _import()
    os.environ["PYGLFW_LIBRARY_VARIANT"] = "wayland" if _prefers_wayland() else "x11"
    try:
        return _import()
    finally:
        del os.environ["PYGLFW_LIBRARY_VARIANT"]  # it is read at import; children choose for themselves


def _import() -> Any:
    try:
        return importlib.import_module("glfw")
    except ImportError as error:
        raise UnsupportedError("vks.Window", f"the glfw package cannot be used ({error})", "pip install glfw") from None


def _prefers_wayland() -> bool:
    """Whether to show windows through Wayland: where it is, and X11 is not the only one that can work."""
    if not os.environ.get("WAYLAND_DISPLAY"):
        return False
    if not os.environ.get("DISPLAY"):
        return True
    try:
        for name in _WAYLAND_LIBRARIES:  # GLFW wants them all
            ctypes.CDLL(name)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def errors_of(glfw: Any) -> Iterator[list[tuple[int, str]]]:
    """GLFW's errors in the body go into the list: (code, text). The callback that was set before is put back."""
    found: list[tuple[int, str]] = []

    def tell(code: int, text: bytes) -> None:
        found.append((code, text.decode(errors="replace")))

    previous = glfw.set_error_callback(tell)
    try:
        yield found
    finally:
        glfw.set_error_callback(previous)
        for code, text in found:
            _log.info("GLFW error 0x%x: %s", code, text)


def said(found: list[tuple[int, str]]) -> str:
    """The errors as one line."""
    return "; ".join(text for _, text in found) or "GLFW does not say why"


def _displays() -> tuple[str, str]:
    return os.environ.get("DISPLAY", ""), os.environ.get("WAYLAND_DISPLAY", "")


def refuse_other_threads(what: str) -> None:
    """RuntimeError anywhere but in the main thread: GLFW, and some window systems, work nowhere else."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(f"{what} works in the main thread only, and this is {threading.current_thread().name}")


class Connection:
    """GLFW from init to terminate, with the windows that vkshare made on it."""

    def __init__(self) -> None:
        self.glfw = glfw = load()
        self.pid = os.getpid()
        self.displays = _displays()
        with errors_of(glfw) as found:
            self.is_ours = not _is_initialised(glfw)
            if self.is_ours:
                found.clear()
                if not glfw.init():
                    raise UnsupportedError("vks.Window", said(found), self._hint())
        self.platform = self._find_platform()
        self.display, self._fd = self._find_display()
        self._inode = _inode(self._fd)
        self._poller = select.poll()
        if self._fd >= 0:
            self._poller.register(self._fd, select.POLLIN)
        self._is_lost = False
        self.fine_until = 0.0  # time.monotonic() of the next check; -inf once the display is lost
        self.has_ended = False
        self.windows: weakref.WeakValueDictionary[int, Window] = weakref.WeakValueDictionary()
        self._open: dict[int, Any] = {}  # handle -> what the glfw package calls a window
        self._orphans: list[int] = []  # handles of windows that were lost in another thread

    def _hint(self) -> str:
        if not any(self.displays):
            return "set DISPLAY or WAYLAND_DISPLAY, or draw without a window: vks.Headless"
        if self.displays[0] and "wayland" in str(self.glfw.get_version_string()).lower():
            return "glfw was imported with its Wayland library; PYGLFW_LIBRARY_VARIANT=x11 selects the other"
        if not self.displays[0]:
            return "glfw was imported with its X11 library; PYGLFW_LIBRARY_VARIANT=wayland selects the other"
        return "or draw without a window: vks.Headless"

    def _find_platform(self) -> str:
        glfw = self.glfw
        if not hasattr(glfw, "get_platform"):  # GLFW before 3.4 has one platform a library
            return "x11" if hasattr(glfw, "get_x11_display") else "wayland"
        names = {"X11": "x11", "WAYLAND": "wayland", "NULL": "null", "COCOA": "cocoa", "WIN32": "win32"}
        numbers = {getattr(glfw, f"PLATFORM_{name}"): ours for name, ours in names.items()}
        return numbers.get(glfw.get_platform(), "unknown")

    def _find_display(self) -> tuple[int, int]:
        """(address, file descriptor) of the connection; (0, -1) where the platform has none."""
        if self.platform == "x11":
            display = address(self.glfw.get_x11_display())
            return display, x11_errors.connection_fd(display)
        if self.platform == "wayland":
            display = address(self.glfw.get_wayland_display())
            client = ctypes.CDLL(_WAYLAND_LIBRARIES[0])
            client.wl_display_get_fd.argtypes = [ctypes.c_void_p]
            return display, int(client.wl_display_get_fd(display))
        return 0, -1

    # ---- windows

    def create(self, width: int, height: int, title: str, resizable: bool, visible: bool) -> Any:
        """A window without a client API, as the glfw package has them."""
        glfw = self.glfw
        self.guard()
        try:
            with errors_of(glfw) as found:
                glfw.default_window_hints()
                glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
                glfw.window_hint(glfw.RESIZABLE, resizable)
                glfw.window_hint(glfw.VISIBLE, visible)
                made = glfw.create_window(width, height, title, None, None)
                glfw.default_window_hints()  # the next window of an engine is not to inherit ours
            if not made:
                self.check()
                raise UnsupportedError(f"a window of {width}x{height}", said(found))
            self._open[address(made)] = made
            if self.is_lost(look=True):
                self.destroy(address(made))
                self.check()
            return made
        finally:
            self.unguard()

    def destroy(self, handle: int) -> None:
        """Destroys a window; the last one of a lost connection takes GLFW with it."""
        made = self._open.pop(handle, None)
        self.windows.pop(handle, None)
        if made is None or self._ends_with_glfw():
            return
        with errors_of(self.glfw):
            self.glfw.destroy_window(made)
        if self.is_lost(look=True) and self.is_ours and not self._open:
            self.end()
        self.unguard()

    def abandon(self, handle: int) -> None:
        """For a window that was lost in a thread which may not destroy it: the main thread will, at its next call."""
        self._orphans.append(handle)

    def destroy_abandoned(self) -> None:
        """Destroys the abandoned windows."""
        while self._orphans:
            self.destroy(self._orphans.pop())

    # ---- events

    def dispatch(self) -> None:
        """Hands every event that has come to the callbacks of its window. SurfaceLostError."""
        self.destroy_abandoned()
        if self._poller.poll(0):
            self.check(look=True)  # more often than not there are events and nothing else
        glfw = self.glfw
        # As errors_of(), at a tenth of its cost. Errors of GLFW are ignored here.
        reporting, glfw.ERROR_REPORTING = glfw.ERROR_REPORTING, "ignore"
        try:
            glfw.poll_events()
        finally:
            glfw.ERROR_REPORTING = reporting
        if self._is_lost:
            self.check()

    def wait(self, seconds: float) -> None:
        """Until something comes, or so long. A signal's handler runs at once.

        GLFW's own wait would spin for ever on a connection that is gone, and Ctrl-C would not get
        through to it.
        """
        self._poller.poll(seconds * 1000)

    # ---- loss

    def is_lost(self, *, look: bool = False) -> bool:
        """Whether the window system has gone away.

        Any thread. Checks the connection from time to time, or if `look` is true.
        """
        if self._is_lost or self._fd < 0 or self.has_ended:
            return self._is_lost
        now = time.monotonic()
        if look or now >= self.fine_until:
            self.fine_until = now + _LOOK_AGAIN
            poller = select.poll()  # of this call's own: one may not be used by two threads
            poller.register(self._fd, 0)
            if any(event & _GONE for _, event in poller.poll(0)) or _inode(self._fd) != self._inode:
                self._note_loss()
        return self._is_lost

    def check(self, *, look: bool = False) -> None:
        """SurfaceLostError if the window system has gone away; InvalidCallError in a forked child."""
        refuse_fork(self.pid)
        if self.is_lost(look=look):
            name = self.displays[0] if self.platform == "x11" else self.displays[1]
            raise SurfaceLostError(
                f"the {self.platform} display {name} has gone away: close this window; a new one connects again"
            )

    def _note_loss(self) -> None:
        """In any thread; Xlib's handler calls it in the middle of a call of the driver's, so nothing here waits."""
        is_new, self._is_lost = not self._is_lost, True
        self.fine_until = -math.inf
        for window in list(self.windows.values()) if is_new else ():
            window._lose_dependents()

    def guard(self) -> None:
        """Keeps the end of the X server from ending the process, while there are windows."""
        if self.platform == "x11" and not self._open:
            x11_errors.install(self.display, self._note_loss)

    def unguard(self) -> None:
        if not self._open and not self.has_ended:
            x11_errors.uninstall()

    def end(self) -> None:
        """Terminates GLFW, after the swapchains of its windows, which may use the connection, are closed."""
        for window in list(self.windows.values()):
            window._free_dependents()
        if self._ends_with_glfw():
            return
        self.guard()  # GLFW closes its display: where that is dead, Xlib would exit
        with errors_of(self.glfw):
            self.glfw.terminate()
        self._forget()

    def _ends_with_glfw(self) -> bool:
        """Whether GLFW was terminated, perhaps by other code: then its windows and its display are gone."""
        if not self.has_ended and not (_is_initialised(self.glfw) and _inode(self._fd) == self._inode):
            self._note_loss()
            self._forget()
        return self.has_ended

    def _forget(self) -> None:
        self.has_ended = True
        self._open.clear()
        x11_errors.uninstall(is_display_closed=True)


_connection: Connection | None = None


def _after_fork() -> None:
    if _connection is not None:
        _connection.fine_until = -math.inf


os.register_at_fork(after_in_child=_after_fork)


def connect() -> Connection:
    """The process's connection, made anew where the old one is lost or the environment now names another display.

    Raises
    ------
    UnsupportedError
        There is no display, or GLFW cannot use it.
    SurfaceLostError
        The display has gone away, and vkshare has not initialised GLFW: the code that did must terminate it.
    InvalidCallError
        This process was forked from one that has windows.
    """
    global _connection
    current = _connection
    if current is not None:
        refuse_fork(current.pid)
        if not current._ends_with_glfw():
            current.destroy_abandoned()
            is_lost = current.is_lost(look=True)
            if not is_lost and (current._open or not current.is_ours or current.displays == _displays()):
                return current
            if current.is_ours:
                current.end()
    _connection = None
    made = Connection()
    if made.is_lost(look=True):
        raise SurfaceLostError(
            "the display has gone away, and GLFW was not initialised by vkshare: call glfw.terminate() first"
        )
    _connection = made
    return made


def refuse_fork(pid: int) -> None:
    """InvalidCallError in a child that was forked from process `pid`, which has the connection."""
    if pid != os.getpid():
        raise InvalidCallError(
            f"process {pid} connected to the window system before os.fork(): use its windows there; processes with "
            'windows of their own are started with multiprocessing.get_context("spawn")'
        )


def _inode(fd: int) -> int:
    """Tells one connection from the next, which may well get the same number, and the same address for its display."""
    try:
        return os.fstat(fd).st_ino
    except OSError:
        return 0


def _is_initialised(glfw: Any) -> bool:
    with errors_of(glfw) as found:
        glfw.get_primary_monitor()
    return all(code != glfw.NOT_INITIALIZED for code, _ in found)


def address(pointer: Any) -> int:
    """Return the address of a ctypes pointer, or of ctypes' result for a void pointer."""
    if pointer is None or isinstance(pointer, int):
        return pointer or 0
    return int(ctypes.cast(pointer, ctypes.c_void_p).value or 0)
