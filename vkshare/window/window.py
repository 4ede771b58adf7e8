"""Windows on the screen, through GLFW: X11 and Wayland."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, Protocol, Self

from vkshare.errors import ClosedError, VkshareError
from vkshare.util import arguments, hooks
from vkshare.util.closing import FlagClosing, destructor
from vkshare.window import glfw_connection
from vkshare.window.events import Collector, Event

LARGEST = 32767  # pixels a side: X11 counts coordinates in 16 bits

# Longest that poll() sleeps without asking the window system: where a driver's thread reads the
# same connection, as Vulkan's do on X11, events may have come without the connection showing it.
_SLICE = 0.05


class Dependent(Protocol):
    """An object that shows pictures in a window, and must be closed before it."""

    @property
    def is_closed(self) -> bool: ...

    def close(self) -> None: ...

    def _follow(self, width: int, height: int) -> None:
        """The framebuffer has another size, in pixels; called in the middle of a poll()."""


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """A snapshot of a window's counters."""

    polls: int  # calls of poll()
    events: int  # that poll() returned
    merged: int  # events that were merged into the one after them
    pending: int  # that the next poll() returns
    resizes: int  # times that the size of the framebuffer changed
    dependents: int  # swapchains and the like that are open on it


class Window(FlagClosing):
    """A window on the screen.

    Main thread only, except for the properties, which any thread may read: they tell what the last
    ``poll()`` saw.

    Parameters
    ----------
    width, height
        Size of the inside in window units, 1 to 32767. Window units are pixels on X11; on Wayland, and wherever the
        system scales windows, a unit may be several pixels.
    title
        What the window manager shows.
    resizable
        Whether the user may resize it.
    visible
        False makes a window that is never shown.

    Raises
    ------
    UnsupportedError
        There is no display, or no window can be made on it. It says why.
    RuntimeError
        Called in another thread than the main thread.
    InvalidCallError
        Called in a process that was forked from one with windows.
    SurfaceLostError
        The window system went away meanwhile.

    Examples
    --------
    >>> with vks.Window(640, 480, "example") as window:  # doctest: +SKIP
    ...     while not window.should_close:
    ...         events = window.poll(1 / 60)
    """

    _unpicklable = "it belongs to the process that shows it"
    _remote_target: Any = None  # of a window at a viewer: the target of its swapchains

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        # In a program that `vkshare remote` has started, its windows open at the viewer.
        return super().__new__(hooks.remote_window() if cls is Window and os.environ.get("VKSHARE_REMOTE") else cls)

    def __init__(
        self, width: int, height: int, title: str = "", *, resizable: bool = True, visible: bool = True
    ) -> None:
        self._closed = True  # for __del__, until there is something to close
        width, height = _side("width", width), _side("height", height)
        self._title = arguments.text("title", title)
        resizable, visible = arguments.flag("resizable", resizable), arguments.flag("visible", visible)
        glfw_connection.refuse_other_threads("vks.Window")
        self._connection = connection = glfw_connection.connect()
        made = connection.create(width, height, self._title, resizable, visible)
        self._window = made
        self._handle = glfw_connection.address(made)
        self._dependents: weakref.WeakSet[Dependent] = weakref.WeakSet()
        self._polls = self._taken = 0
        self._state = _State(connection.glfw, made, self._dependents)
        self._native = self._find_native()
        self._refresh_rate = self._find_refresh_rate()
        connection.windows[self._handle] = self
        self._closed = False

    # ---- what it is

    @property
    def handle(self) -> int:
        """The address of the GLFWwindow. ``glfw_window`` is the same for the functions of the glfw package."""
        self._check()
        return self._handle

    @property
    def glfw_window(self) -> Any:
        """The window as the glfw package has it, e.g. for ``glfw.set_window_pos()``. Leave its callbacks alone."""
        self._check()
        return self._window

    @property
    def platform(self) -> str:
        """The window system: "x11", "wayland", or "null" for none."""
        return self._connection.platform

    @property
    def display_name(self) -> str:
        """The display that it is on, e.g. ":0" or "wayland-0", for a connection of one's own."""
        return self._connection.displays[self.platform == "wayland"]

    @property
    def native_display(self) -> int:
        """The address of the connection that the window belongs to: an Xlib Display, or a wl_display; else 0."""
        self._check()
        return self._connection.display

    @property
    def native_window(self) -> int:
        """The window system's handle: on X11 the XID, on Wayland the address of the wl_surface; else 0."""
        self._check()
        return self._native

    @property
    def title(self) -> str:
        """The title that the window manager shows. Set it in the main thread only."""
        return self._title

    @title.setter
    def title(self, title: str) -> None:
        title = arguments.text("title", title)
        self._enter("Window.title")
        self._title = title
        with glfw_connection.errors_of(self._connection.glfw):
            self._connection.glfw.set_window_title(self._window, title)

    # ---- its state, as of the last poll()

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the inside in window units."""
        self._check()
        return self._state.size

    @property
    def framebuffer_size(self) -> tuple[int, int]:
        """(width, height) of the inside in pixels; (0, 0) where a minimised window has none."""
        self._check()
        return self._state.framebuffer_size

    @property
    def scale(self) -> tuple[float, float]:
        """(x, y): what the user wants text and the like to be enlarged by; 1.0 at 96 dots an inch."""
        self._check()
        return self._state.scale

    @property
    def refresh_rate(self) -> float:
        """Pictures a second of the primary display, in Hz; 60 where it does not tell."""
        return self._refresh_rate

    @property
    def should_close(self) -> bool:
        """Whether the user has asked to close the window. It stays open until close()."""
        self._check()
        return self._state.should_close

    @property
    def is_minimized(self) -> bool:
        """Whether it is minimised. X11 keeps the size of such a window."""
        self._check()
        return self._state.is_minimized

    # ---- what one does with it

    def poll(self, timeout: float | None = 0) -> list[Event]:
        """Returns the events since the last call, oldest first, after bringing the properties up to date.

        Events of all windows are received, and each window keeps its own for its own ``poll()``.

        Parameters
        ----------
        timeout
            Seconds to wait for the first event; 0 returns at once, None waits for ever. Ctrl-C ends the wait.

        Raises
        ------
        SurfaceLostError
            The window system has gone away. ``close()`` works, and a new Window connects anew.
        ClosedError, RuntimeError
            After close(); in another thread than the main thread.
        """
        seconds = arguments.timeout(timeout)
        self._enter("Window.poll()")
        self._polls += 1
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            self._connection.dispatch()
            events = self._state.collector.take()
            left = _SLICE if deadline is None else min(_SLICE, deadline - time.monotonic())
            if events or left <= 0:
                self._taken += len(events)
                return events
            self._connection.wait(left)

    def resize(self, width: int, height: int) -> None:
        """Asks for another size. The window manager may refuse; poll() tells.

        Where the window has its size at once, the next frame that its swapchains acquire has it
        too.

        Parameters
        ----------
        width, height
            Window units, 1 to 32767.
        """
        width, height = _side("width", width), _side("height", height)
        self._enter("Window.resize()")
        glfw = self._connection.glfw
        with glfw_connection.errors_of(glfw):
            glfw.set_window_size(self._window, width, height)
            pixels = glfw.get_framebuffer_size(self._window)
        self._connection.check()
        self._state.tell_dependents(*pixels)

    def close(self) -> None:
        """Takes it off the screen, after closing the swapchains on it. Idempotent; works without its window system.

        Raises
        ------
        RuntimeError
            Called in another thread than the main thread.
        InvalidCallError
            Called in a forked child: the window is its parent's.
        """
        if self._closed:
            return
        glfw_connection.refuse_other_threads("Window.close()")
        glfw_connection.refuse_fork(self._connection.pid)
        for dependent in list(self._dependents):
            dependent.close()
        self._closed = True
        self._connection.destroy(self._handle)

    def statistics(self) -> WindowStatistics:
        """Returns a snapshot of the counters."""
        events, shown = self._state.collector, sum(not each.is_closed for each in self._dependents)
        return WindowStatistics(self._polls, self._taken, events.merged, len(events), self._state.resizes, shown)

    # ---- for the package

    def _look(self) -> bool:
        """Whether the window system has gone away; notifies the window's dependents then. Any thread."""
        return self._connection.is_lost(look=True)

    def _add_dependent(self, dependent: Dependent) -> None:
        """Notifies it of each new size, and closes it before the window: a surface must not outlive its window."""
        self._check()
        self._dependents.add(dependent)

    def _remove_dependent(self, dependent: Dependent) -> None:
        """It is shown elsewhere from now on."""
        self._dependents.discard(dependent)

    def _lose_dependents(self) -> None:
        """The connection is lost: what draws says so from now on. In any thread; takes no lock."""
        for dependent in list(self._dependents):
            lose = getattr(dependent, "_lose", None)
            if lose is not None:
                lose()

    def _free_dependents(self) -> None:
        """The connection goes away under this window: what draws to it lets go of it, and may go on with another."""
        for dependent in list(self._dependents):
            let_go = getattr(dependent, "_let_go", dependent.close)
            let_go()

    def _find_refresh_rate(self) -> float:
        glfw = self._connection.glfw
        with glfw_connection.errors_of(glfw):  # there may be no display at all
            monitor = glfw.get_primary_monitor()
            mode = glfw.get_video_mode(monitor) if monitor else None
        return float(mode.refresh_rate) if mode and mode.refresh_rate else 60.0

    def _find_native(self) -> int:
        glfw = self._connection.glfw
        if self.platform == "x11":
            return int(glfw.get_x11_window(self._window))
        return glfw_connection.address(glfw.get_wayland_window(self._window)) if self.platform == "wayland" else 0

    def _enter(self, what: str) -> None:
        glfw_connection.refuse_other_threads(what)
        self._check()

    def _check(self) -> None:
        # Sizes are read once a frame: what costs time is done now and then.
        if self._closed:
            raise ClosedError("this Window was closed")
        if time.monotonic() >= self._connection.fine_until:
            self._connection.check()

    @destructor
    def __del__(self) -> None:
        try:
            lost = not self._closed and self._connection.pid == os.getpid() and not sys.is_finalizing()
        except AttributeError:
            return  # refused for its arguments, or the interpreter is shutting down
        if not lost:
            return
        warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
        if threading.current_thread() is threading.main_thread():
            with contextlib.suppress(Exception):
                self.close()
        else:
            self._closed = True
            self._connection.abandon(self._handle)

    def __repr__(self) -> str:
        if self._closed:
            return f"<vkshare.Window {self._title!r} closed>"
        (width, height), state = self._state.framebuffer_size, self._state
        lost = ", lost" if self._connection.is_lost() else ""
        asked = ", asked to close" if state.should_close else ""
        small = ", minimised" if state.is_minimized else ""
        return f"<vkshare.Window {self._title!r} {width}x{height} pixels, {self.platform}{small}{asked}{lost}>"


class _State:
    """The state that GLFW's callbacks of one window update.

    They refer to it, not to the Window, so that the Window can be collected.
    """

    def __init__(self, glfw: Any, window: Any, dependents: weakref.WeakSet[Dependent]) -> None:
        self._glfw = glfw
        self._dependents = dependents
        self.collector = Collector()
        self.resizes = 0
        self.should_close = False
        self.is_minimized = bool(glfw.get_window_attrib(window, glfw.ICONIFIED))
        self.size: tuple[int, int] = tuple(glfw.get_window_size(window))
        self.framebuffer_size: tuple[int, int] = tuple(glfw.get_framebuffer_size(window))
        self.scale: tuple[float, float] = tuple(glfw.get_window_content_scale(window))
        self._keys = {getattr(glfw, f"KEY_{name}"): key for name, key in _KEYS.items()}
        glfw.set_window_size_callback(window, self._on_size)
        glfw.set_framebuffer_size_callback(window, self._on_framebuffer_size)
        glfw.set_window_content_scale_callback(window, self._on_scale)
        glfw.set_window_close_callback(window, self._on_close)
        glfw.set_window_iconify_callback(window, self._on_iconify)
        glfw.set_cursor_pos_callback(window, self._on_pointer)
        glfw.set_cursor_enter_callback(window, lambda _, is_inside: self.collector.pointer_cross(bool(is_inside)))
        glfw.set_mouse_button_callback(window, self._on_button)
        glfw.set_scroll_callback(window, lambda _, right, up: self.collector.wheel(right, up))
        glfw.set_key_callback(window, self._on_key)
        glfw.set_char_callback(window, lambda _, code: self.collector.char(chr(code)))

    def _on_size(self, window: Any, width: int, height: int) -> None:
        self.size = (width, height)

    def _on_framebuffer_size(self, window: Any, width: int, height: int) -> None:
        self.framebuffer_size = (width, height)
        self.resizes += 1
        self._tell_size()
        self.tell_dependents(width, height)

    def tell_dependents(self, width: int, height: int) -> None:
        """The window has so many pixels."""
        for dependent in list(self._dependents):
            with contextlib.suppress(VkshareError):  # one that was closed, or lost its device, needs no size
                dependent._follow(width, height)

    def _on_scale(self, window: Any, x: float, y: float) -> None:
        self.scale = (x, y)
        self._tell_size()

    def _tell_size(self) -> None:
        (width, height), ratio = self.framebuffer_size, self.scale[0] or 1.0
        self.collector.resize(width / ratio, height / ratio, ratio)

    def _on_close(self, window: Any) -> None:
        self.should_close = True
        self.collector.close()

    def _on_iconify(self, window: Any, is_minimized: int) -> None:
        self.is_minimized = bool(is_minimized)

    def _on_pointer(self, window: Any, x: float, y: float) -> None:
        # GLFW tells window units, the event has logical pixels: on X11 the former are pixels.
        ratio = self.scale[0] or 1.0
        (width, height), (across, down) = self.framebuffer_size, self.size
        self.collector.pointer_move(x * width / (ratio * (across or 1)), y * height / (ratio * (down or 1)))

    def _on_button(self, window: Any, button: int, action: int, modifiers: int) -> None:
        self.collector.pointer_button(button + 1, action == self._glfw.PRESS)

    def _on_key(self, window: Any, key: int, scancode: int, action: int, modifiers: int) -> None:
        if action == self._glfw.REPEAT:
            return  # rendercanvas has none; what is typed repeats as "char"
        name = self._keys.get(key)
        if name is None:
            with glfw_connection.errors_of(self._glfw):
                name = self._glfw.get_key_name(key, scancode)  # as the layout has it, without Shift
        if isinstance(name, bytes):
            name = name.decode(errors="replace")
        self.collector.key(name or "Unidentified", action == self._glfw.PRESS)


# The end of GLFW's name of a key -> KeyboardEvent.key of the web.
_KEYS = {"KP_ENTER": "Enter", "MENU": "ContextMenu", "SPACE": " "}
for _key in (
    *("BACKSPACE", "CAPS_LOCK", "DELETE", "END", "ENTER", "ESCAPE", "HOME", "INSERT", "NUM_LOCK", "PAGE_DOWN"),
    *("PAGE_UP", "PAUSE", "PRINT_SCREEN", "SCROLL_LOCK", "TAB", *(f"F{number}" for number in range(1, 26))),
):
    _KEYS[_key] = _key.title().replace("_", "")
for _key in ("DOWN", "LEFT", "RIGHT", "UP"):
    _KEYS[_key] = f"Arrow{_key.title()}"
for _key, _name in (("SHIFT", "Shift"), ("CONTROL", "Control"), ("ALT", "Alt"), ("SUPER", "Meta")):
    _KEYS |= {f"LEFT_{_key}": _name, f"RIGHT_{_key}": _name}


def _side(name: str, value: Any) -> int:
    return arguments.integer(name, value, 1, LARGEST)
