"""What does it cost that OpenGL has a frame of Vulkan's, or Vulkan one of OpenGL's: handed over, or copied?"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

import vkshare
from benchmarks.measure import Spread, ratios, timed
from benchmarks.plan import Plan
from vkshare import Device, Surface
from vkshare.errors import UnsupportedError
from vkshare.interop import gl as interop
from vkshare.interop.gl import GLSurface
from vkshare.interop.gl.context import GL, require

WIDTH, HEIGHT = 3840, 2160
Side = Callable[[int], None]  # passes n frames on
_TURN = 20e-3  # seconds
_TEXTURE_2D, _RGBA8, _RGBA, _UNSIGNED_BYTE = 0x0DE1, 0x8058, 0x1908, 0x1401
_FRAMEBUFFER, _COLOR_ATTACHMENT0 = 0x8D40, 0x8CE0


def run(plan: Plan) -> None:
    """On the best Vulkan device whose GPU has an OpenGL that opens its surfaces; one thread, unpinned."""
    with contextlib.ExitStack() as stack, plan.noting("gl", UnsupportedError):
        device = stack.enter_context(vkshare.open(backend="vulkan", name="bench"))
        context = stack.enter_context(interop.egl_context(device))
        surface = stack.enter_context(device.create_surface(WIDTH, HEIGHT))
        shared = stack.enter_context(interop.open(surface))
        plan.note(f"gl: {device.adapter.name} and {context.version}; they wait for each other by the {shared.order}")
        frames = _Frames(device, surface, shared)
        stack.callback(frames.close)
        to_gl, from_gl = "a 4K frame to OpenGL", "a 4K frame from OpenGL"
        plan.note("gl: OpenGL looks at a pixel of each frame; a copy is its own half alone, from or to host memory")
        _row(plan, to_gl, frames.to_gl, "glTexSubImage2D", frames.uploaded, 20)
        _row(plan, f"{to_gl}, drawn by Vulkan", frames.drawn_to_gl, "glTexSubImage2D", frames.uploaded, None)
        _row(plan, from_gl, frames.from_gl, "glReadPixels", frames.read_back, 20)


def _row(plan: Plan, what: str, ours: Side, name: str, theirs: Side, least: float | None) -> None:
    samples = plan.turns(what, {"ours": timed(ours), name: timed(theirs)}, _TURN)
    figure, others = ratios(samples[name], samples["ours"]), {name: Spread.of(samples[name])}
    plan.ratio(what, figure, Spread.of(samples["ours"]), least=least, against="faster", others=others)


class _Frames:
    """Both ways, handed over and copied."""

    def __init__(self, device: Device, surface: Surface, shared: GLSurface) -> None:
        self._device = device
        self._surface = surface
        self._shared = shared
        self._gl = gl = GL(require())
        self._host = np.zeros(surface.shape, np.uint8)
        self._pixel = (ctypes.c_ubyte * 4)()
        surface.acquire(0)  # commands are recorded for its owner
        self._draw = device.record().fill_rect(surface, (0, 0, 1, 1), (1, 1, 1, 1))
        surface.release(0)
        self._texture, self._framebuffer = gl.make("glGenTextures"), gl.make("glGenFramebuffers")
        gl.glBindTexture(_TEXTURE_2D, self._texture)
        gl.glTexStorage2D(_TEXTURE_2D, 1, _RGBA8, WIDTH, HEIGHT)
        gl.glBindFramebuffer(_FRAMEBUFFER, self._framebuffer)
        gl.glFramebufferTexture2D(_FRAMEBUFFER, _COLOR_ATTACHMENT0, _TEXTURE_2D, self._texture, 0)
        gl.check("a texture of OpenGL's own")

    def to_gl(self, n: int, *, is_drawn: bool = False) -> None:
        """Vulkan hands the frame on, and OpenGL has it as a texture."""
        for _ in range(n):
            with self._surface.access(acquire=0, release=1):
                if is_drawn:
                    self._device.submit(self._draw)
            with self._shared.access(acquire=1, release=0) as view:
                self._look(view.framebuffer, 1, 1, self._pixel)

    def drawn_to_gl(self, n: int) -> None:
        """Vulkan draws a pixel before."""
        self.to_gl(n, is_drawn=True)
        assert bytes(self._pixel) == b"\xff\xff\xff\xff"

    def uploaded(self, n: int) -> None:
        """The frame, which is in host memory already, is copied into a texture; a pixel is looked at."""
        data = self._host.ctypes.data
        for i in range(n):
            self._host[0, 0] = i & 255
            self._gl.glBindTexture(_TEXTURE_2D, self._texture)
            self._gl.glTexSubImage2D(_TEXTURE_2D, 0, 0, 0, WIDTH, HEIGHT, _RGBA, _UNSIGNED_BYTE, data)
            self._look(self._framebuffer, 1, 1, self._pixel)
        assert set(self._pixel) == {(n - 1) & 255}

    def from_gl(self, n: int) -> None:
        """OpenGL writes a pixel, and Vulkan owns the frame with what was written."""
        for _ in range(n):
            with self._shared.access(acquire=0, release=1) as view:
                self._write_pixel(view.texture)
            self._surface.acquire(1)
            self._surface._cpu_access()  # OpenGL's work, ours and theirs, has run
            self._surface.release(0)

    def read_back(self, n: int) -> None:
        """OpenGL writes a pixel, and the frame is copied to host memory: Vulkan would have to copy it once more."""
        for _ in range(n):
            self._write_pixel(self._texture)
            self._look(self._framebuffer, WIDTH, HEIGHT, self._host.ctypes.data)

    def close(self) -> None:
        self._gl.delete("glDeleteFramebuffers", self._framebuffer)
        self._gl.delete("glDeleteTextures", self._texture)

    def _look(self, framebuffer: int, width: int, height: int, into: Any) -> None:
        self._gl.glBindFramebuffer(_FRAMEBUFFER, framebuffer)
        self._gl.glReadPixels(0, 0, width, height, _RGBA, _UNSIGNED_BYTE, into)

    def _write_pixel(self, texture: int) -> None:
        self._gl.glBindTexture(_TEXTURE_2D, texture)
        self._gl.glTexSubImage2D(_TEXTURE_2D, 0, 0, 0, 1, 1, _RGBA, _UNSIGNED_BYTE, self._host.ctypes.data)
