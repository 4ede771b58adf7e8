"""A source's newest picture in a window, or headless in a target that can be captured."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from vkshare.core.commands import CommandList
from vkshare.core.surface import Surface
from vkshare.core.viewer_input import InputSender
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, UnsupportedError, VkshareError
from vkshare.ipc.input_events import Event
from vkshare.present.swapchain import Swapchain
from vkshare.present.targets import Headless
from vkshare.util.closing import FlagClosing, on_error
from vkshare.view.display_pixels import to_rgba8
from vkshare.view.fitting import first_size, fit
from vkshare.view.planar_pictures import CONVERTED
from vkshare.view.sources import Source, published_name
from vkshare.view.window_input import WindowInput
from vkshare.window.window import Window

_AS_IT_IS = ("rgba8unorm", "bgra8unorm")  # formats that the GPU scales; others but planes become RGBA by the CPU
_AROUND = (0.07, 0.07, 0.08, 1.0)  # the colour beside the picture
_REDRAW = 0.5  # seconds after which a picture at rest is drawn again: a window may have lost its pixels
_LOOK = 0.5  # seconds between two looks whether a source that has ended is there again
_MINIMIZED_NAP = 0.1
_AHEAD = 0.95  # of a period, after which the next turn begins: a present that waits for the screen sets the pace then
_PATIENCE = 10.0  # seconds that a frame's own work may take
_RATE_OVER = 2.0  # seconds over which frames are counted


@dataclass(frozen=True, slots=True)
class PictureWindowStatistics:
    """A snapshot of a window's counters."""

    frames: int  # of the source, that were shown
    presents: int
    rate: float  # frames a second in the last seconds
    width: int  # of the picture, in pixels; 0 before the first
    height: int
    has_ended: bool  # the source; its last picture stays


class PictureWindow(FlagClosing):
    """Shows the newest picture of a source, in the middle and enlarged by a whole number. Main thread only.

    A source that ends leaves its last picture, and the title says so. A name that is published again is
    shown again, in the same window. Its publisher gets the input events, if it asked for them.

    Parameters
    ----------
    source
        As of ``vks.view.serve()``.
    title
        The source's name, for the window's title.
    size
        (width, height) of the inside; None: that of the picture, within bounds.
    headless
        No window, but a target for capture().
    can_capture
        Whether capture() will be called.

    Raises
    ------
    UnsupportedError
        There is no display, or the source's adapter cannot present on it.
    FileNotFoundError
        No living process has published the name.
    VkshareError
        The source cannot be watched.
    """

    def __init__(
        self,
        source: Any,
        title: str,
        *,
        size: tuple[int, int] | None = None,
        headless: bool = False,
        can_capture: bool = False,
    ) -> None:
        self._closed = True
        self._arguments = source, can_capture
        self._title = title
        self._made = contextlib.ExitStack()
        self.has_ended = False  # the user pressed Esc, or the close button
        with on_error(self._made.close):
            watched = Source(source)
            with on_error(watched.close):
                spec = watched.surface.spec
                size = size or first_size((spec.width, spec.height))
                target: Window | Headless = (
                    Headless(*size) if headless else self._made.enter_context(Window(*size, title))
                )
                self.window = target if isinstance(target, Window) else None
                self._showing = _Showing(watched, target, can_capture)
        name = published_name(source)
        self._input = WindowInput()
        self._sender = InputSender(name) if name and self.window is not None else None
        if self._sender is not None:
            self._made.callback(self._sender.close)
        self._target = target
        self._due = self._look_at = 0.0
        self._tell_at = 0.0
        self._has_fixed_title = False  # a window at a viewer keeps the title that it was made with
        self._closed = False

    def turn(self, timeout: float) -> None:
        """Takes what the user did, waits at most so many seconds for more, and shows the newest picture.

        Raises
        ------
        SurfaceLostError, DeviceLostError
            The window system, or the device, has gone away.
        """
        window, showing = self.window, self._showing
        if window is None:
            showing.take(timeout)
        else:
            events = window.poll(_MINIMIZED_NAP if window.is_minimized else min(timeout, self._pause(window)))
            escaped = any(event.event_type == "key_down" and event.key == "Escape" for event in events)
            self.has_ended |= escaped or window.should_close
            showing.is_stale |= any(event.event_type == "resize" for event in events)
            self._send(window, events)
            if self.has_ended or window.is_minimized:
                return
            showing.take(0)
        showing.draw()
        now = time.monotonic()
        if showing.is_over and now >= self._look_at:
            self._look_at = now + _LOOK
            self._show_again()
        if window is not None and now >= self._tell_at:
            self._tell_at = now + _LOOK
            self._tell(window)

    def capture(self) -> Any:
        """Returns the pixels that are shown, (H, W, 4) uint8 RGBA; None before the first picture."""
        showing = self._showing
        return to_rgba8(showing.swapchain.capture(), showing.swapchain.format) if showing.presents else None

    def statistics(self) -> PictureWindowStatistics:
        """Returns a snapshot of the counters, of the publisher that is shown now."""
        showing = self._showing
        width, height = showing.size
        return PictureWindowStatistics(showing.frames, showing.presents, showing.rate(), width, height, showing.is_over)

    def close(self) -> None:
        """Closes the window and all that it needs. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._made.callback(self._showing.close)
        self._made.close()

    def _send(self, window: Window, events: list[Event]) -> None:
        """Sends input to the publisher of a name."""
        if self._sender is None or not self._showing.presents:
            return
        room = window.framebuffer_size
        scale = room[0] / max(1, window.size[0])
        for event in self._input.at_picture(events, self._showing.size, room, scale):
            self._sender.send(event)

    def _pause(self, window: Window) -> float:
        """Seconds until the display shows the next picture: there are systems that let frames through at any rate."""
        now = time.monotonic()
        pause = max(0.0, self._due - now)
        self._due = max(self._due, now) + _AHEAD / window.refresh_rate
        return pause

    def _show_again(self) -> None:
        """Shows a source that has ended from its new owner on, if there is one."""
        source, can_capture = self._arguments
        if not self._showing.is_watched:
            return
        try:
            watched = Source(source)
        except (VkshareError, OSError, ValueError):
            return
        with on_error(watched.close):
            self._showing.close()
            self._showing = _Showing(watched, self._target, can_capture)

    def _tell(self, window: Window) -> None:
        showing = self._showing
        width, height = showing.size
        size = f"{width}x{height}" if width else "no picture yet"
        state = "ended, its last picture" if showing.is_over else f"{showing.rate():.0f} frames a second"
        title = f"{self._title}: {size}, {state}"
        if title == window.title or self._has_fixed_title:
            return
        try:
            window.title = title
        except UnsupportedError:
            self._has_fixed_title = True

    def __repr__(self) -> str:
        state = "closed" if self._closed else "ended" if self._showing.is_over else "shown"
        return f"<vkshare view.PictureWindow of {self._title!r}, {state}>"


class _Showing:
    """One publisher's frames on a swapchain of the device that receives them. Takes the source over."""

    def __init__(self, source: Source, target: Window | Headless, can_capture: bool) -> None:
        self._source = source
        self.is_watched = source.is_watched
        self.swapchain: Swapchain = source.device.create_swapchain(
            target, capture=can_capture and isinstance(target, Window)
        )
        self._picture: Surface | None = None
        self.is_stale = False  # what is on the screen is not what should be
        self.is_over = False
        self.frames = self.presents = 0
        self._drawn_at = 0.0
        self._times: deque[float] = deque(maxlen=1024)

    @property
    def size(self) -> tuple[int, int]:
        """The picture's size in pixels; (0, 0) before the first."""
        return (0, 0) if self._picture is None else (self._picture.width, self._picture.height)

    def rate(self) -> float:
        """Frames a second."""
        since = time.monotonic() - _RATE_OVER
        return sum(at >= since for at in self._times) / _RATE_OVER

    def take(self, timeout: float) -> bool:
        """Takes the newest frame, if one comes within so many seconds; says whether."""
        if self.is_over:
            time.sleep(timeout)
            return False
        try:
            with self._source.receiver.frame(timeout, latest=True) as frame:
                self._source.stamp(frame.metadata)
                self._keep(frame.surface)
        except (AcquireTimeout, AbandonedError):
            return False
        except ClosedError:
            self.is_over = not self._source.watch_again()
            return False
        self.frames += 1
        self._times.append(time.monotonic())
        self.is_stale = True
        return True

    def draw(self) -> None:
        """Presents the picture, where the screen does not have it yet."""
        picture = self._picture
        if picture is None or not (self.is_stale or time.monotonic() >= self._drawn_at + _REDRAW):
            return
        with self.swapchain.frame() as frame:
            self.is_stale = False
            commands = self._source.device.record().clear(frame.view, _AROUND)
            if not frame.is_hidden:
                place = fit((picture.width, picture.height), (frame.width, frame.height))
                commands.blit(picture, frame.view, target_rect=place.rect, filter=place.filter)
            self._source.device.submit(commands)
        self.presents += 1
        self._drawn_at = time.monotonic()

    def _keep(self, surface: Surface) -> None:
        """Copies a frame, whose surface goes back to the publisher, into a surface that the window can show."""
        if surface.spec.format.is_planar:
            picture = self._picture_for(surface, CONVERTED)
            self._source.device.submit(self._source.device.record().blit(surface, picture, filter="nearest"))
            return
        if surface.format not in _AS_IT_IS:
            self._picture_for(surface, "rgba8unorm").write(to_rgba8(surface.read(_PATIENCE), surface.format))
            return
        commands: CommandList = self._source.device.record()
        self._source.device.submit(commands.copy(surface, self._picture_for(surface, surface.format)))

    def _picture_for(self, surface: Surface, format: str) -> Surface:
        picture = self._picture
        if picture is None or (picture.width, picture.height) != (surface.width, surface.height):
            if picture is not None:
                picture.close()
            picture = self._picture = self._source.device.create_surface(surface.width, surface.height, format)
            picture.acquire(0)
        return picture

    def close(self) -> None:
        if self._picture is not None:
            self._picture.close()
        self.swapchain.close()
        self._source.close()
