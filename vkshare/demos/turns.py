"""The torch demo: PyTorch and a Vulkan renderer take turns on one surface, every frame.

PyTorch's effect: bright pixels leave echoes, which turn, grow and fade.
"""

from __future__ import annotations

import importlib
import math
import os
import statistics
import time
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import vkshare
from vkshare.core import adapter as _adapter
from vkshare.demos import marks
from vkshare.demos.layout import BITS, Layout
from vkshare.demos.painter import Painter
from vkshare.demos.stage import Stage
from vkshare.errors import DeviceMismatchError, UnsupportedError
from vkshare.util.closing import Scoped

_DRAW, _TORCH, _SHOW = range(3)  # keys: whose turn it is
_REVOLUTION = 8.0  # seconds of the cube
_COARSE = 4  # pixels of the picture a side of one pixel of the echoes: they are soft, and cost a sixteenth
_TURN, _GROWTH = math.radians(1.1), 1.018  # a frame, about the object's centre
_BRIGHT = 0.52  # from where on a channel leaves an echo
# Red, green, blue, alpha; echoes turn violet as they fade.
_GAIN = (0.95, 0.85, 0.75, 0.0)
_FADE = (0.955, 0.935, 0.965, 0.0)


def named_by_torch(torch: Any, backend: str) -> Any:
    """Return the adapter of PyTorch's GPU; None if Vulkan does not have it, or the user chose an adapter."""
    if backend == "cpu" or os.environ.get("VKSHARE_BACKEND") or os.environ.get("VKSHARE_ADAPTER"):
        return None
    if not torch.cuda.is_available():
        return None
    named = torch.device("cuda", torch.cuda.current_device())
    try:
        _adapter.choose(named, backend)
    except (ValueError, UnsupportedError):  # no Vulkan there
        return None
    return named


class Turns(Scoped):
    """Draws frames on a stage. Owns surfaces: close() it before the device.

    The scene is drawn on a surface of its own first, and copied to the one that is shared: its
    edges are blended, which NVIDIA's driver does not do in linear images, and SwiftShader shares
    none to render to.
    """

    def __init__(self, torch: Any, stage: Stage, width: int, height: int) -> None:
        self._torch = torch
        self._device = stage.device
        self._layout = Layout.at_least(width, height)
        self._number = -1
        self._spent: list[float] = []
        with ExitStack() as stack:
            self._shared, self._surface, self._why = self._open(stack)
            where = "cpu" if self._shared is None else torch.device("cuda", self._shared.gpu.index)
            self._echo = Echo(torch, self._layout, where)
            self._painter = stack.enter_context(Painter(self._device, self._layout))
            canvas = self._device.create_surface(self._layout.width, self._layout.height, "rgba8unorm")
            self._canvas = stack.enter_context(canvas)
            self._canvas.acquire(0)
            self._owned = stack.pop_all()

    def _open(self, stack: ExitStack) -> tuple[Any, vkshare.Surface, str]:
        """The surface in CUDA, or None; the surface; why it is not in CUDA."""
        why = ""
        if not self._torch.cuda.is_available():
            why = "PyTorch finds no GPU" if self._torch.version.cuda else "this PyTorch is built without CUDA"
        if not why:
            try:
                with ExitStack() as trial:
                    surface = trial.enter_context(self._linear(memory="device"))
                    shared = trial.enter_context(vkshare.interop.cuda.open(surface))
                    stack.push(trial.pop_all())
                return shared, surface, ""
            except (UnsupportedError, DeviceMismatchError) as error:
                why = str(error)
        surface = stack.enter_context(self._linear())
        if not surface.is_host_visible:
            raise UnsupportedError(
                "the torch demo", f"the CPU cannot see linear surfaces of {self._device.adapter.name}", "--backend cpu"
            )
        return None, surface, why

    def _linear(self, memory: str = "auto") -> vkshare.Surface:
        size = self._layout.width, self._layout.height
        return self._device.create_surface(*size, tiling="linear", usage=("sample", "copy"), memory=memory)

    def draw(self, frame: vkshare.Frame, number: int, seconds: float) -> None:
        """One frame: for Stage.play()."""
        if frame.is_hidden:
            return
        self._number = number
        with self._surface.access(_DRAW, _TORCH) as view:
            commands = self._painter.record(self._canvas, number, seconds / _REVOLUTION % 1)
            self._device.submit(commands.copy(self._canvas, view))
        began = time.perf_counter()
        with self._torchs_turn() as view:
            picture = self._torch.from_dlpack(view)  # the surface's own memory
            entered = time.perf_counter()
            self._echo.step(picture, number)
            left = time.perf_counter()
        self._spent.append(entered - began + time.perf_counter() - left)
        with self._surface.access(_SHOW, _DRAW) as view:
            self._device.submit(self._device.record().blit(view, frame.view))

    def _torchs_turn(self) -> AbstractContextManager[Any]:
        if self._shared is None:
            return self._surface.access(_TORCH, _SHOW)
        access: AbstractContextManager[Any] = self._shared.access(
            _TORCH, _SHOW, stream=self._torch.cuda.current_stream(self._shared.gpu.index)
        )
        return access

    def report(self) -> dict[str, Any]:
        """Return the report of the frames so far. Waits for their work."""
        late, shown = self._echo.late, self._is_shown()
        return {
            "torch": self._torch.__version__,
            "device": "the CPU" if self._shared is None else str(self._shared.gpu),  # PyTorch's, where it ran
            "adapter": self._device.adapter.name,
            "ordered_by": "CPU" if self._shared is None else "GPU",
            "why": self._why,  # it was the CPU; empty for the GPU
            "frames": len(self._spent),
            "late": late,  # frames in which PyTorch saw another picture than the one that was drawn for it
            "shown": shown,  # the last picture was PyTorch's, and of the last frame
            # Median seconds a frame that the caller spent on the turns, beside its own work.
            "handing_over": statistics.median(self._spent or [0.0]),
            "ok": not late and shown,
        }

    def _is_shown(self) -> bool:
        """Both numbers in the last picture, the renderer's and the one that PyTorch saw, are the last frame's."""
        if self._number < 0:
            return True
        with self._surface.access(_DRAW, _DRAW, writable=False):
            pixels = self._surface.read()
        layout, expected = self._layout, marks.code(self._number, 0)
        return all(
            marks.read(pixels, at, layout.mark_cell) == expected for at in (layout.render_mark, layout.text_mark)
        )

    def close(self) -> None:
        """Idempotent."""
        self._owned.close()


# ---- PyTorch's effect ----------------------------------------------------------------------------------------------


def load() -> Any:
    """The module torch. UnsupportedError: it is not installed, or does not load."""
    what = "the torch demo"
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise UnsupportedError(what, f"{error.name} is not installed", "pip install 'vkshare[torch]'") from None
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
