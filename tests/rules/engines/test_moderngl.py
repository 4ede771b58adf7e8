"""vkshare.engines.moderngl: its own Texture and Framebuffer over a surface's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_packages import need_engine
from support.gl_peer import random_pixels
from support.opengl_context import needs_opengl

import vkshare as vks
from vkshare import engines

pytest_plugins = ["support.opengl_context"]
pytestmark = [pytest.mark.rule("E15"), pytest.mark.slow]


@pytest.fixture
def package() -> Any:
    need_engine("moderngl")
    import moderngl

    return moderngl


@pytest.mark.usefixtures("context")
def test_its_framebuffer_draws_into_the_surface_and_its_texture_reads_it(package: Any, device: vks.Device) -> None:
    random = np.random.default_rng(3)
    with device.create_surface(24, 10) as surface, vks.interop.gl.open(surface) as shared:
        framebuffer, texture = engines.moderngl.framebuffer(shared), engines.moderngl.texture(shared)
        assert isinstance(framebuffer, package.Framebuffer)
        assert isinstance(texture, package.Texture)
        assert texture.size == framebuffer.size == (24, 10)
        with shared.access(acquire=0, release=1):
            framebuffer.clear(0.2, 0.4, 0.6, 1)
            framebuffer.clear(1, 0, 0, 1, viewport=(0, 0, 24, 1))  # row 0 of the surface: its top
        pixels = random_pixels(surface, random)
        with surface.access(acquire=1, release=2):
            seen = surface.read()
            surface.write(pixels)
        assert (seen[0] == (255, 0, 0, 255)).all()
        assert (seen[1:] == (51, 102, 153, 255)).all()
        with shared.access(acquire=2, release=0):
            assert texture.read() == pixels.tobytes()
        assert shared.statistics().copied_bytes == 0
        texture.release()
        with shared.access(acquire=0, release=0):
            framebuffer.clear(0, 1, 0, 1)  # the release left the surface's texture alone


def test_its_own_standalone_context_is_as_good(package: Any, device: vks.Device) -> None:
    needs_opengl(device)
    context = package.create_context(standalone=True, backend="egl")
    try:
        with device.create_surface(8, 8, "rgba16float") as surface, vks.interop.gl.open(surface) as shared:
            with shared.access(acquire=0, release=1):
                engines.moderngl.framebuffer(shared, context).clear(0.5, 2, -1, 1)
            with surface.access(acquire=1, release=0):
                assert (surface.read() == (0.5, 2, -1, 1)).all()
    finally:
        context.release()


def test_without_its_context_it_is_refused_and_the_context_is_named(
    package: Any, device: vks.Device, context: Any
) -> None:
    moderngl = package.get_context()
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        context.release_current()
        with pytest.raises(vks.InvalidCallError, match="no OpenGL context is current"):
            engines.moderngl.texture(shared, moderngl)
        with (
            vks.interop.gl.egl_context(device),
            pytest.raises(vks.InvalidCallError, match=r"belongs to the EGL context 0x.* and the EGL context 0x"),
        ):
            engines.moderngl.framebuffer(shared, moderngl)
        context.make_current()
        shared.close()
        with pytest.raises(vks.ClosedError):
            engines.moderngl.texture(shared, moderngl)


@pytest.mark.usefixtures("context", "package")
def test_what_is_no_surface_and_no_context_is_a_type_error(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        with pytest.raises(TypeError, match=r"shared must be a vkshare\.interop\.gl\.GLSurface, not Surface"):
            engines.moderngl.texture(surface)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"context must be a moderngl\.Context, not dict"):
            engines.moderngl.framebuffer(shared, {})
