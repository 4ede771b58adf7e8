"""moderngl: its Texture and its Framebuffer over a surface's own memory, without a copy.

    shared = vks.interop.gl.open(surface)               # in the context that moderngl uses
    texture = vks.engines.moderngl.texture(shared)
    with shared.access(acquire=1, release=0):
        texture.use(0)

Follows moderngl 5.12: Context.external_texture() and Context.detect_framebuffer().
"""

from __future__ import annotations

from typing import Any

from vkshare.engines import packages
from vkshare.interop.gl import GLSurface
from vkshare.util import arguments

__all__ = ["framebuffer", "texture"]


def texture(shared: GLSurface, context: Any = None) -> Any:
    """Returns the surface as a moderngl.Texture, without a copy.

    Row 0 of the surface, its top, is at t = 0. The texture is used inside ``shared.access()``, and
    its release leaves the surface's memory and texture alone. Belongs to the thread of the context.

    Parameters
    ----------
    shared
        The surface, opened by ``vks.interop.gl.open()`` in moderngl's context.
    context
        The moderngl.Context; None: ``moderngl.get_context()``.

    Returns
    -------
    moderngl.Texture
        Valid until `shared` is closed.

    Raises
    ------
    UnsupportedError
        moderngl is not installed.
    InvalidCallError
        No context is current in this thread, or another one than the surface's.
    ClosedError
        `shared` is closed.
    TypeError
        An argument is not of the types above.
    """
    own = _context(shared, context)
    return shared.moderngl_texture(own)


def framebuffer(shared: GLSurface, context: Any = None) -> Any:
    """Returns a moderngl.Framebuffer that draws into the surface, without a copy.

    Row 0 of the surface, its top, is at y = 0. The framebuffer is used inside ``shared.access()``.
    Belongs to the thread of the context.

    Parameters
    ----------
    shared, context
        As texture().

    Returns
    -------
    moderngl.Framebuffer
        Valid until `shared` is closed.

    Raises
    ------
    UnsupportedError
        moderngl is not installed, or this driver does not draw into the surface's format.
    InvalidCallError, ClosedError, TypeError
        As texture().
    """
    return _context(shared, context).detect_framebuffer(shared.framebuffer)


def _context(shared: GLSurface, context: Any) -> Any:
    arguments.instance("shared", shared, GLSurface, "vkshare.interop.gl.GLSurface")
    package = packages.load("moderngl", "moderngl")
    shared._require_here()
    context = package.get_context() if context is None else context
    arguments.instance("context", context, package.Context, "moderngl.Context")
    return context
