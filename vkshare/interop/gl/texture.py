"""A texture over a part of a memory object, and the framebuffer that draws into it.

Follows GL_EXT_memory_object. Everything here works on the context that is current.
"""

from __future__ import annotations

import itertools
import os
from ctypes import c_char
from typing import Any

from vkshare.backends.base import ImageSpec
from vkshare.interop.gl.context import GL
from vkshare.interop.gl.formats import FORMATS
from vkshare.util.closing import on_error

TEXTURE_2D, _TEXTURE_BINDING_2D = 0x0DE1, 0x8069
_FRAMEBUFFER, _FRAMEBUFFER_BINDING, _READ_FRAMEBUFFER, _READ_FRAMEBUFFER_BINDING = 0x8D40, 0x8CA6, 0x8CA8, 0x8CAA
_DRAW_FRAMEBUFFER, _COLOR_ATTACHMENT0, _FRAMEBUFFER_COMPLETE = 0x8CA9, 0x8CE0, 0x8CD5
_TEXTURE_TILING = 0x9580
TILINGS = {"optimal": 0x9584, "linear": 0x9585}
_MIN_FILTER, _MAG_FILTER, _WRAP_S, _WRAP_T = 0x2801, 0x2800, 0x2802, 0x2803
_SWIZZLE_R, _SWIZZLE_B, _GL_RED, _GL_BLUE = 0x8E42, 0x8E44, 0x1903, 0x1905
_NEAREST, _LINEAR, _CLAMP_TO_EDGE = 0x2600, 0x2601, 0x812F
_LABELLED_TEXTURE = 0x1702  # GL_TEXTURE as glObjectLabel has it

_numbers = itertools.count(1)
_Text = c_char * 128  # more than a label has


class Texture:
    """A texture that begins `offset` bytes into a memory object, and its framebuffer.

    The texture has a label of its own, so that a context that came to have the same address as
    another that is gone is not taken for it: is_here() asks for it.
    """

    def __init__(self, gl: GL, spec: ImageSpec, memory: int, offset: int) -> None:
        self.gl = gl
        self.spec = spec
        self.texture = self.framebuffer = 0
        self.framebuffer_status = 0
        label = f"vkshare {os.getpid()}.{next(_numbers)}: {spec.width}x{spec.height} {spec.format}"
        self._label = label.encode()
        with on_error(self.delete):
            self._make(memory, offset)
            self._make_framebuffer()

    def is_here(self) -> bool:
        """Whether the context that is current is the one that has these objects."""
        text = _Text()
        self._labels("glGetObjectLabel")(_LABELLED_TEXTURE, self.texture, len(text), None, text)
        if text.value == self._label:
            return True
        self.gl.forget_errors()  # there is no texture of that name
        return False

    def delete(self) -> None:
        """Delete both; the context must be current."""
        for function, name in (("glDeleteFramebuffers", self.framebuffer), ("glDeleteTextures", self.texture)):
            if name:
                self.gl.delete(function, name)
        self.texture = self.framebuffer = 0

    def _make(self, memory: int, offset: int) -> None:
        gl, spec, pixel = self.gl, self.spec, FORMATS[self.spec.format.name]
        bound = gl.integer(_TEXTURE_BINDING_2D)
        self.texture = gl.make("glGenTextures")
        gl.glBindTexture(TEXTURE_2D, self.texture)
        try:
            gl.glTexParameteri(TEXTURE_2D, _TEXTURE_TILING, TILINGS[spec.tiling])
            gl.glTexStorageMem2DEXT(TEXTURE_2D, 1, pixel.internal, spec.width, spec.height, memory, offset)
            what = f"{spec.width}x{spec.height} {spec.format.name} {spec.tiling}, {offset} bytes into the memory"
            gl.check(f"glTexStorageMem2DEXT of {what}")
            # There is one mip level, and the usual filter would want more. A texture of integers with
            # a linear one is incomplete (OpenGL 4.6, 8.17).
            smooth = _NEAREST if spec.format.is_integer else _LINEAR
            for name, value in (
                (_MIN_FILTER, smooth),
                (_MAG_FILTER, smooth),
                (_WRAP_S, _CLAMP_TO_EDGE),
                (_WRAP_T, _CLAMP_TO_EDGE),
                *(((_SWIZZLE_R, _GL_BLUE), (_SWIZZLE_B, _GL_RED)) if pixel.swaps_red_and_blue else ()),
            ):
                gl.glTexParameteri(TEXTURE_2D, name, value)
            self._labels("glObjectLabel")(_LABELLED_TEXTURE, self.texture, -1, self._label)
            gl.check("glTexParameteri and glObjectLabel")
        finally:
            gl.glBindTexture(TEXTURE_2D, bound)

    def _make_framebuffer(self) -> None:
        """Where OpenGL cannot draw into the format there is none, and framebuffer_status says why."""
        gl = self.gl
        draw, read = gl.integer(_FRAMEBUFFER_BINDING), gl.integer(_READ_FRAMEBUFFER_BINDING)
        self.framebuffer = gl.make("glGenFramebuffers")
        gl.glBindFramebuffer(_FRAMEBUFFER, self.framebuffer)
        try:
            gl.glFramebufferTexture2D(_FRAMEBUFFER, _COLOR_ATTACHMENT0, TEXTURE_2D, self.texture, 0)
            self.framebuffer_status = gl.glCheckFramebufferStatus(_FRAMEBUFFER)
            gl.check("glFramebufferTexture2D")
        finally:
            gl.glBindFramebuffer(_DRAW_FRAMEBUFFER, draw)
            gl.glBindFramebuffer(_READ_FRAMEBUFFER, read)
        if self.framebuffer_status != _FRAMEBUFFER_COMPLETE:
            gl.delete("glDeleteFramebuffers", self.framebuffer)
            self.framebuffer = 0

    def _labels(self, name: str) -> Any:
        return getattr(self.gl, name + "KHR" if self.gl.is_es else name)
