"""Where the demos of one process draw: a window, or a headless target, and the loop of frames on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import vkshare
from vkshare.demos.options import StageOptions as StageOptions
from vkshare.errors import UnsupportedError

_RATE = 60.0  # frames a second, headless
_AHEAD = 0.95  # of a period, after which the next frame begins: a present that waits for the screen sets the pace then
_MINIMIZED_NAP = 0.1  # seconds between two checks whether the window is shown again


class NoDisplay(OSError):
    """A window was asked for, and cannot be."""


class Stage:
    """A swapchain and what it is for. Made by opened(), which closes everything, too."""

    def __init__(self, device: vkshare.Device, swapchain: vkshare.Swapchain, window: vkshare.Window | None) -> None:
        self.device = device
        self.swapchain = swapchain
        self.window = window  # None: headless
        self.has_ended = False  # the user pressed Esc, or the close button

    def poll(self, timeout: float = 0) -> None:
        """Takes in what the user did; waits that many seconds for it."""
        if self.window is not None:
            events = self.window.poll(timeout)
            escaped = any(event.event_type == "key_down" and event.key == "Escape" for event in events)
            self.has_ended |= escaped or self.window.should_close

    def wait(self, seconds: float) -> None:
        """Polls until so much time is over, or the user ends it."""
        deadline = time.monotonic() + seconds
        self.poll(seconds)
        while not self.has_ended and (left := deadline - time.monotonic()) > 0:
            self.poll(left)

    def play(self, draw: Callable[[vkshare.Frame, int, float], None], frames: int | None) -> int:
        """Presents frames until that many were, or the user ends it. Returns how many.

        Parameters
        ----------
        draw
            Called as ``draw(frame, number, seconds)`` to submit what is to be seen. Headless, 60 frames are a second,
            however long they take, so that their pictures are always the same ones.
        """
        pace = Pace(_RATE if self.window is None else self.window.refresh_rate)
        start = time.monotonic()
        number = 0
        while frames is None or number < frames:
            if self.window is not None:
                self.wait(pace.left())
            if self.has_ended:
                break
            if self.window is not None and self.window.is_minimized:
                time.sleep(_MINIMIZED_NAP)
                continue
            seconds = number / _RATE if self.window is None else time.monotonic() - start
            with self.swapchain.frame() as frame:
                draw(frame, number, seconds)
            number += 1
        return number

    def shown(self) -> Any:
        """The picture that is shown, as (H, W, 4) uint8 RGBA; None before the first."""
        if not self.swapchain.statistics().frames:
            return None
        return rgba(self.swapchain.capture(), self.swapchain.format)


def rgba(pixels: Any, format: str) -> Any:
    """Pixels in memory order as (H, W, 4) uint8 RGBA; UnsupportedError where a channel has not 8 bits."""
    if not format.startswith(("rgba8", "bgra8")):
        raise UnsupportedError(f"a picture of {format}", "only formats of 8 bits a channel are written to files")
    return pixels[..., [2, 1, 0, 3]].copy() if format.startswith("bgra8") else pixels


class Pace:
    """Holds a loop to a rate, for drivers whose FIFO lets frames through as fast as they come."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._period = _AHEAD / rate
        self._clock = clock
        self._due = clock()

    def left(self) -> float:
        """Seconds to sleep before the next frame. A loop that is late does not hurry to catch up."""
        now = self._clock()
        wait = max(0.0, self._due - now)
        self._due = max(self._due, now) + self._period
        return wait


@contextmanager
def opened(options: StageOptions, title: str, **swapchain_options: Any) -> Iterator[Stage]:
    """Opens device, window and swapchain.

    Raises
    ------
    NoDisplay
        There is no display for a window.
    ValueError, UnsupportedError
        As vkshare.open() and device.create_swapchain() raise them.
    """
    with ExitStack() as stack:
        window = None
        if not options.headless:
            try:
                window = stack.enter_context(vkshare.Window(options.width, options.height, title))
            except UnsupportedError as error:
                raise NoDisplay(f"{error}. Without a display: --headless --output picture.png") from error
        device = stack.enter_context(vkshare.open(options.adapter, backend=options.backend, name=title))
        swapchain = device.create_swapchain(
            window or vkshare.Headless(options.width, options.height),
            capture=window is not None and options.output is not None,
            **swapchain_options,
        )
        stack.enter_context(swapchain)
        yield Stage(device, swapchain, window)
