"""VTK, and PyVista on it: a surface as its own texture without a copy, and its pictures in surfaces by one on the GPU.

    actor.SetTexture(vks.engines.vtk.texture(shared, window))         # inside shared.access(): 0 copies
    window.Render()
    vks.engines.vtk.copy_from(view, window)                           # 1 copy

VTK renders into framebuffers that it makes itself, hence that copy. Follows VTK 9:
vtkTextureObject::AssignToExistingTexture(), vtkOpenGLRenderWindow::GetDisplayFramebuffer().
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vkshare.engines import blits, packages
from vkshare.errors import InvalidCallError
from vkshare.interop.gl import GLSurface, GLView
from vkshare.util import arguments

if TYPE_CHECKING:
    from vkshare.interop.gl.context import Current

__all__ = ["copy_from", "texture"]

_MODULE = "vtkmodules.vtkRenderingOpenGL2"


def texture(shared: GLSurface, window: Any) -> Any:
    """Returns the surface as a texture of VTK that actors show upright, without a copy.

    The window renders actors that have it inside ``shared.access()``. Its end leaves the surface's
    memory and texture alone. Belongs to the thread of the window's context.

    Parameters
    ----------
    shared
        The surface, opened by ``vks.interop.gl.open()`` in the window's context.
    window
        The vtkOpenGLRenderWindow; PyVista's is ``plotter.render_window``. It has rendered once, or
        its Initialize() was called.

    Returns
    -------
    vtkmodules.vtkRenderingOpenGL2.vtkOpenGLTexture
        For ``actor.SetTexture()``; its GetTextureObject() is the vtkTextureObject, for shaders and
        passes. Valid until `shared` is closed.

    Raises
    ------
    UnsupportedError
        VTK is not installed.
    InvalidCallError
        No context is current in this thread, or another one than the surface's or the window's.
    ClosedError
        `shared` is closed.
    TypeError
        An argument is not of the types above.
    """
    arguments.instance("shared", shared, GLSurface, "vkshare.interop.gl.GLSurface")
    opengl = _check(shared, window)
    transform = packages.load("vtk", "vtkmodules.vtkCommonTransforms").vtkTransform()
    held = opengl.vtkTextureObject()
    held.SetContext(window)
    held.AssignToExistingTexture(shared.texture, shared.target)
    made = opengl.vtkOpenGLTexture()
    made.SetTextureObject(held)
    made.SetInterpolate(not shared.surface.spec.format.is_integer)  # as the texture is for other programs of OpenGL
    transform.Translate(0, 1, 0)  # t = 0 is the top of a surface, and of VTK's textures the bottom
    transform.Scale(1, -1, 1)
    made.SetTransform(transform)
    return made


def copy_from(view: GLView, window: Any) -> None:
    """Copies what a window of VTK shows over the surface, upright, once on the GPU; scaled where the sizes differ.

    Called after ``window.Render()``, also for windows without a screen.

    Parameters
    ----------
    view
        The view of ``with shared.access() as view:``.
    window
        The vtkOpenGLRenderWindow in whose context the surface was opened.

    Raises
    ------
    UnsupportedError
        VTK is not installed, or the copy would change the pixels of the surface's format.
    InvalidCallError
        The view is over, another context than the window's is current, or the window has not
        rendered yet.
    GLError
        The driver refused.
    TypeError
        `view` is no GLView, or `window` no vtkOpenGLRenderWindow.
    """
    arguments.instance("view", view, GLView, "vkshare.interop.gl.GLView")
    _check(view.gl_surface, window)
    shown = window.GetDisplayFramebuffer()
    name, colours = shown.GetFBOIndex(), shown.GetColorAttachmentAsTextureObject(0)
    if not name or colours is None:
        raise InvalidCallError("the window has no picture yet: call its Render() first")
    blits.into_surface(view, name, colours.GetWidth(), colours.GetHeight())


def _check(shared: GLSurface, window: Any) -> Any:
    """VTK's module of OpenGL, once the window and the surface are known to have the current context."""
    opengl = packages.load("vtk", _MODULE)
    arguments.instance("window", window, opengl.vtkOpenGLRenderWindow, f"{_MODULE}.vtkOpenGLRenderWindow")
    own = shared._require_here().gl.context
    if not _is_current(window, own):
        raise InvalidCallError(
            "the context of another window than this vtkOpenGLRenderWindow is current: call its MakeCurrent() first"
        )
    return opengl


def _is_current(window: Any, own: Current) -> bool:
    """Whether the context that is current is the window's; VTK 9.7's EGL windows say so of any."""
    if not window.IsA("vtkEGLRenderWindow"):
        return bool(window.IsCurrent())
    address = re.fullmatch(r"_([0-9a-f]+)_p_void", window.GetGenericContext() or "")
    return own.api == "EGL" and address is not None and int(address[1], 16) == own.handle
