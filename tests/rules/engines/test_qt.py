"""vkshare.engines.qt: surfaces in QOpenGLWidgets, as Qt Quick's render target, and swapchains in Qt's windows."""

from __future__ import annotations

import os

import pytest
from support.engine_packages import environment_of, need_engine, need_qt
from support.opengl_context import needs_opengl
from support.private_displays import run_child
from support.window_child import START

import vkshare as vks

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.rule("E15"), pytest.mark.slow]

_CHILD = (
    START
    + """
    import re
    import numpy as np
    from PySide6 import QtCore, QtGui, QtOpenGLWidgets, QtQuick, QtWidgets
    from vkshare import engines

    def refused(error, text, call, *arguments):
        try:
            call(*arguments)
        except error as raised:
            assert re.search(text, str(raised)), raised
        else:
            raise AssertionError(f"it was not refused: {text}")
"""
)
_WIDGET = (
    _CHILD
    + """
    application = QtWidgets.QApplication([])
    widget = QtOpenGLWidgets.QOpenGLWidget()
    widget.setFixedSize(40, 30)
    widget.show()
    assert widget.grabFramebuffer().size() == QtCore.QSize(40, 30)  # its framebuffer is there
    widget.makeCurrent()

    def pattern(format):  # each quarter in a colour of its own
        image = QtGui.QImage(40, 30, QtGui.QImage.Format.Format_RGBA8888)
        for (x, y), name in {(0, 0): "red", (20, 0): "lime", (0, 15): "blue", (20, 15): "white"}.items():
            painter = QtGui.QPainter(image)
            painter.fillRect(x, y, 20, 15, QtGui.QColor(name))
            painter.end()
        return image

    def pixels(image):
        image = image.convertToFormat(QtGui.QImage.Format.Format_RGBA8888)
        return np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.width(), 4)

    image = pattern(None)
"""
)


@pytest.fixture(autouse=True)
def _needed() -> None:
    need_engine("PySide6")
    need_qt()


@pytest.mark.parametrize("integration", ["xcb_glx", "xcb_egl"])
def test_what_a_widget_shows_is_copied_upright_both_ways(
    request: pytest.FixtureRequest, device: vks.Device, integration: str
) -> None:
    needs_opengl(device)
    body = """
    functions = widget.context().functions()
    with opened() as device, device.create_surface(40, 30) as surface, vks.interop.gl.open(surface) as shared:
        painter = QtGui.QPainter(widget)
        painter.drawImage(0, 0, image)
        painter.end()
        functions.glEnable(0x0C11)  # GL_SCISSOR_TEST: a copy is of the whole picture all the same
        functions.glScissor(0, 0, 3, 3)
        with shared.access(acquire=0, release=1) as view:
            engines.qt.copy_from(view, widget)
        assert functions.glIsEnabled(0x0C11)
        with surface.access(acquire=1, release=2) as view:
            assert (surface.read() == pixels(image)).all()
            device.submit(device.record().fill_rect(view, (0, 0, 40, 2), (0, 0, 0, 1)))
        with shared.access(acquire=2, release=0) as view:
            engines.qt.copy_to(view, widget)
        functions.glDisable(0x0C11)
        expected = pixels(image).copy()
        expected[:2] = (0, 0, 0, 255)
        seen = np.empty((30, 40, 4), np.uint8)
        from vkshare.interop.gl.context import GL, require
        GL(require()).glReadPixels(0, 0, 40, 30, 0x1908, 0x1401, seen.ctypes.data)
        assert (seen[::-1] == expected).all()
    tell("right")
    """
    environment = environment_of(request, headless=False) | {"QT_XCB_GL_INTEGRATION": integration}
    assert run_child(_WIDGET + body, environment, 90).endswith("right\n")


def test_a_copy_scales_to_the_whole_surface(request: pytest.FixtureRequest, device: vks.Device) -> None:
    needs_opengl(device)
    body = """
    with opened() as device, device.create_surface(80, 60) as surface, vks.interop.gl.open(surface) as shared:
        painter = QtGui.QPainter(widget)
        painter.drawImage(0, 0, image)
        painter.end()
        with shared.access(acquire=0, release=1) as view:
            engines.qt.copy_from(view, widget)
        with surface.access(acquire=1, release=0):
            assert (surface.read()[15::30, 20::40] == pixels(image)[7::15, 10::20]).all()
    tell("right")
    """
    assert run_child(_WIDGET + body, environment_of(request, headless=False), 90).endswith("right\n")


def test_other_contexts_formats_and_types_are_refused_before_anything_is_drawn(
    request: pytest.FixtureRequest, device: vks.Device
) -> None:
    needs_opengl(device)
    body = """
    other = QtOpenGLWidgets.QOpenGLWidget()
    other.setFixedSize(40, 30)
    other.show()
    other.grabFramebuffer()
    with (
        opened() as device,
        device.create_surface(40, 30) as surface,
        device.create_surface(40, 30, "bgra8unorm") as bgra,
        device.create_surface(40, 30, "r32uint") as numbers,
    ):
        widget.makeCurrent()
        shared = vks.interop.gl.open(surface)
        with shared.access() as view:
            refused(vks.InvalidCallError, "the context of another widget than", engines.qt.copy_from, view, other)
            refused(TypeError, "widget must be a PySide6.QtOpenGLWidgets.QOpenGLWidget, not QWidget",
                    engines.qt.copy_to, view, QtWidgets.QWidget())
            other.makeCurrent()
            refused(vks.InvalidCallError, "belongs to the .*context 0x.* is current in this thread",
                    engines.qt.copy_to, view, other)
            widget.makeCurrent()
        refused(vks.InvalidCallError, "this GLView is over", engines.qt.copy_to, view, widget)
        with vks.interop.gl.open(bgra) as swapped, swapped.access() as view:
            refused(vks.UnsupportedError, "a bgra8unorm surface.*exchange red and blue; .*rgba8unorm",
                    engines.qt.copy_from, view, widget)
            refused(vks.UnsupportedError, "Qt Quick in a bgra8unorm surface", engines.qt.render_target, swapped)
        with vks.interop.gl.open(numbers) as whole, whole.access() as view:
            refused(vks.UnsupportedError, "a r32uint surface.*whole numbers", engines.qt.copy_to, view, widget)
        shared.close()
    tell("right")
    """
    assert run_child(_WIDGET + body, environment_of(request, headless=False), 90).endswith("right\n")


def test_a_context_that_is_not_qts_is_refused(request: pytest.FixtureRequest, device: vks.Device) -> None:
    needs_opengl(device)
    body = """
    application = QtGui.QGuiApplication([])
    with opened() as device, device.create_surface(40, 30) as surface, vks.interop.gl.egl_context(device):
        with vks.interop.gl.open(surface) as shared:
            refused(vks.InvalidCallError, "the context that is current is not Qt's", engines.qt.render_target, shared)
    tell("right")
    """
    assert run_child(_CHILD + body, environment_of(request, headless=False), 90).endswith("right\n")


def test_qt_quick_draws_upright_into_surfaces_of_every_colour_format(
    request: pytest.FixtureRequest, device: vks.Device
) -> None:
    needs_opengl(device)
    body = """
    from PySide6 import QtQml
    QtQuick.QQuickWindow.setGraphicsApi(QtQuick.QSGRendererInterface.GraphicsApi.OpenGL)
    application = QtGui.QGuiApplication([])
    context = QtGui.QOpenGLContext()
    assert context.create()
    offscreen = QtGui.QOffscreenSurface()
    offscreen.create()
    context.makeCurrent(offscreen)
    control = QtQuick.QQuickRenderControl()
    window = QtQuick.QQuickWindow(control)
    window.setGraphicsDevice(QtQuick.QQuickGraphicsDevice.fromOpenGLContext(context))
    engine = QtQml.QQmlEngine()
    component = QtQml.QQmlComponent(engine)
    component.setData(b'''import QtQuick
        Rectangle { width: 40; height: 30; color: "blue"; Rectangle { width: 10; height: 4; color: "red" } }''',
        QtCore.QUrl())
    root = component.create()
    root.setParentItem(window.contentItem())
    window.setGeometry(0, 0, 40, 30)
    assert control.initialize()
    for name, one in [("rgba8unorm", 255), ("rgba8unorm-srgb", 255), ("rgba16float", 1), ("rgba32float", 1)]:
        with opened() as device, device.create_surface(40, 30, name) as surface:
            context.makeCurrent(offscreen)
            with vks.interop.gl.open(surface) as shared:
                window.setRenderTarget(engines.qt.render_target(shared))
                with shared.access(acquire=0, release=1):
                    control.polishItems()
                    control.beginFrame()
                    control.sync()
                    control.render()
                    control.endFrame()
                with surface.access(acquire=1, release=0):
                    seen = surface.read()
                expected = np.full((30, 40, 4), (0, 0, one, one))
                expected[:4, :10] = (one, 0, 0, one)
                assert (seen == expected).all(), name
    for each in (root, component, engine, window, control):
        each.deleteLater()
    QtCore.QCoreApplication.sendPostedEvents(None, QtCore.QEvent.Type.DeferredDelete)
    tell("right")
    """
    assert run_child(_CHILD + body, environment_of(request, headless=False), 90).endswith("right\n")


def test_a_swapchain_in_a_layout_shows_its_frames_and_follows_the_size(
    request: pytest.FixtureRequest, device: vks.Device
) -> None:
    body = """
    application = QtWidgets.QApplication([])
    window = QtWidgets.QWidget()
    layout = QtWidgets.QVBoxLayout(window)
    picture = QtGui.QWindow()
    layout.addWidget(QtWidgets.QPushButton("above"))
    layout.addWidget(QtWidgets.QWidget.createWindowContainer(picture), 1)
    window.resize(120, 140)
    window.show()

    def turn():  # Qt's events, then a frame
        application.processEvents()
        return show(swapchain, 3)

    wait_until(lambda: application.processEvents() or picture.isExposed(), "the window is exposed")
    with opened() as device, device.create_swapchain(engines.qt.target(picture)) as swapchain:
        wait_until(lambda: turn().shape[1] == picture.width(), "the size is Qt's")
        seen(os.environ["DISPLAY"], int(picture.winId()), turn())
        window.resize(200, 220)
        wait_until(lambda: turn().shape[1] > 150, "the size is followed")
        wait_until(lambda: turn().shape[:2] == (picture.height(), picture.width()), "to the pixel")
        for left in reversed(range(10)):  # lavapipe may put the last picture of the old size after the first new one
            try:
                seen(os.environ["DISPLAY"], int(picture.winId()), turn(), 20 if left == 0 else 2)
                break
            except AssertionError:
                assert left
        refused(TypeError, "window must be a PySide6.QtGui.QWindow or a QWidget, not int", engines.qt.target, 5)
    tell("right")
    """
    assert run_child(_CHILD + body, environment_of(request, headless=False), 90).endswith("right\n")


@pytest.mark.no_driver
def test_a_window_of_another_platform_is_unsupported() -> None:
    body = """
    application = QtGui.QGuiApplication([])
    refused(vks.UnsupportedError, "platform of this QGuiApplication is 'offscreen'.*QT_QPA_PLATFORM=xcb",
            engines.qt.target, QtGui.QWindow())
    tell("right")
    """
    assert run_child(_CHILD + body, {**os.environ, "QT_QPA_PLATFORM": "offscreen"}).endswith("right\n")
