"""The wall: a 3 x 3 of tiles in a compositor, of which the middle one is the picture that all engines draw in turns."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from typing import Any

import numpy as np

import vkshare
from vkshare.demos.desktop.pictures import canvas
from vkshare.demos.engines.player import ARTISTS
from vkshare.demos.lettering import SOFT, WHITE, write
from vkshare.demos.options import EnginesOptions
from vkshare.demos.stage import NoDisplay, rgba
from vkshare.errors import AbandonedError, AcquireTimeout, UnsupportedError
from vkshare.util.closing import Scoped

SHOWN = len(ARTISTS)  # the key by which the compositor takes the picture; the engines' keys are 0, 1, ... before it
_SIDE = 3
_GAP = 8  # pixels
_CAPTION = 24
_PLACES = [place for place in range(_SIDE * _SIDE) if place != _SIDE * _SIDE // 2]  # the engines', in the wall
_USAGE = ("render", "sample", "copy")
_NIGHT = (0.05, 0.045, 0.13, 1.0)
_RECOVERY = 10.0  # seconds that work of living parties on the picture may take


class Wall(Scoped):
    """A device, a compositor, the picture, and a tile a running engine. For the main thread."""

    def __init__(self, options: EnginesOptions) -> None:
        self.options = options
        self.has_ended = False  # the user pressed Esc, or the close button
        width, height = options.width // _SIDE - _GAP, options.height // _SIDE - _GAP - _CAPTION
        self.tile_size = width // _SIDE * _SIDE, height // _SIDE * _SIDE
        self.recoveries = 0
        with ExitStack() as made:
            self._window = None if options.headless else made.enter_context(_open_window(options))
            name = "engines demo"
            self.device = made.enter_context(vkshare.open(options.adapter, backend=options.backend, name=name))
            target = self._window or vkshare.Headless(options.width, options.height)
            capture = self._window is not None
            compositor = vkshare.compositor.Compositor(self.device, target, name=name, capture=capture)
            self._compositor = made.enter_context(compositor)
            self._usage = _usage(self.device)
            self._ground = made.enter_context(self.device.create_surface(options.width, options.height))
            self._compositor.open_window(self._ground, title="wallpaper", is_opaque=True)
            self.picture = made.enter_context(self.surface())
            self._middle: Any = None
            with self.picture.access(0, 0) as view:
                self.device.submit(self.device.record().clear(view, _NIGHT))
            self._show_picture()
            self._turns = 0
            self._made = made.pop_all()

    def surface(self) -> vkshare.Surface:
        """A tile: keys are 0 to draw and 1 to be shown."""
        return self.device.create_surface(*self.tile_size, "rgba8unorm", usage=self._usage)

    def show(self, number: int, tile: vkshare.Surface) -> Any:
        """Opens the window of an engine's tile."""
        return self._compositor.open_window(
            tile, title=[*ARTISTS][number], at=self._at(_PLACES[number]), is_opaque=True
        )

    def cell(self, number: int) -> tuple[int, int, int, int]:
        """The part of the picture that is an engine's: as big as a tile, a third a side."""
        width, height = (each // _SIDE for each in self.tile_size)
        row, column = divmod(_PLACES[number], _SIDE)
        return column * width, row * height, width, height

    def write(self, captions: list[str]) -> None:
        """Captions below the engines' tiles."""
        with self._ground.access(0, 1, 10.0) as view, canvas(view) as image:
            from PIL import ImageDraw

            image.paste((14, 12, 36, 255), (0, 0, *image.size))
            draw = ImageDraw.Draw(image)
            middle = _SIDE * _SIDE // 2
            for place, said in [*zip(_PLACES, captions, strict=True), (middle, "one picture, drawn in turns")]:
                x, y = self._at(place)
                baseline = y + self.tile_size[1] + _CAPTION * 3 // 4
                write(draw, (x + 2, baseline), said, 14, WHITE if place == middle else SOFT, "ls")

    def poll(self) -> None:
        """Takes in what the user did."""
        if self._window is not None:
            events = self._window.poll(0)
            escaped = any(event.event_type == "key_down" and event.key == "Escape" for event in events)
            self.has_ended |= escaped or self._window.should_close
        if self._compositor.error is not None:
            raise self._compositor.error

    def stand_in(self, absent: set[int]) -> None:
        """Takes the picture's turns of engines that are not there; recovers the picture where one was killed in its."""
        if self.picture.mutex.statistics().state == "abandoned":
            self.picture.recover(_RECOVERY)
            self.recoveries += 1
            self.picture.release(0)  # a new round
            self._show_picture()
        for key in sorted(absent):
            with contextlib.suppress(AcquireTimeout, AbandonedError):
                self.picture.acquire(key, timeout=0)
                self.picture.release(next(each for each in range(key + 1, SHOWN + 1) if each not in absent))

    @property
    def rounds(self) -> int:
        """How often the compositor took the picture."""
        return self._turns + int(self._middle.statistics().shown)

    def _show_picture(self) -> None:
        """Opens the picture's window, anew after the compositor saw that a party died."""
        if self._middle is not None:
            self._turns = self.rounds
            self._middle.close()
        at = self._at(_SIDE * _SIDE // 2)
        self._middle = self._compositor.open_window(
            self.picture, title="picture", at=at, is_opaque=True, acquire=SHOWN, release=0
        )

    def capture(self) -> np.ndarray[Any, Any]:
        """(H, W, 4) uint8 RGBA."""
        pixels: np.ndarray[Any, Any] = rgba(self._compositor.capture(), self._compositor.swapchain.format)
        return pixels

    def seen(self, pixels: np.ndarray[Any, Any], number: int) -> tuple[bool, bool]:
        """Whether an engine's tile, and its cell of the picture, have several colours in a capture."""
        x, y = self._at(_PLACES[number])
        left, top = self._at(_SIDE * _SIDE // 2)
        across, down, width, height = self.cell(number)
        tile = pixels[y : y + self.tile_size[1], x : x + self.tile_size[0]]
        cell = pixels[top + down : top + down + height, left + across : left + across + width]
        return _has_colours(tile), _has_colours(cell)

    def _at(self, place: int) -> tuple[int, int]:
        row, column = divmod(place, _SIDE)
        left, top = (self.options.width // _SIDE, self.options.height // _SIDE)
        return column * left + _GAP // 2, row * top + _GAP // 2

    def close(self) -> None:
        """Ends the compositor and the device."""
        self._made.close()


def _has_colours(pixels: np.ndarray[Any, Any]) -> bool:
    return len(np.unique(pixels.reshape(-1, 4), axis=0)) > 1


def _usage(device: vkshare.Device) -> tuple[str, ...]:
    """With "storage", which slangpy's shader needs, where surfaces of the device can have it."""
    try:
        device.create_surface(16, 16, "rgba8unorm", usage=(*_USAGE, "storage")).close()
    except UnsupportedError:
        return _USAGE
    return (*_USAGE, "storage")


def _open_window(options: EnginesOptions) -> vkshare.Window:
    try:
        return vkshare.Window(options.width, options.height, "vkshare: engines")
    except UnsupportedError as error:
        raise NoDisplay(f"{error}. Without a display: --headless --output engines.png") from error
