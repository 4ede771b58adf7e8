"""The copy of vkshare.engines between a surface and a framebuffer, which engines' helpers share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_packages import need_engine

import vkshare as vks
from vkshare.engines import blits
from vkshare.interop.gl.context import GL, GLError, require

pytest_plugins = ["support.opengl_context"]
pytestmark = [pytest.mark.rule("E15"), pytest.mark.slow]


@pytest.fixture
def own(context: vks.interop.gl.EGLContext) -> Any:
    """A context of moderngl on the one that is current."""
    assert context.is_current
    need_engine("moderngl")
    import moderngl

    return moderngl.get_context()


def quarters() -> np.ndarray[Any, Any]:
    picture = np.full((30, 40, 4), 255, np.uint8)
    picture[:15, :20], picture[:15, 20:], picture[15:, :20] = (255, 0, 0, 255), (0, 255, 0, 255), (0, 0, 255, 255)
    return picture


def draw_quarters(framebuffer: Any) -> None:
    """In OpenGL's order, the bottom first."""
    framebuffer.clear(1, 1, 1, 1)
    framebuffer.clear(1, 0, 0, 1, viewport=(0, 15, 20, 15))
    framebuffer.clear(0, 1, 0, 1, viewport=(20, 15, 20, 15))
    framebuffer.clear(0, 0, 1, 1, viewport=(0, 0, 20, 15))


@pytest.mark.parametrize("samples", [0, 4])
def test_a_framebuffer_of_several_samples_is_copied_where_the_sizes_are_equal(
    device: vks.Device, own: Any, samples: int
) -> None:
    framebuffer = own.framebuffer([own.renderbuffer((40, 30), samples=samples)])
    with device.create_surface(40, 30) as surface, vks.interop.gl.open(surface) as shared:
        draw_quarters(framebuffer)
        with shared.access(acquire=0, release=1) as view:
            blits.into_surface(view, framebuffer.glo, 40, 30)
        with surface.access(acquire=1, release=0):
            assert (surface.read() == quarters()).all()
    with device.create_surface(80, 60) as surface, vks.interop.gl.open(surface) as shared, shared.access() as view:
        if samples:
            with pytest.raises(GLError, match=r"glBlitFramebuffer from framebuffer .*GL_INVALID_OPERATION"):
                blits.into_surface(view, framebuffer.glo, 40, 30)
        else:
            blits.into_surface(view, framebuffer.glo, 40, 30)


def test_an_srgb_surface_keeps_the_stored_values_whatever_the_program_has_enabled(device: vks.Device, own: Any) -> None:
    framebuffer = own.simple_framebuffer((8, 8))
    with device.create_surface(8, 8, "rgba8unorm-srgb") as surface, vks.interop.gl.open(surface) as shared:
        framebuffer.clear(0.4, 0.2, 0.6, 1)
        own.enable_direct(0x8DB9)  # GL_FRAMEBUFFER_SRGB
        with shared.access(acquire=0, release=1) as view:
            blits.into_surface(view, framebuffer.glo, 8, 8)
        own.disable_direct(0x8DB9)
        with surface.access(acquire=1, release=0):
            assert (surface.read() == (102, 51, 153, 255)).all()


def test_a_copy_leaves_the_programs_framebuffers_bound(device: vks.Device, own: Any) -> None:
    framebuffer = own.simple_framebuffer((8, 8))
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared, shared.access() as view:
        framebuffer.use()
        blits.from_surface(view, own.simple_framebuffer((8, 8)).glo, 8, 8)
        framebuffer.use()
        own.clear(0, 0, 1, 1)
        assert framebuffer.read() == bytes((0, 0, 255)) * 64


def test_a_texture_that_does_not_exist_is_an_error_of_opengl(own: Any) -> None:
    assert own
    gl = GL(require())
    assert blits.texture_size(gl, 0) == (0, 0)
    with pytest.raises(GLError, match="texture 4711"), blits.framebuffer_of(gl, 4711):
        pass
