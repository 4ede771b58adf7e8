"""A surface in OpenGL: a texture and a framebuffer over its own memory, by GL_EXT_memory_object_fd.

    with vks.interop.gl.open(surface) as shared:        # in the context that is current: EGL or GLX, of any library
        with shared.access(acquire=1, release=0) as view:
            draw(view.texture)                          # or into view.framebuffer

Needs neither PyOpenGL nor moderngl: the functions come from the context itself. Both work with the
names that are given, and moderngl gets an object of its own by
``shared.moderngl_texture(context)``.
"""

from __future__ import annotations

from vkshare.interop.gl.egl import EGLContext, egl_context
from vkshare.interop.gl.plane import GLPlane
from vkshare.interop.gl.surface import GLStatistics, GLSurface, open
from vkshare.interop.gl.view import GLView

__all__ = ["EGLContext", "GLPlane", "GLStatistics", "GLSurface", "GLView", "egl_context", "open"]
