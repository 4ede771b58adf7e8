"""The torch demo: PyTorch and a Vulkan renderer take turns on one surface, every frame."""

from __future__ import annotations

import os
import statistics
import time
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import vkshare
from vkshare.core import adapter as _adapter
from vkshare.demos import echo, marks
from vkshare.demos.layout import Layout
from vkshare.demos.painter import Painter
from vkshare.demos.stage import Stage
from vkshare.errors import DeviceMismatchError, UnsupportedError
from vkshare.util.closing import Scoped

_DRAW, _TORCH, _SHOW = range(3)  # keys: whose turn it is
_TURN = 8.0  # seconds of the cube's revolution


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
            self._echo = echo.Echo(torch, self._layout, where)
            self._painter = stack.enter_context(Painter(self._device, self._layout))
            self._canvas = stack.enter_context(
                self._device.create_surface(self._layout.width, self._layout.height, "rgba8unorm")
            )
            self._canvas.acquire(0)
            self._owned = stack.pop_all()

    def _open(self, stack: ExitStack) -> tuple[Any, vkshare.Surface, str]:
        """The surface in CUDA, or None; the surface; why it is not in CUDA."""
        why = _without_cuda(self._torch)
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
            commands = self._painter.record(self._canvas, number, seconds / _TURN % 1)
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
        cell, expected = self._layout.mark_cell, marks.code(self._number, 0)
        return all(
            marks.read(pixels, at, cell) == expected for at in (self._layout.render_mark, self._layout.text_mark)
        )

    def close(self) -> None:
        """Idempotent."""
        self._owned.close()


def _without_cuda(torch: Any) -> str:
    """Why PyTorch does not run on a GPU here; empty where it does."""
    if torch.cuda.is_available():
        return ""
    return "PyTorch finds no GPU" if torch.version.cuda else "this PyTorch is built without CUDA"
