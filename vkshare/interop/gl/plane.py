"""A plane of a surface in OpenGL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkshare.errors import UnsupportedError
from vkshare.interop.gl.formats import FORMATS, GLFormat

if TYPE_CHECKING:
    from vkshare.interop.gl.surface import GLSurface
    from vkshare.interop.gl.texture import Texture


class GLPlane:
    """A plane of a surface in OpenGL: a texture and a framebuffer over its own memory. Made by ``shared.planes``.

    For as long as the GLSurface is open.
    """

    __slots__ = ("_index", "_shared")

    def __init__(self, shared: GLSurface, index: int) -> None:
        self._shared = shared
        self._index = index

    @property
    def format(self) -> str:
        """The format's name: ``"r8unorm"`` and ``"rg8unorm"`` of nv12."""
        return self._shared.surface.spec.format.planes[self._index].name

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels of the plane: what glViewport takes."""
        spec = self._shared.surface.spec
        return spec.format.plane_size(self._index, spec.width, spec.height)

    @property
    def texture(self) -> int:
        """The texture's name. Its contents may be used inside access() only."""
        return self._texture.texture

    @property
    def framebuffer(self) -> int:
        """The name of the framebuffer that draws into the texture.

        UnsupportedError: this context cannot draw into the format.
        """
        texture = self._texture
        if not texture.framebuffer:
            raise UnsupportedError(
                f"a framebuffer of a {self.format} surface",
                f"the {texture.gl.describe()} calls it incomplete (0x{texture.framebuffer_status:04x})",
                "sample the texture, and draw with Vulkan",
            )
        return texture.framebuffer

    @property
    def internal_format(self) -> int:
        """The texture's sized internal format, e.g. GL_R8."""
        return self._pixel.internal

    @property
    def transfer(self) -> tuple[int, int]:
        """(format, type) by which glReadPixels and glTexSubImage2D move the plane's bytes as they are."""
        return self._pixel.transfer, self._pixel.type

    def moderngl_texture(self, context: Any) -> Any:
        """Returns the texture as an object of moderngl, whose release leaves the texture alone.

        Parameters
        ----------
        context
            A moderngl.Context of this very context.

        Raises
        ------
        InvalidCallError
            The context is not current in this thread.
        ClosedError
            The GLSurface is closed.
        TypeError
            `context` is no moderngl.Context.
        """
        self._shared._require_here()
        if type(context).__module__.split(".")[0] != "moderngl" or not hasattr(context, "external_texture"):
            raise TypeError(f"context must be a moderngl.Context, not {type(context).__name__}")
        return context.external_texture(self.texture, self.size, self._pixel.components, 0, self._pixel.moderngl)

    def __repr__(self) -> str:
        return f"<vkshare.interop.gl.GLPlane {self._index} of {self._shared!r}>"

    # ---- within the package ---------------------------------------------------------------------------------------

    @property
    def _texture(self) -> Texture:
        return self._shared._open().textures[self._index]

    @property
    def _pixel(self) -> GLFormat:
        return FORMATS[self.format]
