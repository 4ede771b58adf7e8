"""A window with a compositor and a render server, for programs: `vkshare serve`, `vkshare demo desktop`."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from vkshare.compositor.compositor import Compositor
from vkshare.compositor.service import Service
from vkshare.core import opening
from vkshare.core.device import Device
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError
from vkshare.present.targets import Headless
from vkshare.server.server import RenderServer
from vkshare.util.closing import Closing
from vkshare.vsync import Display, choose
from vkshare.window.events import Event
from vkshare.window.window import Window

_HEADLESS_RATE = 60  # Hz
# seconds between two looks for signals, in a window, whose window system would not be woken by one
_SIGNAL_POLL_INTERVAL = 0.1


class NoDisplay(UnsupportedError):
    """There is no display for a window."""


@dataclass(frozen=True, slots=True)
class WindowHostOptions:
    """Options of a WindowHost.

    Attributes
    ----------
    path
        Path of the server's socket; None: as RenderServer has it.
    rate
        Hz of a software display; None: the window's own ticks, if it has any, and 60 Hz if
        headless.
    backend, adapter
        As vks.open() takes them.
    can_capture
        Whether capture() will be called: a copy of each frame is kept for it. Without it, a window
        cannot be captured, and a headless target on Vulkan only by acquiring its images one after
        the other.
    """

    width: int = 1280
    height: int = 720
    title: str = "vkshare"
    path: str | os.PathLike[str] | None = None
    is_headless: bool = False
    rate: Fraction | None = None
    isolation: str = "thread"
    backend: str = "auto"
    adapter: Any = None
    can_capture: bool = False


class WindowHost(Closing):
    """Shows clients' windows until it is closed. With a window, create it, call turn() and close it on the main thread.

    Raises
    ------
    NoDisplay
        There is no display for a window.
    ValueError, UnsupportedError, InvalidCallError
        As vks.open(), device.create_swapchain(), vsync.choose() and RenderServer raise them.
    """

    def __init__(self, options: WindowHostOptions, on_input: Callable[[Event], object] | None = None) -> None:
        """Opens the window, the compositor and the server. `on_input`: as of Compositor."""
        self.options = options
        self.has_ended = False  # the user pressed Esc, or the close button
        self._serving_error: BaseException | None = None
        with contextlib.ExitStack() as made:
            self.window = None if options.is_headless else made.enter_context(_window(options))
            self.display = made.enter_context(self._open_display(made))
            target = self.window or Headless(options.width, options.height)
            self.compositor = made.enter_context(
                Compositor(
                    self._open_device,
                    target,
                    self.display,
                    name=options.title,
                    on_input=on_input,
                    capture=options.can_capture,
                )
            )
            self.service = made.enter_context(Service([self.compositor]))
            self.server = made.enter_context(
                RenderServer(self._open_device, options.path, isolation=options.isolation, kinds=self.service.kinds)
            )
            self._thread = threading.Thread(target=self._serve, name="vkshare server", daemon=True)
            self._thread.start()
            self._made = made.pop_all()

    @property
    def is_closed(self) -> bool:
        return self.compositor.is_closed

    def turn(self, timeout: float, signals: Signals) -> None:
        """Handles the user's input, and waits for at most that many seconds for more, or for a signal.

        Raises
        ------
        VkshareError
            The compositor, or the server, has ended.
        """
        if self.window is None:
            signals.wait(timeout)
        else:
            for event in self.window.poll(min(timeout, _SIGNAL_POLL_INTERVAL)):
                if event.event_type == "key_down" and event.key == "Escape":
                    self.has_ended = True
                # the queue is full: the compositor hangs in its driver
                with contextlib.suppress(InvalidCallError):
                    self.compositor.post(event)
            self.has_ended |= self.window.should_close
        error = self.compositor.error or self._serving_error
        if error is not None:
            raise error

    def close(self) -> None:
        """Closes the clients, the server and the compositor, in this order. Idempotent."""
        self.server.shutdown()
        self._thread.join()
        self._made.close()

    # ---- parts ------------------------------------------------------------------------------------------------

    def _open_device(self) -> Device:
        options = self.options
        return opening.open(options.adapter, backend=options.backend, name=options.title, held_limit=1 << 20)

    def _open_display(self, made: contextlib.ExitStack) -> Display:
        rate = self.options.rate
        if rate is None and self.window is not None:
            source = choose(self.window)
            if source is not None:
                return Display(self.options.title, source=made.enter_context(source))
            rate = Fraction(self.window.refresh_rate).limit_denominator(1000)
        return Display(self.options.title, interval=1 / (rate or Fraction(_HEADLESS_RATE)))

    def _serve(self) -> None:
        try:
            self.server.serve_forever()
        except ClosedError:
            pass
        except BaseException as error:
            self._serving_error = error


class Signals:
    """``with Signals() as signals:`` records SIGINT and SIGTERM, which then only end wait().

    On other threads than the main one it changes no handlers and records nothing.
    """

    def __init__(self) -> None:
        self.came = 0  # the number of the last signal; 0: none

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
            self._handlers = {each: signal.signal(each, self._note) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._is_main:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._wakeup)
        os.close(self._read)
        os.close(self._write)

    def _note(self, number: int, frame: object) -> None:
        self.came = number

    def wait(self, timeout: float, *also: int) -> list[int]:
        """Waits for a signal, a readable file descriptor or the timeout; returns the readable ones."""
        if self.came:
            return []
        ready = select.select([self._read, *also], [], [], max(timeout, 0))[0]
        if self._read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, 4096)
        return [fd for fd in ready if fd != self._read]


def _window(options: WindowHostOptions) -> Window:
    try:
        return Window(options.width, options.height, options.title)
    except UnsupportedError as error:
        raise NoDisplay(error.capability, error.why, "use --headless") from error
