"""Qt, by PySide6: a surface as the target of Qt Quick, QOpenGLWidgets, and swapchains in a layout.

    window.setRenderTarget(vks.engines.qt.render_target(shared))      # a QQuickWindow draws there: 0 copies
    vks.engines.qt.copy_from(view, widget)                            # a QOpenGLWidget: 1 copy on the GPU
    device.create_swapchain(vks.engines.qt.target(window))            # a QWindow, e.g. in a layout: 0 copies

Follows Qt 6: QQuickRenderTarget, QOpenGLWidget, QWindow::winId().
"""

from __future__ import annotations

from typing import Any

from vkshare.engines import blits, packages
from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.interop.gl import GLSurface, GLView
from vkshare.present.targets import X11Window
from vkshare.util import arguments

__all__ = ["copy_from", "copy_to", "render_target", "target"]


def render_target(shared: GLSurface) -> Any:
    """Returns the surface as the render target of a QQuickWindow: Qt Quick draws there upright, without a copy.

    ``window.setRenderTarget(target)`` is called once; QQuickRenderControl.render() is called inside
    ``shared.access()``. Belongs to the thread of the context.

    Parameters
    ----------
    shared
        The surface, opened by ``vks.interop.gl.open()`` in the QOpenGLContext that the window has
        by QQuickGraphicsDevice.fromOpenGLContext().

    Returns
    -------
    PySide6.QtQuick.QQuickRenderTarget
        Valid until `shared` is closed.

    Raises
    ------
    UnsupportedError
        PySide6 is not installed, or Qt Quick does not draw into the surface's format.
    InvalidCallError
        No context is current in this thread, or another one than the surface's, or it is not Qt's.
    ClosedError
        `shared` is closed.
    TypeError
        `shared` is no GLSurface.
    """
    arguments.instance("shared", shared, GLSurface, "vkshare.interop.gl.GLSurface")
    quick, core = _qt("QtQuick"), _qt("QtCore")
    shared._require_here()
    _current_context()
    surface = shared.surface
    blits.check_format(shared, "Qt Quick in")
    size = core.QSize(surface.width, surface.height)
    made = quick.QQuickRenderTarget.fromOpenGLTexture(shared.texture, shared.internal_format, size)
    made.setMirrorVertically(True)  # row 0 of a surface is its top, and of OpenGL's textures the bottom
    return made


def copy_from(view: GLView, widget: Any) -> None:
    """Copies what a QOpenGLWidget shows over the surface, upright, once on the GPU; scaled where the sizes differ.

    Called in paintGL() after the widget has drawn, or after ``widget.makeCurrent()``.

    Parameters
    ----------
    view
        The view of ``with shared.access() as view:``.
    widget
        The PySide6.QtOpenGLWidgets.QOpenGLWidget in whose context the surface was opened.

    Raises
    ------
    UnsupportedError
        PySide6 is not installed, or the copy would change the pixels of the surface's format.
    InvalidCallError
        The view is over, or another context than the widget's and the surface's is current.
    GLError
        The driver refused; a widget with several samples a pixel cannot be scaled.
    TypeError
        `view` is no GLView, or `widget` no QOpenGLWidget.
    """
    blits.into_surface(view, *_framebuffer(view, widget))


def copy_to(view: GLView, widget: Any) -> None:
    """Copies the surface over what a QOpenGLWidget shows, upright, once on the GPU; scaled where the sizes differ.

    Called in paintGL(), or after ``widget.makeCurrent()``.

    Parameters
    ----------
    view, widget
        As copy_from().

    Raises
    ------
    UnsupportedError, InvalidCallError, GLError, TypeError
        As copy_from().
    """
    blits.from_surface(view, *_framebuffer(view, widget))


def target(window: Any) -> X11Window:
    """Returns a window of Qt as the target of a swapchain: ``device.create_swapchain(target(window))``.

    A QWindow shows the swapchain's pictures alone; in a layout it stands by
    QWidget.createWindowContainer(). Qt paints over the pictures of a QWidget. Main thread only.

    Parameters
    ----------
    window
        A PySide6.QtGui.QWindow, or a QWidget. It gets an X11 window if it has none.

    Returns
    -------
    X11Window
        The window stays Qt's. Close the swapchain before Qt destroys it.

    Raises
    ------
    UnsupportedError
        PySide6 is not installed, or Qt shows its windows on another platform than X11.
    TypeError
        `window` is neither.
    """
    gui, widgets = _qt("QtGui"), _qt("QtWidgets")
    if not isinstance(window, (gui.QWindow, widgets.QWidget)):
        raise TypeError(f"window must be a PySide6.QtGui.QWindow or a QWidget, not {type(window).__name__}")
    platform = gui.QGuiApplication.platformName()
    if platform != "xcb":
        raise UnsupportedError(
            "a swapchain in a window of Qt",
            f"the platform of this QGuiApplication is {platform!r}, and the window has no X11 id",
            'start the program with QT_QPA_PLATFORM=xcb, on a Wayland desktop too, or draw by "copy_to()"',
        )
    return X11Window(int(window.winId()))


def _qt(module: str) -> Any:
    return packages.load("qt", f"PySide6.{module}")


def _current_context() -> Any:
    context = _qt("QtGui").QOpenGLContext.currentContext()
    if context is None:
        raise InvalidCallError(
            "the context that is current is not Qt's: call makeCurrent() of the QOpenGLContext or the QOpenGLWidget"
        )
    return context


def _framebuffer(view: GLView, widget: Any) -> tuple[int, int, int]:
    """(name, width, height) of the widget's framebuffer, in pixels."""
    arguments.instance("view", view, GLView, "vkshare.interop.gl.GLView")
    kind = _qt("QtOpenGLWidgets").QOpenGLWidget
    arguments.instance("widget", widget, kind, "PySide6.QtOpenGLWidgets.QOpenGLWidget")
    view.gl_surface._require_here()
    if _current_context() != widget.context():
        raise InvalidCallError(
            f"the context of another widget than {widget!r} is current: call this in its paintGL(), or after its "
            "makeCurrent()"
        )
    ratio = widget.devicePixelRatio()
    return widget.defaultFramebufferObject(), round(widget.width() * ratio), round(widget.height() * ratio)
