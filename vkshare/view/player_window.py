"""A video in a window, or headless in a target that can be captured, at the ticks of its display."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import Any

import numpy as np

from vkshare.core.device import Device
from vkshare.errors import VideoError
from vkshare.ipc.input_events import Event
from vkshare.present.frame import Frame
from vkshare.present.targets import Headless
from vkshare.util.closing import FlagClosing, on_error
from vkshare.video.player import Player, PlayerStatistics
from vkshare.video.reader import Reader, VideoFrame
from vkshare.view.display_pixels import to_rgba8
from vkshare.view.fitting import Fit, first_size, fit
from vkshare.vsync.dispatcher import VsyncDispatcher
from vkshare.vsync.display import Display
from vkshare.window.window import Window

_AROUND = (0.07, 0.07, 0.08, 1.0)  # the colour beside the picture
_RATE = Fraction(60)  # ticks a second without a window
_STEP = 5  # seconds that an arrow key goes
_CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1))  # clockwise from the left top
_TRIANGLES = (0, 1, 2, 0, 2, 3)


class PlayerWindow(FlagClosing):
    """Plays a reader's frames. Space pauses, the left and right arrows go 5 s, Esc ends. Main thread only.

    Parameters
    ----------
    device
        The reader's device.
    reader
        The video, which the caller closes after the window.
    title
        Of the window.
    size
        (width, height) of the inside; None: that of the picture, within bounds.
    headless
        No window, but a target for capture().

    Raises
    ------
    UnsupportedError
        There is no display, or the device cannot present on it.
    """

    def __init__(
        self,
        device: Device,
        reader: Reader,
        title: str,
        *,
        size: tuple[int, int] | None = None,
        headless: bool = False,
        can_capture: bool = False,
    ) -> None:
        self._closed = True
        self._device, self._reader = device, reader
        self._made = contextlib.ExitStack()
        self.has_ended = False  # the user pressed Esc, or the close button
        self._picture = picture_size(reader)
        self._shown: tuple[int, tuple[int, int]] | None = None  # the frame that the screen has, and the screen's size
        with on_error(self._made.close):
            size = size or first_size(self._picture)
            target: Window | Headless = Headless(*size) if headless else self._made.enter_context(Window(*size, title))
            self.window = target if isinstance(target, Window) else None
            self._swapchain = device.create_swapchain(target, capture=can_capture and not headless)
            self._made.callback(self._swapchain.close)
            rate = _RATE if self.window is None else Fraction(self.window.refresh_rate).limit_denominator(1001)
            display = self._made.enter_context(Display(title[:32], interval=1 / rate))
            self._ticks = self._made.enter_context(self._made.enter_context(VsyncDispatcher(display)).observe())
            self._player = self._made.enter_context(Player(reader))
        self._presents = 0
        self._closed = False

    @property
    def is_over(self) -> bool:
        """Whether the last frame was shown for its duration."""
        return self._player.is_over

    def turn(self, timeout: float) -> None:
        """Waits for the next tick, at most so many seconds, takes what the user did, and shows the frame that is due.

        Raises
        ------
        SurfaceLostError, DeviceLostError
            The window system, or the device, has gone away.
        """
        tick = None
        with contextlib.suppress(TimeoutError):
            tick = self._ticks.wait(timeout)
        if self.window is not None:
            self._take(self.window, self.window.poll(0))
        if self.has_ended or tick is None:
            return
        frame = None
        with contextlib.suppress(VideoError):  # it is counted, and the frame before stays
            frame = self._player.frame_at(tick)
        if frame is not None and not (self.window is not None and self.window.is_minimized):
            self._draw(frame)

    def _take(self, window: Window, events: list[Event]) -> None:
        self.has_ended |= window.should_close
        for event in events:
            if event.event_type == "key_down":
                self._press(event.key)

    def _press(self, key: str) -> None:
        if key == "Escape":
            self.has_ended = True
        elif key == " " and self._player.is_paused:
            self._player.resume()
        elif key == " ":
            self._player.pause()
        elif key in ("ArrowLeft", "ArrowRight"):
            step = _STEP if key == "ArrowRight" else -_STEP
            self._reader.seek(max(Fraction(0), self._reader.position + step))

    def _draw(self, frame: VideoFrame) -> None:
        """Presents a frame, where the screen does not have it yet."""
        size = (0, 0) if self.window is None else self.window.framebuffer_size
        if self._shown == (frame.index, size):
            return
        with self._swapchain.frame() as target:
            commands = self._device.record().clear(target.view, _AROUND)
            if not target.is_hidden:
                place = fit(self._picture, (target.width, target.height))
                if self._reader.rotation % 360 == 0:
                    commands.blit(frame.surface, target.view, target_rect=place.rect, filter=place.filter)
                else:
                    turned = corners(place, target, self._reader.rotation)
                    commands.draw_triangles(target.view, turned, frame.surface, place.filter)
            self._device.submit(commands)
        self._shown = frame.index, size
        self._presents += 1

    def capture(self) -> Any:
        """Returns the pixels that are shown, (H, W, 4) uint8 RGBA; None before the first frame."""
        swapchain = self._swapchain
        return to_rgba8(swapchain.capture(), swapchain.format) if self._presents else None

    def statistics(self) -> PlayerStatistics:
        """Returns a snapshot of the player's counters."""
        return self._player.statistics()

    def close(self) -> None:
        """Closes the window and all that it needs. Idempotent."""
        if not self._closed:
            self._closed = True
            self._made.close()

    def __repr__(self) -> str:
        return f"<vkshare view.PlayerWindow of {self._reader.path!r}>"


def picture_size(reader: Reader) -> tuple[int, int]:
    """Width and height of the picture as it is seen: with square pixels, and turned."""
    width = max(1, round(reader.width * reader.pixel_aspect))
    size = width, reader.height
    return size if reader.rotation % 180 == 0 else (size[1], size[0])


def corners(place: Fit, target: Frame, rotation: int) -> np.ndarray[Any, Any]:
    """Rows ``x y u v`` of two triangles that show a texture at a place, turned counter-clockwise by quarters."""
    x, y, width, height = place.rect
    quarters = round(rotation / 90) % 4
    rows = []
    for index in _TRIANGLES:
        across, down = _CORNERS[index]
        left = (2 * x + width * (1 + across)) / target.width - 1
        top = (2 * y + height * (1 + down)) / target.height - 1
        u, v = _CORNERS[(index + quarters) % 4]  # the corner of the texture that has come there
        rows.append((left, top, (u + 1) / 2, (v + 1) / 2))
    return np.array(rows, np.float32)
