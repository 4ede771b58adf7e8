"""The block in which OpenGL owns a surface, and what it sees of it there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from vkshare.errors import InvalidCallError
from vkshare.interop.block import Block

if TYPE_CHECKING:
    from vkshare.interop.gl.plane import GLPlane
    from vkshare.interop.gl.surface import GLSurface


class GLBlock(Block["GLView"]):
    """The context manager of ``GLSurface.access()`` and ``within()``, in which OpenGL may use the surface."""

    __slots__ = ()
    _log = logging.getLogger("vkshare.gl")


class GLView:
    """A surface in OpenGL inside ``with shared.access() as view:``. After the block it refuses every use."""

    __slots__ = ("__weakref__", "_shared")

    def __init__(self, shared: GLSurface) -> None:
        self._shared: GLSurface | None = shared

    @property
    def gl_surface(self) -> GLSurface:
        """The GLSurface of the view."""
        if self._shared is None:
            raise InvalidCallError(
                "this GLView is over: it is valid inside `with shared.access(acquire=..., release=...) as view:` only"
            )
        return self._shared

    @property
    def planes(self) -> tuple[GLPlane, ...]:
        """A texture and a framebuffer for each plane, luma first; a format of one plane has that one."""
        return self.gl_surface.planes

    @property
    def texture(self) -> int:
        """The texture's name. Row 0 of the surface, its top, is at t = 0. UnsupportedError: see `planes`."""
        return self.gl_surface.texture

    @property
    def framebuffer(self) -> int:
        """The framebuffer's name. Row 0 of the surface, its top, is at y = 0: OpenGL's pictures stand on their heads.

        UnsupportedError: this context cannot draw into the format, or each of `planes` has its own.
        """
        return self.gl_surface.framebuffer

    @property
    def target(self) -> int:
        """GL_TEXTURE_2D."""
        return self.gl_surface.target

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels: what glViewport takes."""
        surface = self.gl_surface.surface
        return surface.width, surface.height

    def __repr__(self) -> str:
        return "<vkshare.interop.gl.GLView over>" if self._shared is None else f"<GLView of {self._shared!r}>"
