"""Engines of OpenGL on a real GPU: their turns are ordered on the GPU, and every picture is right."""

from __future__ import annotations

import os

import numpy as np
import pytest
from support.engine_packages import need_engine
from support.private_displays import run_child
from support.run_volumes import rounds
from support.window_child import START

import vkshare as vks
from vkshare import engines

pytest_plugins = ["support.opengl_context"]
pytestmark = [pytest.mark.rule("E15"), pytest.mark.vks_gpu]


@pytest.mark.usefixtures("gpu", "context")
def test_moderngl_takes_turns_with_vulkan_and_the_cpu_waits_for_neither(device: vks.Device) -> None:
    need_engine("moderngl")
    with device.create_surface(512, 512, tiling="optimal") as surface, vks.interop.gl.open(surface) as shared:
        assert shared.order == "gpu"
        framebuffer = engines.moderngl.framebuffer(shared)
        for turn in range(rounds(2000, 100)):
            grey = turn % 256
            with shared.access(acquire=0, release=1):
                framebuffer.clear(grey / 255, 0, 1, 1)
            with surface.access(acquire=1, release=0) as view:
                device.submit(device.record().fill_rect(view, (0, 0, 256, 512), (0, grey / 255, 0, 1)))
            if turn % 50 == 0:
                with surface.access():
                    pixels = surface.read().astype(int)
                assert abs(pixels[:, :256] - (0, grey, 0, 255)).max() <= 1
                assert abs(pixels[:, 256:] - (grey, 0, 255, 255)).max() <= 1
        assert shared.statistics().copied_bytes == 0


@pytest.mark.usefixtures("gpu")
def test_a_frame_of_4k_comes_out_of_vtk_by_one_copy_on_the_gpu() -> None:
    need_engine("vtkmodules")
    body = """
    import vtkmodules.vtkRenderingOpenGL2
    from vtkmodules.vtkRenderingCore import vtkRenderWindow, vtkRenderer
    from vkshare import engines

    renderer, window = vtkRenderer(), vtkRenderWindow()
    renderer.SetBackgroundAlpha(1)
    window.SetShowWindow(False)
    window.SetOffScreenRendering(True)
    window.SetSize(3840, 2160)
    window.AddRenderer(renderer)
    window.Render()
    window.MakeCurrent()
    with opened() as device, device.create_surface(3840, 2160, tiling="optimal") as surface:
        with vks.interop.gl.open(surface) as shared:
            tell(shared.order)
            for turn in range(20):
                renderer.SetBackground(0, turn / 255, 1)
                with shared.access(acquire=0, release=1) as view:
                    window.Render()
                    engines.vtk.copy_from(view, window)
                with surface.access(acquire=1, release=0):
                    seen = surface.read()[::270, ::480].astype(int)
                assert abs(seen - (0, turn, 255, 255)).max() <= 1, turn
    """
    environment = {**os.environ, "VTK_DEFAULT_OPENGL_WINDOW": "vtkEGLRenderWindow"}
    assert run_child(START + body, environment, 120).splitlines()[-1] == "gpu"


@pytest.mark.usefixtures("gpu", "context")
def test_moderngl_reads_the_bytes_that_vulkan_wrote(device: vks.Device) -> None:
    need_engine("moderngl")
    random = np.random.default_rng(5)
    with device.create_surface(333, 77, tiling="optimal") as surface, vks.interop.gl.open(surface) as shared:
        texture = engines.moderngl.texture(shared)
        for _ in range(20):
            pixels = random.integers(0, 256, surface.shape, np.uint8)
            with surface.access(acquire=0, release=1):
                surface.write(pixels)
            with shared.access(acquire=1, release=0):
                assert texture.read() == pixels.tobytes()
