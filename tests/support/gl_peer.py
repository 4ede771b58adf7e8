"""OpenGL as a party of a test: draws and reads through a GLSurface, here or in a peer."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

import numpy as np

import vkshare as vks
from support.run_volumes import seeded
from vkshare.interop.gl import GLPlane, GLSurface, GLView
from vkshare.interop.gl.context import GL, require

_FRAMEBUFFER, _TEXTURE_2D, _COLOR_BUFFER_BIT = 0x8D40, 0x0DE1, 0x4000
_PACK_ALIGNMENT, _UNPACK_ALIGNMENT = 0x0D05, 0x0CF5


def functions() -> GL:
    """Of the context that is current."""
    gl = GL(require())
    gl.glPixelStorei(_PACK_ALIGNMENT, 1)
    gl.glPixelStorei(_UNPACK_ALIGNMENT, 1)
    return gl


def poison(surface: Any) -> np.ndarray[Any, Any]:
    """An array of the surface's shape that no test draws."""
    return np.full(surface.shape, 0xA5, np.uint8).astype(surface.spec.format.dtype)


def read(gl: GL, view: GLView) -> np.ndarray[Any, Any]:
    """The surface's pixels as they are stored, by glReadPixels."""
    shared = view.gl_surface
    pixels = poison(shared.surface)
    gl.glBindFramebuffer(_FRAMEBUFFER, view.framebuffer)
    gl.glReadPixels(0, 0, *view.size, *shared.transfer, pixels.ctypes.data)
    gl.glBindFramebuffer(_FRAMEBUFFER, 0)
    gl.check("glReadPixels")
    return pixels


def write(gl: GL, view: GLView, pixels: np.ndarray[Any, Any]) -> None:
    """Stores pixels as they are, by glTexSubImage2D."""
    assert pixels.shape == view.gl_surface.surface.shape
    gl.glBindTexture(_TEXTURE_2D, view.texture)
    gl.glTexSubImage2D(_TEXTURE_2D, 0, 0, 0, *view.size, *view.gl_surface.transfer, pixels.ctypes.data)
    gl.glBindTexture(_TEXTURE_2D, 0)
    gl.check("glTexSubImage2D")


def read_plane(gl: GL, plane: GLPlane, wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A plane's pixels as they are stored, of the shape and type of `wanted`, by glReadPixels."""
    pixels = np.full(wanted.shape, 0xA5, np.uint8).astype(wanted.dtype)
    gl.glBindFramebuffer(_FRAMEBUFFER, plane.framebuffer)
    gl.glReadPixels(0, 0, *plane.size, *plane.transfer, pixels.ctypes.data)
    gl.glBindFramebuffer(_FRAMEBUFFER, 0)
    gl.check(f"glReadPixels of {plane!r}")
    return pixels


def write_plane(gl: GL, plane: GLPlane, pixels: np.ndarray[Any, Any]) -> None:
    """Stores a plane's pixels as they are, by glTexSubImage2D."""
    assert pixels.shape[1::-1] == plane.size
    gl.glBindTexture(_TEXTURE_2D, plane.texture)
    gl.glTexSubImage2D(_TEXTURE_2D, 0, 0, 0, *plane.size, *plane.transfer, np.ascontiguousarray(pixels).ctypes.data)
    gl.glBindTexture(_TEXTURE_2D, 0)
    gl.check(f"glTexSubImage2D of {plane!r}")


def clear_plane(gl: GL, plane: GLPlane, value: float) -> None:
    """A plane in one value, drawn by OpenGL and not waited for."""
    gl.glBindFramebuffer(_FRAMEBUFFER, plane.framebuffer)
    gl.glClearColor(value, value, value, value)
    gl.glClear(_COLOR_BUFFER_BIT)
    gl.glBindFramebuffer(_FRAMEBUFFER, 0)
    gl.check(f"glClear of {plane!r}")


def clear(gl: GL, view: GLView, colour: Sequence[float]) -> None:
    """The whole surface in one colour, drawn by OpenGL and not waited for."""
    gl.glBindFramebuffer(_FRAMEBUFFER, view.framebuffer)
    gl.glClearColor(*colour)
    gl.glClear(_COLOR_BUFFER_BIT)
    gl.glBindFramebuffer(_FRAMEBUFFER, 0)
    gl.check("glClear")


def is_texture(gl: GL, name: int) -> bool:
    """Whether the context has a texture of that name."""
    return bool(gl.glIsTexture(name))


def new_texture(gl: GL) -> int:
    """A texture of the program's own."""
    name = gl.make("glGenTextures")
    gl.glBindTexture(_TEXTURE_2D, name)  # that makes it one
    gl.glBindTexture(_TEXTURE_2D, 0)
    return name


def tilings(device: vks.Device, name: str = "rgba8unorm") -> list[str]:
    """Those in which OpenGL opens surfaces of that format, in the context that is current.

    All of them, but for a GPU whose OpenGL knows no linear textures of it.
    """
    there = sorted(device.capabilities.tilings)
    for tiling in there:
        try:
            with device.create_surface(8, 8, name, tiling=tiling) as surface:
                vks.interop.gl.open(surface).close()
        except vks.UnsupportedError:
            assert (device.adapter.kind, tiling) == ("gpu", "linear")
            there = ["optimal"]
    return there


def random_pixels(surface: Any, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Any bytes; finite numbers where they are floats, of which OpenGL may change the others."""
    pixel = surface.spec.format
    if pixel.dtype.startswith("float"):
        return (random.random(surface.shape) * 100 - 50).astype(pixel.dtype)
    size = surface.width * surface.height * pixel.bytes_per_pixel
    return random.integers(0, 256, size, np.uint8).view(pixel.dtype).reshape(surface.shape)


# ---- roles ----------------------------------------------------------------------------------------------------------


def answer(device: vks.Device, surface: vks.Surface, rounds: int) -> str:
    """Takes each picture that comes with key 1, checks nothing, and hands it on inverted with key 0."""
    with vks.interop.gl.egl_context(device), vks.interop.gl.open(surface) as shared:
        gl = functions()
        for _ in range(rounds):
            with shared.access(acquire=1, release=0, timeout=30) as view:
                write(gl, view, ~read(gl, view))
        assert shared.statistics().accesses == rounds
        return shared.order


def answer_in_planes(device: vks.Device, surface: vks.Surface, rounds: int) -> str:
    """Takes each picture that comes with key 1, and hands it on with key 0, all bits of all planes inverted."""
    with vks.interop.gl.egl_context(device), vks.interop.gl.open(surface) as shared:
        gl = functions()
        for _ in range(rounds):
            with shared.access(acquire=1, release=0, timeout=30) as view:
                for plane, form in zip(view.planes, surface.spec.format.planes, strict=True):
                    shape = (*plane.size[::-1], form.channels)
                    write_plane(gl, plane, ~read_plane(gl, plane, np.empty(shape, form.numpy_dtype)))
        return shared.order


def own_and_die(device: vks.Device, surface: vks.Surface) -> None:
    """Ends in the middle of a frame."""
    context = vks.interop.gl.egl_context(device)
    context.make_current()
    shared: GLSurface = vks.interop.gl.open(surface)
    with shared.access(acquire=1, release=0, timeout=30) as view:
        clear(functions(), view, (1, 0, 0, 1))
        os.kill(os.getpid(), signal.SIGKILL)


def take_turns(device: vks.Device, shared: GLSurface, turns: int, layers: int) -> None:
    """Vulkan and OpenGL draw in turns, each so many layers that take longer than a hand-over: who does not wait for the
    other sees an old picture.
    """
    gl, dice, surface = functions(), seeded(), shared.surface
    for _ in range(turns):
        values = [dice.randrange(256) for _ in range(8)]
        mine, theirs = values[:4], values[4:]
        with surface.access(acquire=0, release=1) as view:
            commands = device.record()
            for _ in range(layers):
                commands.clear(view, tuple(1 - v / 255 for v in mine))
            device.submit(commands.clear(view, tuple(v / 255 for v in mine)))
        with shared.access(acquire=1, release=2) as drawn:
            assert (read(gl, drawn) == mine).all()
            for _ in range(layers):
                clear(gl, drawn, [1 - v / 255 for v in theirs])
            clear(gl, drawn, [v / 255 for v in theirs])
        with surface.access(acquire=2, release=0):
            assert (surface.read() == theirs).all()
