"""vkshare.interop.gl with what people draw with: moderngl, PyOpenGL, and windows of GLFW."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import gl_peer
from support.opengl_context import needs_opengl
from support.private_displays import run_child
from support.window_child import START

import vkshare as vks

if TYPE_CHECKING:
    from support.private_displays import XDisplay

pytest_plugins = ["support.opengl_context", "support.private_displays"]
pytestmark = pytest.mark.slow

VERTEX = """
#version 330
void main() {
    vec2 corner = vec2((gl_VertexID << 1) & 2, gl_VertexID & 2);
    gl_Position = vec4(corner * 2.0 - 1.0, 0.0, 1.0);
}
"""
FRAGMENT = """
#version 330
uniform sampler2D picture;
out vec4 colour;
void main() { colour = texelFetch(picture, ivec2(gl_FragCoord.xy), 0); }
"""


def _copy_by_moderngl(context: Any, source: Any, target: Any) -> None:
    """Draws the one's texture over the other's framebuffer, pixel on pixel."""
    fragment = FRAGMENT
    if source.surface.spec.format.is_integer:
        fragment = fragment.replace("sampler2D", "usampler2D").replace("vec4 colour", "uvec4 colour")
    program = context.program(vertex_shader=VERTEX, fragment_shader=fragment)
    vertices = context.vertex_array(program, [])
    texture = source.moderngl_texture(context)
    with source.access(), target.access() as view:
        context.detect_framebuffer(view.framebuffer).use()
        context.viewport = (0, 0, *view.size)
        texture.use(0)
        vertices.render(vertices=3)
    texture.release()
    vertices.release()
    program.release()


@pytest.mark.rule("I6", "E6")
@pytest.mark.usefixtures("context")
def test_moderngl_samples_one_surface_and_draws_another(device: vks.Device) -> None:
    moderngl = pytest.importorskip("moderngl")
    context, random = moderngl.get_context(), np.random.default_rng(7)
    for name in (
        *("rgba8unorm", "bgra8unorm", "rgb10a2unorm", "rgba16float", "rgba32float"),
        *("r16float", "rg16float", "r16unorm", "rg16unorm", "rgba16unorm", "r32uint"),
    ):
        with (
            device.create_surface(31, 17, name) as picture,
            device.create_surface(31, 17, name) as copy,
            vks.interop.gl.open(picture) as source,
            vks.interop.gl.open(copy) as target,
        ):
            assert source.swaps_red_and_blue == (name == "bgra8unorm")
            pixels = gl_peer.random_pixels(picture, random)
            with picture.access():
                picture.write(pixels)
            _copy_by_moderngl(context, source, target)
            with copy.access():
                seen = copy.read()
            # bgra: sampled as it looks, and drawn with red and blue exchanged.
            expected = pixels[:, :, [2, 1, 0, 3]] if name == "bgra8unorm" else pixels
            assert (seen == expected).all(), name
            _copy_by_moderngl(context, target, source)  # exchanged twice
            with picture.access():
                assert (picture.read() == pixels).all(), name


@pytest.mark.rule("I6")
def test_an_srgb_surface_is_decoded_when_it_is_sampled(device: vks.Device, context: Any) -> None:
    moderngl = pytest.importorskip("moderngl")
    assert context.is_current
    with (
        device.create_surface(4, 4, "rgba8unorm-srgb") as picture,
        device.create_surface(4, 4, "rgba32float") as copy,
        vks.interop.gl.open(picture) as source,
        vks.interop.gl.open(copy) as target,
    ):
        with picture.access() as view:
            device.submit(device.record().clear(view, (0.5, 0.25, 0.0, 1.0)))  # linear
        _copy_by_moderngl(moderngl.get_context(), source, target)
        with copy.access():
            assert np.allclose(copy.read()[2, 2], (0.5, 0.25, 0.0, 1.0), atol=0.004)


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_what_is_no_context_of_moderngl_is_refused(device: vks.Device) -> None:
    with (
        device.create_surface(8, 8) as surface,
        vks.interop.gl.open(surface) as shared,
        pytest.raises(TypeError, match=r"context must be a moderngl\.Context, not dict"),
    ):
        shared.moderngl_texture({})


@pytest.mark.rule("I6")
def test_moderngls_own_headless_context_opens_a_surface(device: vks.Device) -> None:
    needs_opengl(device)
    moderngl = pytest.importorskip("moderngl")
    context = moderngl.create_context(standalone=True, backend="egl")
    try:
        with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
            with surface.access() as view:
                device.submit(device.record().clear(view, (1, 0, 0.2, 1)))
            with shared.access():
                pixels = np.frombuffer(shared.moderngl_texture(context).read(), np.uint8)
            assert (pixels.reshape(8, 8, 4) == (255, 0, 51, 255)).all()
    finally:
        context.release()


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_bare_pyopengl_draws_and_reads_by_the_names(device: vks.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOPENGL_PLATFORM", "egl")  # read when it is imported
    pytest.importorskip("OpenGL")
    from OpenGL import GL

    with device.create_surface(16, 8) as surface, vks.interop.gl.open(surface) as shared:
        with shared.access(acquire=0, release=1) as view:
            GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, view.framebuffer)
            GL.glClearColor(0.2, 0.4, 0.6, 1)
            GL.glClear(GL.GL_COLOR_BUFFER_BIT)
            GL.glEnable(GL.GL_SCISSOR_TEST)
            GL.glScissor(0, 0, 16, 1)  # row 0 of the surface: its top
            GL.glClearColor(1, 0, 0, 1)
            GL.glClear(GL.GL_COLOR_BUFFER_BIT)
            GL.glDisable(GL.GL_SCISSOR_TEST)
            GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, 0)
        with surface.access(acquire=1, release=2):
            pixels = surface.read()
            assert (pixels[0] == (255, 0, 0, 255)).all()
            assert (pixels[1:] == (51, 102, 153, 255)).all()
        with surface.access(acquire=2, release=3) as view:
            device.submit(device.record().clear(view, (0, 1, 0, 1)))
        with shared.access(acquire=3, release=0) as view:
            GL.glBindTexture(GL.GL_TEXTURE_2D, view.texture)
            seen = GL.glGetTexImage(GL.GL_TEXTURE_2D, 0, *shared.transfer)
            GL.glBindTexture(GL.GL_TEXTURE_2D, 0)
        assert (np.frombuffer(seen, np.uint8).reshape(8, 16, 4) == (0, 255, 0, 255)).all()


WINDOW = (
    START
    + """
    import glfw
    from support import gl_peer

    def turns(device, api):
        assert glfw.init()
        glfw.window_hint(glfw.VISIBLE, False)
        glfw.window_hint(glfw.CONTEXT_VERSION_MAJOR, 3)
        glfw.window_hint(glfw.CONTEXT_VERSION_MINOR, 3)
        glfw.window_hint(glfw.OPENGL_PROFILE, glfw.OPENGL_CORE_PROFILE)
        glfw.window_hint(glfw.CONTEXT_CREATION_API, api)
        window = glfw.create_window(64, 48, "OpenGL", None, None)
        assert window
        glfw.make_context_current(window)
        with device.create_surface(37, 19) as surface:
            shared = vks.interop.gl.open(surface)
            gl = gl_peer.functions()
            for turn in range(5):
                with surface.access(acquire=0, release=1) as view:
                    device.submit(device.record().clear(view, (turn / 255, 0, 1, 1)))
                with shared.access(acquire=1, release=2) as view:
                    assert (gl_peer.read(gl, view) == (turn, 0, 255, 255)).all()
                    gl_peer.clear(gl, view, (0, turn / 255, 0, 1))
                with surface.access(acquire=2, release=0):
                    assert (surface.read() == (0, turn, 0, 255)).all()
            tell(shared)
            shared.close()
            lost = vks.interop.gl.open(surface)
            glfw.destroy_window(window)
            glfw.terminate()
            lost.close()  # its context and its display are gone

    with opened() as device:
        turns(device, glfw.NATIVE_CONTEXT_API)
        turns(device, glfw.EGL_CONTEXT_API)
"""
)


@pytest.mark.rule("I6", "I9")
def test_a_surface_is_a_texture_in_windows_of_glfw(device: vks.Device, x11: XDisplay) -> None:
    needs_opengl(device)
    reported = run_child(WINDOW, dict(os.environ) | {"DISPLAY": x11.environment["DISPLAY"]}, timeout=60).splitlines()
    assert [" of the GLX context 0x" in reported[0], " of the EGL context 0x" in reported[1]] == [True, True]
