"""vkshare.engines.vtk: surfaces as VTK's textures, and what its windows show in surfaces."""

from __future__ import annotations

import os

import pytest
from support.engine_packages import environment_of, need_engine
from support.opengl_context import needs_opengl
from support.private_displays import run_child
from support.window_child import START

import vkshare as vks

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.rule("E15"), pytest.mark.slow]

_SCENE = (
    START
    + """
    import re
    import numpy as np
    import vtkmodules.vtkRenderingOpenGL2 as opengl
    from vtkmodules.vtkFiltersSources import vtkPlaneSource
    from vtkmodules.vtkRenderingCore import vtkActor, vtkPolyDataMapper, vtkRenderWindow, vtkRenderer
    from vkshare import engines

    def window_of(*actors):
        renderer, window = vtkRenderer(), vtkRenderWindow()
        renderer.SetBackground(0, 0, 1)
        renderer.SetBackgroundAlpha(1)
        window.SetShowWindow(False)
        window.SetOffScreenRendering(True)
        window.SetMultiSamples(0)
        window.SetSize(40, 30)
        window.AddRenderer(renderer)
        for actor in actors:
            renderer.AddActor(actor)
        camera = renderer.GetActiveCamera()
        camera.ParallelProjectionOn()
        camera.SetParallelScale(0.5)
        camera.SetPosition(0, 0, 2)
        return window

    def plane():
        source, mapper, actor = vtkPlaneSource(), vtkPolyDataMapper(), vtkActor()
        source.SetOrigin(-40 / 60, -0.5, 0)
        source.SetPoint1(40 / 60, -0.5, 0)
        source.SetPoint2(-40 / 60, 0.5, 0)  # the whole window
        mapper.SetInputConnection(source.GetOutputPort())
        actor.SetMapper(mapper)
        actor.GetProperty().LightingOff()
        return actor

    def refused(error, text, call, *arguments):
        try:
            call(*arguments)
        except error as raised:
            assert re.search(text, str(raised)), raised
        else:
            raise AssertionError(f"it was not refused: {text}")

    actor = plane()
    window = window_of(actor)
"""
)


@pytest.fixture(autouse=True)
def _needed(device: vks.Device) -> None:
    need_engine("vtkmodules")
    needs_opengl(device)


@pytest.mark.parametrize("egl", [True, False])
def test_a_surface_is_shown_upright_and_the_windows_picture_comes_into_another(
    request: pytest.FixtureRequest, egl: bool
) -> None:
    body = """
    window.Render()
    with (
        opened() as device,
        device.create_surface(40, 30) as plain,
        device.create_surface(40, 30, "bgra8unorm") as swapped,
        device.create_surface(40, 30) as shown,
    ):
        with vks.interop.gl.open(shown) as target:
            for surface in (plain, swapped):
                with vks.interop.gl.open(surface) as shared:
                    texture = engines.vtk.texture(shared, window)
                    assert isinstance(texture.GetTextureObject(), opengl.vtkTextureObject)
                    assert texture.GetTextureObject().GetHandle() == shared.texture
                    actor.SetTexture(texture)
                    for seed in range(3):
                        with surface.access(acquire=0, release=1) as view:
                            commands = device.record().clear(view, (0.2 * seed, 0, 0, 1))
                            commands.fill_rect(view, (0, 0, 40, 10), (0, 1, 0, 1))
                            commands.fill_rect(view, (0, 0, 8, 30), (1, 1, 1, 1))
                            device.submit(commands)
                        with shared.access(acquire=1, release=0), target.access(acquire=0, release=1) as view:
                            window.Render()
                            engines.vtk.copy_from(view, window)
                        with shown.access(acquire=1, release=0):
                            seen = shown.read()
                        assert (seen[:9, :7] == 255).all()
                        assert (seen[:9, 9:] == (0, 255, 0, 255)).all()
                        assert (seen[11:, :7] == 255).all()
                        assert abs(seen[11:, 9:].astype(int) - (51 * seed, 0, 0, 255)).max() <= 1
                    actor.SetTexture(None)
                    del texture
                    window.Render()
                    with shared.access():
                        assert vks.interop.gl.open(surface).close() is None
                        assert shared.texture
                    with shared.access(acquire=0, release=0) as view:  # the end of VTK's objects left it alone
                        assert view.framebuffer
    tell("right")
    """
    environment = environment_of(request, headless=egl) | {
        "VTK_DEFAULT_OPENGL_WINDOW": "vtkEGLRenderWindow" if egl else "vtkXOpenGLRenderWindow"
    }
    assert run_child(_SCENE + body, environment, timeout=90).endswith("right\n")


def test_other_windows_and_formats_are_refused_with_the_reason() -> None:
    body = """
    other = window_of(plane())
    other.Render()
    window.Render()
    with opened() as device, device.create_surface(8, 8) as surface, device.create_surface(8, 8, "bgra8unorm") as bgra:
        with vks.interop.gl.open(surface) as shared, shared.access() as view:
            refused(vks.InvalidCallError, "another window than this vtkOpenGLRenderWindow", engines.vtk.copy_from,
                    view, other)
            other.MakeCurrent()
            refused(vks.InvalidCallError, "belongs to the EGL context 0x.*, and the EGL context 0x",
                    engines.vtk.texture, shared, other)
            window.MakeCurrent()
            refused(TypeError, "window must be a vtkmodules.*vtkOpenGLRenderWindow, not vtkOpenGLActor",
                    engines.vtk.texture, shared, actor)
        with vks.interop.gl.open(bgra) as swapped, swapped.access() as view:
            refused(vks.UnsupportedError, "a bgra8unorm surface.*exchange red and blue", engines.vtk.copy_from,
                    view, window)
        refused(vks.InvalidCallError, "this GLView is over", engines.vtk.copy_from, view, window)
    tell("right")
    """
    environment = {**os.environ, "VTK_DEFAULT_OPENGL_WINDOW": "vtkEGLRenderWindow"}
    assert run_child(_SCENE + body, environment, timeout=90).endswith("right\n")


def test_an_actor_whose_surface_was_closed_renders_without_a_crash_and_another_surface_takes_its_place() -> None:
    body = """
    window.Render()
    window.MakeCurrent()
    with opened() as device, device.create_surface(40, 30) as first, device.create_surface(40, 30) as shown:
        with vks.interop.gl.open(first) as shared:
            actor.SetTexture(engines.vtk.texture(shared, window))
            with shared.access():
                window.Render()
        window.Render()  # the texture is gone
        with device.create_surface(40, 30) as second, vks.interop.gl.open(second) as shared:
            with second.access(acquire=0, release=1) as view:
                device.submit(device.record().clear(view, (1, 0, 0, 1)))
            actor.SetTexture(engines.vtk.texture(shared, window))
            with shared.access(acquire=1, release=0), vks.interop.gl.open(shown) as target:
                with target.access(acquire=0, release=1) as view:
                    window.Render()
                    engines.vtk.copy_from(view, window)
            with shown.access(acquire=1, release=0):
                assert (shown.read() == (255, 0, 0, 255)).all()
            actor.SetTexture(None)
    tell("right")
    """
    environment = {**os.environ, "VTK_DEFAULT_OPENGL_WINDOW": "vtkEGLRenderWindow"}
    assert run_child(_SCENE + body, environment, timeout=90).endswith("right\n")
