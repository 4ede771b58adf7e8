"""pyglet, and arcade on it: a surface as its own Texture, and what it draws straight in a surface, without a copy.

    shared = vks.interop.gl.open(surface)               # in the window's context
    sprite = pyglet.sprite.Sprite(vks.engines.pyglet.texture(shared))
    with shared.access(acquire=1, release=0):
        sprite.draw()

Follows pyglet 2.1: image.Texture, gl.Context and window.Window.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator
from typing import Any

from vkshare.engines import packages
from vkshare.errors import InvalidCallError
from vkshare.interop.gl import GLSurface, GLView
from vkshare.util import arguments

__all__ = ["drawing", "texture"]

_FRAMEBUFFER, _DRAW_BINDING = 0x8D40, 0x8CA6
_UPRIGHT = (0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0)  # pyglet's corners from the bottom left; t = 0 is the surface's top


def texture(shared: GLSurface) -> Any:
    """Returns the surface as a pyglet.image.Texture that pyglet draws upright, without a copy.

    The texture is used inside ``shared.access()``. Its delete() and its end leave the surface's
    memory and texture alone. Belongs to the thread of the context.

    Parameters
    ----------
    shared
        The surface, opened by ``vks.interop.gl.open()`` in the context of a pyglet window.

    Returns
    -------
    pyglet.image.Texture
        For sprites, regions, groups and shaders; valid until `shared` is closed.

    Raises
    ------
    UnsupportedError
        pyglet is not installed.
    InvalidCallError
        No context is current in this thread, or another one than the surface's, or it is not
        pyglet's.
    ClosedError
        `shared` is closed.
    TypeError
        `shared` is no GLSurface.
    """
    arguments.instance("shared", shared, GLSurface, "vkshare.interop.gl.GLSurface")
    _check_context(shared, getattr(_loaded("gl"), "current_context", None), "the current context of pyglet")
    return _texture_class()(shared)


@contextlib.contextmanager
def drawing(view: GLView, window: Any) -> Iterator[None]:
    """Lets pyglet draw into the surface inside ``with drawing(view, window):``, upright and without a copy.

    The window's projection is multiplied by one that turns the picture over, and its viewport is
    the surface's size, so pixel (0, 0) of pyglet is the surface's lower left corner. Both, and the
    framebuffer, are the window's again after the block.

    Parameters
    ----------
    view
        The view of ``with shared.access() as view:``.
    window
        The pyglet.window.Window in whose context the surface was opened.

    Yields
    ------
    None
        Batches, sprites and labels draw as into a window of the surface's size.

    Raises
    ------
    UnsupportedError
        pyglet is not installed, or this driver does not draw into the surface's format.
    InvalidCallError
        The view is over, or the surface was opened in another context than the window's.
    TypeError
        `view` is no GLView, or `window` no pyglet.window.Window.
    """
    arguments.instance("view", view, GLView, "vkshare.interop.gl.GLView")
    arguments.instance("window", window, getattr(_loaded("window"), "BaseWindow", _NoWindow), "pyglet.window.Window")
    _check_context(view.gl_surface, window.context, "the window's context")
    gl = view.gl_surface._require_here().gl
    width, height = view.size
    kept = gl.integer(_DRAW_BINDING), window.viewport, window.projection
    gl.glBindFramebuffer(_FRAMEBUFFER, view.framebuffer)
    try:
        gl.glViewport(0, 0, width, height)
        matrix = type(window.projection)
        window.projection = matrix.orthogonal_projection(0, width, height, 0, -8192, 8192)  # y = 0 is at NDC's top
        yield
    finally:
        gl.glBindFramebuffer(_FRAMEBUFFER, kept[0])
        window.viewport, window.projection = kept[1:]


class _NoWindow:
    """Stands for pyglet's windows while there can be none."""


def _loaded(module: str) -> Any:
    """A module of pyglet's, None where the program does not use it: its import would make another context current."""
    packages.load("pyglet", "pyglet")
    return sys.modules.get(f"pyglet.{module}")


def _check_context(shared: GLSurface, context: Any, what: str) -> None:
    """InvalidCallError unless the surface's context is current and is that object of pyglet's."""
    own = shared._require_here().gl.context
    handle = getattr(context, "glx_context", None) or getattr(context, "egl_context", None)
    if handle is None:
        raise InvalidCallError(f"the {own} is not pyglet's: open the surface in the context of a pyglet.window.Window")
    address = ctypes.cast(handle, ctypes.c_void_p).value
    if address != own.handle:
        raise InvalidCallError(f"{shared!r} belongs to the {own}, and {what} is 0x{address:x}")


@functools.cache
def _texture_class() -> type:
    """A pyglet.image.Texture whose end leaves OpenGL's texture to the GLSurface."""
    image = packages.load("pyglet", "pyglet.image")

    class SurfaceTexture(image.Texture):  # type: ignore[misc, name-defined, unused-ignore]
        tex_coords = _UPRIGHT

        def __init__(self, shared: GLSurface) -> None:
            surface = shared.surface
            super().__init__(surface.width, surface.height, shared.target, shared.texture)

        def delete(self) -> None:
            self.id = None

        def __del__(self) -> None:
            pass

    return SurfaceTexture
