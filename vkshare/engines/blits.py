"""One copy on the GPU between a surface and a framebuffer of an engine: glBlitFramebuffer (OpenGL 4.6, 18.3.1).

A framebuffer's y = 0 is its bottom, and a surface's row 0 its top: each copy turns the picture over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from ctypes import c_int

from vkshare.errors import UnsupportedError
from vkshare.interop.gl import GLSurface, GLView
from vkshare.interop.gl.context import GL, GLError
from vkshare.interop.gl.texture import TEXTURE_2D

_DRAW, _READ, _DRAW_BINDING, _READ_BINDING = 0x8CA9, 0x8CA8, 0x8CA6, 0x8CAA
_TEXTURE_BINDING_2D, _TEXTURE_WIDTH, _TEXTURE_HEIGHT = 0x8069, 0x1000, 0x1001
_FRAMEBUFFER, _COLOR_ATTACHMENT0, _FRAMEBUFFER_COMPLETE = 0x8D40, 0x8CE0, 0x8CD5
_COLOR_BUFFER_BIT, _NEAREST, _LINEAR = 0x4000, 0x2600, 0x2601
# A program may have these enabled, and they change the pixels of a copy.
_CHANGES = {"GL_SCISSOR_TEST": 0x0C11, "GL_FRAMEBUFFER_SRGB": 0x8DB9}
_NO_COLOURS = ("r32uint",)


def into_surface(view: GLView, framebuffer: int, width: int, height: int) -> None:
    """Copy a framebuffer's picture of that size over the whole surface, scaled where the sizes differ."""
    to_width, to_height = view.size
    _blit(view, framebuffer, view.framebuffer, (0, 0, width, height), (0, to_height, to_width, 0))


def from_surface(view: GLView, framebuffer: int, width: int, height: int) -> None:
    """Copy the surface over a framebuffer of that size, scaled where the sizes differ."""
    _blit(view, view.framebuffer, framebuffer, (0, 0, *view.size), (0, height, width, 0))


def texture_size(gl: GL, texture: int) -> tuple[int, int]:
    """Return the (width, height) of a 2D texture's storage; (0, 0) where it has none."""
    bound = gl.integer(_TEXTURE_BINDING_2D)
    size = []
    gl.glBindTexture(TEXTURE_2D, texture)
    for each in (_TEXTURE_WIDTH, _TEXTURE_HEIGHT):
        value = c_int()
        gl.glGetTexLevelParameteriv(TEXTURE_2D, 0, each, value)
        size.append(value.value)
    gl.glBindTexture(TEXTURE_2D, bound)
    return size[0], size[1]


@contextlib.contextmanager
def framebuffer_of(gl: GL, texture: int) -> Iterator[int]:
    """Make a framebuffer of an engine's 2D texture for the block: its name.

    Raises
    ------
    GLError
        OpenGL has no such texture, or cannot draw into its format.
    """
    gl.forget_errors()
    kept = gl.integer(_DRAW_BINDING), gl.integer(_READ_BINDING)
    made = gl.make("glGenFramebuffers")
    try:
        gl.glBindFramebuffer(_FRAMEBUFFER, made)
        gl.glFramebufferTexture2D(_FRAMEBUFFER, _COLOR_ATTACHMENT0, TEXTURE_2D, texture, 0)
        status = gl.glCheckFramebufferStatus(_FRAMEBUFFER)
        gl.glBindFramebuffer(_DRAW, kept[0])
        gl.glBindFramebuffer(_READ, kept[1])
        gl.check(f"glFramebufferTexture2D of texture {texture}")
        if status != _FRAMEBUFFER_COMPLETE:
            raise GLError(status, f"glCheckFramebufferStatus of texture {texture}")
        yield made
    finally:
        gl.delete("glDeleteFramebuffers", made)


def check_format(shared: GLSurface, what: str) -> None:
    """Refuse a surface whose colours a copy would exchange or cannot convert.

    Raises
    ------
    UnsupportedError
        The text names the formats to use.
    """
    name = shared.surface.format
    if shared.swaps_red_and_blue:
        why = "OpenGL has no such format, so the copy would exchange red and blue"
    elif name in _NO_COLOURS:
        why = "OpenGL copies no colours into whole numbers"
    else:
        return
    raise UnsupportedError(f"{what} a {name} surface", why, 'create the surface with format "rgba8unorm"')


def _blit(
    view: GLView, source: int, target: int, read: tuple[int, int, int, int], draw: tuple[int, int, int, int]
) -> None:
    check_format(view.gl_surface, "a copy between an engine's framebuffer and")
    gl = view.gl_surface._require_here().gl
    is_scaled = abs(read[2] - read[0]) != abs(draw[2] - draw[0]) or abs(read[3] - read[1]) != abs(draw[3] - draw[1])
    gl.forget_errors()
    with _kept(gl):
        gl.glBindFramebuffer(_READ, source)
        gl.glBindFramebuffer(_DRAW, target)
        gl.glBlitFramebuffer(*read, *draw, _COLOR_BUFFER_BIT, _LINEAR if is_scaled else _NEAREST)
        gl.check(f"glBlitFramebuffer from framebuffer {source} to {target}")


@contextlib.contextmanager
def _kept(gl: GL) -> Iterator[None]:
    """Keep the engine's bindings, and disable meanwhile what would change pixels."""
    bound = gl.integer(_DRAW_BINDING), gl.integer(_READ_BINDING)
    enabled = [cap for cap in _CHANGES.values() if gl.glIsEnabled(cap)]
    for cap in enabled:
        gl.glDisable(cap)
    try:
        yield
    finally:
        for cap in enabled:
            gl.glEnable(cap)
        gl.glBindFramebuffer(_DRAW, bound[0])
        gl.glBindFramebuffer(_READ, bound[1])
