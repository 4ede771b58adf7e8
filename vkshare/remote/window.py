"""vks.Window of a program that `vkshare remote` has started: the window is at the viewer."""

from __future__ import annotations

import os
import time
import weakref
from typing import Any

from vkshare.errors import ClosedError, UnsupportedError
from vkshare.remote.target import RemoteTarget
from vkshare.util import arguments
from vkshare.window.events import Event
from vkshare.window.window import Dependent, Window, WindowStatistics

_SLICE = 0.005  # seconds between two looks for events


class RemoteWindow(Window):
    """A vks.Window at the viewer. It opens there with its first swapchain, one at a time. For any thread."""

    def __init__(
        self, width: int, height: int, title: str = "", *, resizable: bool = True, visible: bool = True
    ) -> None:
        self._closed = True
        size = arguments.integer("width", width, 1, 32767), arguments.integer("height", height, 1, 32767)
        arguments.flag("resizable", resizable)
        arguments.flag("visible", visible)
        self._title = arguments.text("title", title)
        self._size = size
        self._ratio = 1.0
        self._asked = False
        self._polls = self._taken = self._resizes = 0
        self._dependents: weakref.WeakSet[Dependent] = weakref.WeakSet()
        self._remote_target = RemoteTarget(*size, self._title[:256])
        self._closed = False

    def _none(self, what: str) -> Any:
        raise UnsupportedError(
            f"Window.{what} of a remote window", "the window is on another machine", "use its events and swapchains"
        )

    @property
    def handle(self) -> int:
        return int(self._none("handle"))

    @property
    def glfw_window(self) -> Any:
        return self._none("glfw_window")

    @property
    def platform(self) -> str:
        """``"remote"``."""
        return "remote"

    @property
    def display_name(self) -> str:
        return os.environ.get("VKSHARE_REMOTE", "")

    @property
    def native_display(self) -> int:
        return 0

    @property
    def native_window(self) -> int:
        return 0

    @property
    def title(self) -> str:
        return self._title

    @title.setter
    def title(self, title: str) -> None:
        self._none("title after the window was made")

    @property
    def size(self) -> tuple[int, int]:
        self._check()
        return self._size

    @property
    def framebuffer_size(self) -> tuple[int, int]:
        self._check()
        return round(self._size[0] * self._ratio), round(self._size[1] * self._ratio)

    @property
    def scale(self) -> tuple[float, float]:
        self._check()
        return self._ratio, self._ratio

    @property
    def refresh_rate(self) -> float:
        return 60.0

    @property
    def should_close(self) -> bool:
        self._check()
        return self._asked

    @property
    def is_minimized(self) -> bool:
        self._check()
        return False

    def poll(self, timeout: float | None = 0) -> list[Event]:
        self._check()
        seconds = arguments.timeout(timeout)
        deadline = None if seconds is None else time.monotonic() + seconds
        self._polls += 1
        while True:
            events = self._remote_target.events() if self._remote_target._window else []
            for event in events:
                self._note(event)
            left = _SLICE if deadline is None else min(_SLICE, deadline - time.monotonic())
            if events or left <= 0:
                self._taken += len(events)
                return events
            time.sleep(left)

    def _note(self, event: Event) -> None:
        if event.event_type == "close":
            self._asked = True
        elif event.event_type == "resize":
            self._resizes += 1
            self._size, self._ratio = (int(event.width), int(event.height)), event.pixel_ratio

    def resize(self, width: int, height: int) -> None:
        self._none("resize()")

    def close(self) -> None:
        """Closes the swapchains on it, and the window with them. Idempotent."""
        self._closed = True

    def statistics(self) -> WindowStatistics:
        shown = len(self._remote_target._window)
        return WindowStatistics(self._polls, self._taken, 0, 0, self._resizes, shown)

    def _look(self) -> bool:
        return False

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("this Window was closed")

    def __del__(self) -> None:
        pass  # the swapchain owns the window at the viewer

    def __repr__(self) -> str:
        state = "closed" if self._closed else "at the viewer"
        return f"<vkshare.Window {self._title!r} {self._size[0]}x{self._size[1]}, {state}>"
