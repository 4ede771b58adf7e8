"""The objects of OpenGL over a surface's memory: memory object, texture, framebuffer.

Follows GL_EXT_memory_object and GL_EXT_memory_object_fd. Everything here works on the context that
is current.
"""

from __future__ import annotations

import itertools
import os
import uuid
from ctypes import c_char, c_int
from typing import Any

from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.core.surface import Surface
from vkshare.errors import DeviceMismatchError, UnsupportedError
from vkshare.interop.gl.context import GL
from vkshare.interop.gl.formats import FORMATS
from vkshare.util.closing import on_error

TEXTURE_2D, _TEXTURE_BINDING_2D, _MAX_TEXTURE_SIZE = 0x0DE1, 0x8069, 0x0D33
_FRAMEBUFFER, _FRAMEBUFFER_BINDING, _READ_FRAMEBUFFER, _READ_FRAMEBUFFER_BINDING = 0x8D40, 0x8CA6, 0x8CA8, 0x8CAA
_DRAW_FRAMEBUFFER, _COLOR_ATTACHMENT0, _FRAMEBUFFER_COMPLETE = 0x8CA9, 0x8CE0, 0x8CD5
_TEXTURE_TILING, _DEDICATED_MEMORY_OBJECT, _NUM_TILING_TYPES, _TILING_TYPES = 0x9580, 0x9581, 0x9582, 0x9583
_TILINGS = {"optimal": 0x9584, "linear": 0x9585}
_HANDLE_TYPE_OPAQUE_FD = 0x9586
_MIN_FILTER, _MAG_FILTER, _WRAP_S, _WRAP_T = 0x2801, 0x2800, 0x2802, 0x2803
_SWIZZLE_R, _SWIZZLE_B, _GL_RED, _GL_BLUE = 0x8E42, 0x8E44, 0x1903, 0x1905
_NEAREST, _LINEAR, _CLAMP_TO_EDGE = 0x2600, 0x2601, 0x812F
_LABELLED_TEXTURE = 0x1702  # GL_TEXTURE as glObjectLabel has it

_NEEDED = ("GL_EXT_memory_object", "GL_EXT_memory_object_fd", "GL_KHR_debug")
_numbers = itertools.count(1)
_Text = c_char * 128  # more than a label has


class SharedTexture:
    """A texture over a surface's memory, the framebuffer that draws into it, and the memory object below them.

    The texture has a label of its own, so that a context that came to have the same address as
    another that is gone is not taken for it: is_here() asks for it.
    """

    def __init__(self, gl: GL, surface: Surface) -> None:
        self.gl = gl
        self.memory = self.texture = self.framebuffer = 0
        self.framebuffer_status = 0
        label = f"vkshare {os.getpid()}.{next(_numbers)}: {surface.width}x{surface.height} {surface.format}"
        self._label = label.encode()
        check(gl, surface)
        gl.forget_errors()
        with on_error(self.delete):
            with surface._exported():  # hands the image over to other users
                self._import(surface)
            self._make_texture(surface.spec)
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
        """Deletes what there is; the context must be current. OpenGL keeps the memory for as long as it uses it."""
        for function, name in (
            ("glDeleteFramebuffers", self.framebuffer),
            ("glDeleteTextures", self.texture),
            ("glDeleteMemoryObjectsEXT", self.memory),
        ):
            if name:
                self.gl.delete(function, name)
        self.memory = self.texture = self.framebuffer = 0

    def _import(self, surface: Surface) -> None:
        with surface.device._active_call(), surface.device._lock:  # one at a time: the image looks for the new mapping
            image: Any = surface._open_image()
            image.import_elsewhere(self._import_memory)

    def _import_memory(self, memory: MemoryHandle) -> None:
        gl = self.gl
        self.memory = gl.make("glCreateMemoryObjectsEXT")
        if memory.dedicated:
            gl.glMemoryObjectParameterivEXT(self.memory, _DEDICATED_MEMORY_OBJECT, c_int(1))
        gl.check("glCreateMemoryObjectsEXT")
        gl.glImportMemoryFdEXT(self.memory, memory.size, _HANDLE_TYPE_OPAQUE_FD, memory.fd)
        gl.check(f"glImportMemoryFdEXT of {memory.size} bytes")
        self._offset = memory.offset

    def _make_texture(self, spec: ImageSpec) -> None:
        gl, pixel = self.gl, FORMATS[spec.format.name]
        bound = gl.integer(_TEXTURE_BINDING_2D)
        self.texture = gl.make("glGenTextures")
        gl.glBindTexture(TEXTURE_2D, self.texture)
        try:
            gl.glTexParameteri(TEXTURE_2D, _TEXTURE_TILING, _TILINGS[spec.tiling])
            gl.glTexStorageMem2DEXT(TEXTURE_2D, 1, pixel.internal, spec.width, spec.height, self.memory, self._offset)
            gl.check(f"glTexStorageMem2DEXT of {spec.width}x{spec.height} {spec.format.name} {spec.tiling}")
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


def check(gl: GL, surface: Surface) -> None:
    """Whether the surface can be opened there: UnsupportedError or DeviceMismatchError where it cannot."""
    what = f"an OpenGL texture of a {surface.tiling} {surface.format} surface"
    if surface.device.backend != "vulkan":
        raise UnsupportedError(
            what,
            "its memory is the CPU backend's, which OpenGL cannot import",
            "copy view.array with glTexSubImage2D, or create the surface on a Vulkan device of the context's GPU",
        )
    missing = [name for name in _NEEDED if name not in gl.extensions]
    if missing:
        raise UnsupportedError(
            what,
            f"the {gl.describe()} has no {' and no '.join(missing)}",
            "use a context of a driver that has it (vks.interop.gl.egl_context(device)), or view.array and "
            "glTexSubImage2D",
        )
    _check_uuids(gl, surface)
    if surface.spec.format.is_planar:
        hint = "blit() it into an rgba8unorm surface, and open that"
        raise UnsupportedError(what, "planes are not shared with OpenGL", hint)
    if surface.format not in FORMATS:
        why = "depth is not shared with OpenGL" if surface.spec.format.is_depth else "OpenGL has no such format"
        raise UnsupportedError(what, why, f"allowed are {', '.join(FORMATS)}")
    largest = gl.integer(_MAX_TEXTURE_SIZE)
    if max(surface.width, surface.height) > largest:
        raise UnsupportedError(
            what, f"it is {surface.width}x{surface.height}, and the {gl.describe()} has textures of {largest} at most"
        )
    _check_tiling(gl, surface, what)


def _check_uuids(gl: GL, surface: Surface) -> None:
    """The same device and the same driver, as GL_EXT_memory_object demands for importing an opaque fd."""
    here = surface.device.capabilities
    devices, driver = gl.uuids()
    if here.device_uuid in devices and here.driver_uuid == driver:
        return
    devices_text = ", ".join(str(uuid.UUID(bytes=each)) for each in devices)
    raise DeviceMismatchError(
        f"the surface's memory is of {surface.device.adapter.name} (device {uuid.UUID(bytes=here.device_uuid)}, driver "
        f"{uuid.UUID(bytes=here.driver_uuid)}), and the {gl.describe()} is on device {devices_text}, driver "
        f"{uuid.UUID(bytes=driver)}: make the context on the surface's GPU (vks.interop.gl.egl_context(device) finds "
        "it), or open the surface's device on the context's"
    )


def _check_tiling(gl: GL, surface: Surface, what: str) -> None:
    if gl.is_es:
        return  # ES cannot be asked; glTexStorageMem2DEXT will tell
    internal = FORMATS[surface.format].internal
    count = c_int()
    gl.glGetInternalformativ(TEXTURE_2D, internal, _NUM_TILING_TYPES, 1, count)
    types = (c_int * max(1, count.value))()
    gl.glGetInternalformativ(TEXTURE_2D, internal, _TILING_TYPES, count.value, types)
    if _TILINGS[surface.tiling] not in types[: count.value]:
        there = [name for name, code in _TILINGS.items() if code in types[: count.value]]
        raise UnsupportedError(
            what,
            f"the {gl.describe()} imports {' and '.join(there) or 'no'} tiling of that format",
            "".join(f'create_surface(..., tiling="{name}")' for name in there),
        )
