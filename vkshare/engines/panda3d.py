"""Panda3D: its textures from surfaces, and what it renders in surfaces, by one copy on the GPU.

    base.graphicsEngine.renderFrame()                   # the scene is in `texture`, of a buffer
    with shared.access(acquire=0, release=1) as view:
        vks.engines.panda3d.copy_from(view, texture, base.win)

Panda3D 1.10 makes the storage of its textures itself and takes no other, hence the copy. Follows
its Texture.prepareNow() and TextureContext.getNativeId().
"""

from __future__ import annotations

from typing import Any

from vkshare.engines import blits, packages
from vkshare.errors import InvalidCallError
from vkshare.interop.gl import GLView
from vkshare.util import arguments

__all__ = ["copy_from", "copy_to"]


def copy_from(view: GLView, texture: Any, window: Any) -> None:
    """Copies a texture of Panda3D over the surface, upright, once on the GPU; scaled where the sizes differ.

    Called between two ``renderFrame()``: the context stays current in the thread that renders.

    Parameters
    ----------
    view
        The view of ``with shared.access() as view:``.
    texture
        A panda3d.core.Texture with two dimensions, e.g. one that a buffer renders to.
    window
        The GraphicsOutput, ``base.win`` or a buffer, in whose context the surface was opened.

    Raises
    ------
    UnsupportedError
        panda3d is not installed, the texture is not one of OpenGL's, or the copy would change the
        pixels of the surface's format.
    InvalidCallError
        The view is over, another context than the surface's is current, or Panda3D has not loaded
        the texture yet.
    GLError
        The driver refused.
    TypeError
        An argument is not of the types above.
    """
    name, width, height = _loaded(view, texture, window)
    with blits.framebuffer_of(view.gl_surface._require_here().gl, name) as framebuffer:
        blits.into_surface(view, framebuffer, width, height)


def copy_to(view: GLView, texture: Any, window: Any) -> None:
    """Copies the surface over a texture of Panda3D, upright, once on the GPU; scaled where the sizes differ.

    Panda3D must have loaded the texture: give it an image (``texture.makeRamImage()``), call
    ``texture.prepare(window.gsg.prepared_objects)``, and render a frame.

    Parameters
    ----------
    view, texture, window
        As copy_from().

    Raises
    ------
    UnsupportedError, InvalidCallError, GLError, TypeError
        As copy_from().
    """
    name, width, height = _loaded(view, texture, window)
    with blits.framebuffer_of(view.gl_surface._require_here().gl, name) as framebuffer:
        blits.from_surface(view, framebuffer, width, height)


def _loaded(view: GLView, texture: Any, window: Any) -> tuple[int, int, int]:
    """(OpenGL's name, width, height) of a texture that Panda3D has loaded; what pads it to a power of two left out."""
    core = packages.load("panda3d", "panda3d.core")
    arguments.instance("view", view, GLView, "vkshare.interop.gl.GLView, as access() and within() of gl.open() give it")
    arguments.instance("texture", texture, core.Texture, "panda3d.core.Texture")
    arguments.instance("window", window, core.GraphicsOutput, "panda3d.core.GraphicsOutput")
    gl = view.gl_surface._require_here().gl
    gsg = window.getGsg()
    size = texture.getXSize(), texture.getYSize()
    if gsg is None:
        raise InvalidCallError(f"{window} is closed")
    if texture.getTextureType() != core.Texture.TT_2d_texture:
        raise TypeError(f"texture must have two dimensions, and {texture.getName()!r} is of another type")
    context = texture.prepareNow(0, gsg.getPreparedObjects(), gsg)
    name = 0 if context is None else context.getNativeId()
    if not name or blits.texture_size(gl, name) != size:
        what = f" of {size[0]}x{size[1]}" if all(size) else ", which has no size"
        raise InvalidCallError(
            f"Panda3D has not loaded the texture {texture.getName()!r}{what} yet: call "
            "texture.prepare(window.gsg.prepared_objects) and render a frame first"
        )
    return name, size[0] - texture.getPadXSize(), size[1] - texture.getPadYSize()
