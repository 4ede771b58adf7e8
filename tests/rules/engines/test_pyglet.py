"""vkshare.engines.pyglet: surfaces as its Texture, and its pictures in surfaces, in windows and without a display."""

from __future__ import annotations

import os

import pytest
from support.engine_packages import environment_of, need_engine
from support.opengl_context import needs_opengl
from support.private_displays import run_child
from support.window_child import START

import vkshare as vks
from vkshare import engines

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.rule("E15"), pytest.mark.slow]

_WINDOW = (
    START
    + """
    import numpy as np
    import pyglet
    from vkshare import engines

    pyglet.options.headless = {headless}
    window = pyglet.window.Window(64, 48)
    gl = pyglet.gl

    def on_screen():  # what is in the window, its top first
        pixels = np.empty((48, 64, 4), np.uint8)
        gl.glReadPixels(0, 0, 64, 48, gl.GL_RGBA, gl.GL_UNSIGNED_BYTE, pixels.ctypes.data)
        return pixels[::-1]

    def is_close(seen, picture):  # sprites sample between pixels, where a context rounds their corners so
        return abs(seen.astype(int) - picture).max() <= 16

    with opened() as device, device.create_surface(40, 30) as surface, vks.interop.gl.open(surface) as shared:
"""
)


@pytest.fixture(autouse=True)
def _needed(device: vks.Device) -> None:
    need_engine("pyglet")
    needs_opengl(device)


@pytest.mark.parametrize("headless", [False, True])
def test_a_sprite_shows_the_surface_upright_and_in_place(request: pytest.FixtureRequest, headless: bool) -> None:
    body = """
        texture = engines.pyglet.texture(shared)
        assert isinstance(texture, pyglet.image.Texture)
        picture = np.random.default_rng(1).integers(0, 256, (30, 40, 4), np.uint8)
        picture[:, :, 3] = 255
        with surface.access(acquire=0, release=1):
            surface.write(picture)
        window.clear()
        sprite = pyglet.sprite.Sprite(texture, x=5, y=7)
        lower = pyglet.sprite.Sprite(texture.get_region(0, 0, 40, 10), x=50, y=0)
        with shared.access(acquire=1, release=2):
            sprite.draw()
            lower.draw()
            seen = on_screen()
        assert is_close(seen[48 - 7 - 30 : 48 - 7, 5:45], picture)
        assert is_close(seen[38:48, 50:64], picture[20:30, :14])
        texture.delete()
        engines.pyglet.texture(shared)  # ends at once
        window.clear()
        with shared.access(acquire=2, release=0):
            pyglet.sprite.Sprite(engines.pyglet.texture(shared)).draw()  # both ends left the surface's texture alone
            seen = on_screen()
        assert is_close(seen[18:48, :40], picture)
        tell("right")
    """
    environment = environment_of(request, headless=headless)
    assert run_child(_WINDOW.format(headless=headless) + body, environment, 90) == "right\n"


@pytest.mark.parametrize("headless", [False, True])
def test_what_it_draws_into_a_surface_stands_upright_and_the_window_is_as_before(
    request: pytest.FixtureRequest, headless: bool
) -> None:
    body = """
        bar = pyglet.shapes.Rectangle(0, 0, 10, 4, color=(255, 0, 0))
        before = window.projection, window.viewport
        with shared.access(acquire=0, release=1) as view, engines.pyglet.drawing(view, window):
            gl.glClearColor(0, 0, 1, 1)
            window.clear()
            bar.draw()
        assert (window.projection, window.viewport) == before
        with surface.access(acquire=1, release=0):
            pixels = surface.read()
        expected = np.full((30, 40, 4), (0, 0, 255, 255), np.uint8)
        expected[26:, :10] = (255, 0, 0, 255)
        assert (pixels == expected).all()
        gl.glClearColor(0, 0, 0, 1)
        window.clear()
        bar.draw()
        expected = np.zeros((48, 64, 3), np.uint8)
        expected[44:, :10] = (255, 0, 0)
        assert (on_screen()[:, :, :3] == expected).all()
        assert shared.statistics().copied_bytes == 0
        tell("right")
    """
    environment = environment_of(request, headless=headless)
    assert run_child(_WINDOW.format(headless=headless) + body, environment, 90) == "right\n"


def test_another_context_is_refused_and_both_are_named() -> None:
    body = """
        import re
        def refused(call, text):
            try:
                call()
            except vks.InvalidCallError as error:
                assert re.search(text, str(error)), error
            else:
                raise AssertionError("it was not refused")
        other = pyglet.window.Window(32, 32)  # its context is current now
        refused(lambda: engines.pyglet.texture(shared), "belongs to the EGL context 0x.*, and the EGL context 0x")
        window.switch_to()
        with shared.access() as view:
            refused(lambda: engines.pyglet.drawing(view, other).__enter__(), "and the window's context is 0x")
        try:
            engines.pyglet.texture(surface)
        except TypeError as error:
            assert "shared must be a vkshare.interop.gl.GLSurface, not Surface" in str(error)
        refused(lambda: engines.pyglet.drawing(view, window).__enter__(), "this GLView is over")
        other.close()
        window.switch_to()
        tell("right")
    """
    assert run_child(_WINDOW.format(headless=True) + body, dict(os.environ), 90) == "right\n"


def test_a_context_that_is_not_pyglets_is_refused(device: vks.Device) -> None:
    with (
        vks.interop.gl.egl_context(device),
        device.create_surface(8, 8) as surface,
        vks.interop.gl.open(surface) as shared,
        pytest.raises(vks.InvalidCallError, match=r"the EGL context 0x\w+ is not pyglet's: open the surface"),
    ):
        engines.pyglet.texture(shared)
