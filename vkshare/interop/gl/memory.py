"""The objects of OpenGL over a surface's memory: memory object, and a texture and a framebuffer for each plane.

Follows GL_EXT_memory_object and GL_EXT_memory_object_fd. Everything here works on the context that
is current.
"""

from __future__ import annotations

import uuid
from ctypes import c_int
from typing import Any

from vkshare.backends.base import MemoryHandle
from vkshare.core.surface import Surface
from vkshare.errors import DeviceMismatchError, UnsupportedError
from vkshare.formats import Format
from vkshare.interop.gl.context import GL
from vkshare.interop.gl.formats import FORMATS
from vkshare.interop.gl.texture import TEXTURE_2D, TILINGS, Texture
from vkshare.util.closing import on_error

_MAX_TEXTURE_SIZE = 0x0D33
_DEDICATED_MEMORY_OBJECT, _NUM_TILING_TYPES, _TILING_TYPES = 0x9581, 0x9582, 0x9583
_HANDLE_TYPE_OPAQUE_FD = 0x9586

_NEEDED = ("GL_EXT_memory_object", "GL_EXT_memory_object_fd", "GL_KHR_debug")


class SharedImage:
    """A memory object over a surface's memory, and a texture for each of its planes, luma first."""

    def __init__(self, gl: GL, surface: Surface) -> None:
        self.gl = gl
        self.memory = self._offset = 0
        self.textures: list[Texture] = []
        check(gl, surface)
        gl.forget_errors()
        with on_error(self.delete):
            with surface._exported():  # hands the image over to other users
                offsets = self._import(surface)
            for spec, offset in zip(surface.spec.planes(), offsets, strict=True):
                self.textures.append(Texture(gl, spec, self.memory, self._offset + offset))

    @property
    def names(self) -> list[int]:
        """The textures' names."""
        return [each.texture for each in self.textures]

    def is_here(self) -> bool:
        """Whether the context that is current is the one that has these objects."""
        return self.textures[0].is_here()

    def delete(self) -> None:
        """Deletes what there is; the context must be current. OpenGL keeps the memory for as long as it uses it."""
        textures, self.textures = self.textures, []
        for each in textures:
            each.delete()
        if self.memory:
            self.gl.delete("glDeleteMemoryObjectsEXT", self.memory)
        self.memory = 0

    def count(self) -> int:
        """The objects of OpenGL that there are."""
        names = [self.memory, *self.names, *(each.framebuffer for each in self.textures)]
        return sum(map(bool, names))

    def _import(self, surface: Surface) -> list[int]:
        """Import the memory. Returns where in it the planes begin, in bytes from its image."""
        with surface.device._active_call(), surface.device._lock:  # one at a time: the image looks for the new mapping
            image: Any = surface._open_image()
            image.import_elsewhere(self._import_memory)
            return list(image.bound_at) if surface.spec.format.is_planar else [0]

    def _import_memory(self, memory: MemoryHandle) -> None:
        gl = self.gl
        self.memory = gl.make("glCreateMemoryObjectsEXT")
        if memory.dedicated:
            gl.glMemoryObjectParameterivEXT(self.memory, _DEDICATED_MEMORY_OBJECT, c_int(1))
        gl.check("glCreateMemoryObjectsEXT")
        gl.glImportMemoryFdEXT(self.memory, memory.size, _HANDLE_TYPE_OPAQUE_FD, memory.fd)
        gl.check(f"glImportMemoryFdEXT of {memory.size} bytes")
        self._offset = memory.offset


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
    if any(plane.name not in FORMATS for plane in surface.spec.format.planes):
        why = "depth is not shared with OpenGL" if surface.spec.format.is_depth else "OpenGL has no such format"
        raise UnsupportedError(what, why, f"allowed are {', '.join(FORMATS)}")
    largest = gl.integer(_MAX_TEXTURE_SIZE)
    if max(surface.width, surface.height) > largest:
        raise UnsupportedError(
            what, f"it is {surface.width}x{surface.height}, and the {gl.describe()} has textures of {largest} at most"
        )
    for plane in surface.spec.format.planes:
        _check_tiling(gl, surface.tiling, plane, what)


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


def _check_tiling(gl: GL, tiling: str, form: Format, what: str) -> None:
    if gl.is_es:
        return  # ES cannot be asked; glTexStorageMem2DEXT will tell
    internal = FORMATS[form.name].internal
    count = c_int()
    gl.glGetInternalformativ(TEXTURE_2D, internal, _NUM_TILING_TYPES, 1, count)
    types = (c_int * max(1, count.value))()
    gl.glGetInternalformativ(TEXTURE_2D, internal, _TILING_TYPES, count.value, types)
    if TILINGS[tiling] not in types[: count.value]:
        there = [name for name, code in TILINGS.items() if code in types[: count.value]]
        raise UnsupportedError(
            what,
            f"the {gl.describe()} imports {' and '.join(there) or 'no'} tiling of {form.name}",
            "".join(f'create_surface(..., tiling="{name}")' for name in there),
        )
