"""A trial: whether textures of a context begin at the offset that glTexStorageMem2DEXT is given.

Mesa's llvmpipe puts each texture at the start of its memory object and reports no error, so that all
planes of a surface would be the first one's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from ctypes import c_float

from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError
from vkshare.interop.gl import order
from vkshare.interop.gl.context import GL
from vkshare.interop.gl.memory import SharedImage

_FRAMEBUFFER, _FRAMEBUFFER_BINDING, _READ_FRAMEBUFFER_BINDING = 0x8D40, 0x8CA6, 0x8CAA
_DRAW_FRAMEBUFFER, _READ_FRAMEBUFFER, _COLOR, _SCISSOR_TEST = 0x8CA9, 0x8CA8, 0x1800, 0x0C11
_SIDE = 16  # pixels
_FULL = (c_float * 4)(1, 1, 1, 1)

_found: dict[tuple[str, bytes, str], bool] = {}  # by context's driver, device and tiling


def check(gl: GL, surface: Surface) -> None:
    """UnsupportedError where textures of planes would not be in their places. Tried once, in a surface of its own."""
    device = surface.device
    key = gl.describe(), device.capabilities.device_uuid, surface.tiling
    if key not in _found:
        _found[key] = _begin_in_place(gl, surface)
    if not _found[key]:
        raise UnsupportedError(
            f"OpenGL textures of planes ({surface.tiling} {surface.format})",
            f"the {gl.describe()} lets each texture begin at the start of its memory, whatever offset it is given",
            "give each plane a surface of its own (r8unorm, rg8unorm ...), or blit() the picture into an rgba8unorm "
            "surface",
        )


def _begin_in_place(gl: GL, surface: Surface) -> bool:
    """Fill the second plane of three with OpenGL, and look with Vulkan whether the first one has changed."""
    with surface.device.create_surface(_SIDE, _SIDE, "yuv444p", tiling=surface.tiling) as tried:
        shared = SharedImage(gl, tried)
        ordered = None
        try:
            ordered = order.choose(gl, tried)
            tried.acquire(0)
            ordered.begin(shared.names)
            _fill(gl, shared.textures[1].framebuffer)
            ordered.end(shared.names)
            return not tried.read_planes()[0].any()
        finally:
            if ordered is not None:
                ordered.delete()
                ordered.close()
            shared.delete()


def _fill(gl: GL, framebuffer: int) -> None:
    with _bound(gl, framebuffer):
        is_cut = gl.glIsEnabled(_SCISSOR_TEST)
        gl.glDisable(_SCISSOR_TEST)
        gl.glClearBufferfv(_COLOR, 0, _FULL)
        if is_cut:
            gl.glEnable(_SCISSOR_TEST)
        gl.check("glClearBufferfv of a plane")


@contextlib.contextmanager
def _bound(gl: GL, framebuffer: int) -> Iterator[None]:
    draw, read = gl.integer(_FRAMEBUFFER_BINDING), gl.integer(_READ_FRAMEBUFFER_BINDING)
    gl.glBindFramebuffer(_FRAMEBUFFER, framebuffer)
    try:
        yield
    finally:
        gl.glBindFramebuffer(_DRAW_FRAMEBUFFER, draw)
        gl.glBindFramebuffer(_READ_FRAMEBUFFER, read)
