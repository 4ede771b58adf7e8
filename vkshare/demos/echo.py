"""PyTorch's effect in the torch demo: bright pixels leave echoes, which turn, grow and fade."""

from __future__ import annotations

import importlib
import math
from typing import Any

from vkshare.demos import marks
from vkshare.demos.layout import BITS, Layout
from vkshare.errors import UnsupportedError

_COARSE = 4  # pixels of the picture a side of one pixel of the echoes: they are soft, and cost a sixteenth
_TURN, _GROWTH = math.radians(1.1), 1.018  # a frame, about the object's centre
_BRIGHT = 0.52  # from where on a channel leaves an echo
# Red, green, blue, alpha; echoes turn violet as they fade.
_GAIN = (0.95, 0.85, 0.75, 0.0)
_FADE = (0.955, 0.935, 0.965, 0.0)


def load() -> Any:
    """The module torch. UnsupportedError: it is not installed, or does not load."""
    what = "the torch demo"
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise UnsupportedError(what, f"{error.name} is not installed", "pip install vkshare[torch]") from None
    except (ImportError, OSError) as error:
        raise UnsupportedError(what, f"torch does not load: {error}", "install it anew") from None


class Echo:
    """Works in pictures of the layout's size, on one device of PyTorch's. Nothing in step() waits for a GPU.

    It also looks at each picture's frame number, as the renderer left it in squares, and copies
    these squares to another corner: so the picture tells which frame it saw.
    """

    def __init__(self, torch: Any, layout: Layout, device: Any) -> None:
        self._torch = torch
        self._layout = layout
        self._fade, self._gain = (torch.tensor(each, device=device).view(1, 4, 1, 1) for each in (_FADE, _GAIN))
        height, width = layout.height // _COARSE, layout.width // _COARSE
        self._echoes = torch.zeros((1, 4, height, width), device=device)
        self._whence = self._grid(height, width).to(device)
        self._shifts = torch.arange(BITS - 1, -1, -1, device=device)
        self._late = torch.zeros((), dtype=torch.int64, device=device)

    @property
    def late(self) -> int:
        """Pictures whose frame number was another than the expected one. Waits for the work so far."""
        return int(self._late.item())

    def step(self, picture: Any, number: int) -> None:
        """One frame, in place: (H, W, 4) uint8, which are the surface's own bytes."""
        torch = self._torch
        functional = torch.nn.functional
        mark = self._marked(picture, self._layout.render_mark).clone()
        self._look_at(mark, number)
        light = picture.permute(2, 0, 1)[None].float().div_(255)
        fresh = functional.avg_pool2d(light, _COARSE).sub_(_BRIGHT).clamp_(min=0).mul_(self._gain / (1 - _BRIGHT))
        older = functional.grid_sample(self._echoes, self._whence, align_corners=False).mul_(self._fade)
        self._echoes = torch.maximum(older, fresh)
        echoes = functional.interpolate(self._echoes, size=light.shape[2:], mode="bilinear", align_corners=False)
        light.addcmul_(1 - light, echoes)  # as two projectors on one screen: brighter, and never over 1
        picture.copy_(light.mul_(255).add_(0.5)[0].permute(1, 2, 0))
        for at in (self._layout.render_mark, self._layout.text_mark):
            self._marked(picture, at).copy_(mark)

    def _look_at(self, mark: Any, number: int) -> None:
        half = self._layout.mark_cell // 2
        seen = mark[half, half :: self._layout.mark_cell, 0] > 128
        bits = self._torch.full_like(self._shifts, marks.code(number, 0)) >> self._shifts & 1
        self._late += (seen != bits.bool()).any()

    def _marked(self, picture: Any, at: tuple[int, int]) -> Any:
        x, y = at
        cell = self._layout.mark_cell
        return picture[y : y + cell, x : x + BITS * cell]

    def _grid(self, height: int, width: int) -> Any:
        """Where each echo was a frame ago, as grid_sample() wants it."""
        torch = self._torch
        size = torch.tensor((self._layout.width, self._layout.height))
        centre = torch.tensor(self._layout.object_centre)
        rows, columns = torch.arange(height) + 0.5, torch.arange(width) + 0.5
        y, x = torch.meshgrid(rows / height, columns / width, indexing="ij")
        away = torch.stack((x, y), -1) * size - centre
        sine, cosine = math.sin(_TURN) / _GROWTH, math.cos(_TURN) / _GROWTH
        whence = away @ torch.tensor(((cosine, -sine), (sine, cosine))) + centre
        return (2 * whence / size - 1)[None]
