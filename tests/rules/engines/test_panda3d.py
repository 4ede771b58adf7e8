"""vkshare.engines.panda3d: copies between its textures and surfaces, on the GPU and upright."""

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
    from panda3d.core import CardMaker, GraphicsOutput, OrthographicLens, NodePath, Texture, loadPrcFileData
    from vkshare import engines

    loadPrcFileData("", "audio-library-name null\\n" + os.environ.get("PANDA", ""))
    from direct.showbase.ShowBase import ShowBase

    base = ShowBase()
    window = base.win
    skin = Texture("skin")
    skin.setup2dTexture(40, 30, Texture.TUnsignedByte, Texture.FRgba8)
    skin.setMagfilter(Texture.FTNearest)
    skin.setMinfilter(Texture.FTNearest)
    skin.makeRamImage()
    scene = Texture("scene")
    buffer = window.makeTextureBuffer("scene", 40, 30, scene)
    buffer.setClearColor((0, 0, 0, 1))
    card = CardMaker("card")
    card.setFrame(-1, 1, -1, 1)  # the whole picture
    root = NodePath("root")
    node = root.attachNewNode(card.generate())
    node.setTexture(skin)
    lens = OrthographicLens()
    lens.setFilmSize(2, 2)
    camera = base.makeCamera(buffer, lens=lens, scene=root)
    camera.setPos(0, -2, 0)

    def refused(error, text, call, *arguments):
        try:
            call(*arguments)
        except error as raised:
            assert re.search(text, str(raised)), raised
        else:
            raise AssertionError(f"it was not refused: {text}")

    def frame():
        base.graphicsEngine.renderFrame()

"""
)
_HEADLESS = {"PANDA": "load-display p3headlessgl\nwindow-type offscreen"}


@pytest.fixture(autouse=True)
def _needed(device: vks.Device) -> None:
    need_engine("panda3d")
    needs_opengl(device)


@pytest.mark.parametrize("headless", [True, False])
def test_a_surface_goes_through_a_texture_and_a_rendered_scene_unchanged(
    request: pytest.FixtureRequest, headless: bool
) -> None:
    body = """
    def is_loaded(view):  # a window's first frames are left out until it is on the screen
        frame()
        try:
            engines.panda3d.copy_to(view, skin, window)
        except vks.InvalidCallError:
            skin.prepare(window.gsg.prepared_objects)
            return False
        return True

    frame()
    with opened() as device, device.create_surface(40, 30) as surface, device.create_surface(40, 30) as drawn:
        with vks.interop.gl.open(surface) as shared, vks.interop.gl.open(drawn) as target:
            with shared.access() as view:
                wait_until(lambda: is_loaded(view), "the texture is loaded")
            for seed in range(3):
                picture = np.random.default_rng(seed).integers(0, 256, (30, 40, 4), np.uint8)
                picture[:, :, 3] = 255
                with surface.access(acquire=0, release=1):
                    surface.write(picture)
                with shared.access(acquire=1, release=0) as view:
                    engines.panda3d.copy_to(view, skin, window)
                frame()
                with target.access(acquire=0, release=1) as view:
                    engines.panda3d.copy_from(view, scene, window)
                with drawn.access(acquire=1, release=0):
                    assert (drawn.read() == picture).all(), seed
    tell("right")
    """
    environment = environment_of(request, headless=headless) | (_HEADLESS if headless else {})
    assert run_child(_SCENE + body, environment, 90).endswith("right\n")


def test_what_it_cannot_copy_is_refused_with_the_reason() -> None:
    body = """
    frame()
    BGRA, copy_to = "bgra8unorm", engines.panda3d.copy_to
    with opened() as device, device.create_surface(40, 30) as surface, device.create_surface(8, 8, BGRA) as bgra:
        with vks.interop.gl.open(surface) as shared, shared.access() as view:
            refused(vks.InvalidCallError, "not loaded the texture 'new' of 8x8 yet", copy_to, view,
                    (lambda t: (t.setup2dTexture(8, 8, Texture.TUnsignedByte, Texture.FRgba8), t)[1])(Texture("new")),
                    window)
            cube = Texture("cube")
            cube.setupCubeMap(8, Texture.TUnsignedByte, Texture.FRgba8)
            refused(TypeError, "two dimensions, and 'cube'", copy_to, view, cube, window)
            refused(TypeError, "texture must be a panda3d.core.Texture, not str", copy_to, view, "", window)
            refused(TypeError, "window must be a panda3d.core.GraphicsOutput", copy_to, view, skin, base)
        with vks.interop.gl.open(bgra) as shared, shared.access() as view:
            refused(vks.UnsupportedError, "a bgra8unorm surface.*exchange red and blue",
                    engines.panda3d.copy_from, view, scene, window)
        with vks.interop.gl.open(surface) as shared, shared.access() as view:
            with vks.interop.gl.egl_context(device):
                refused(vks.InvalidCallError, "belongs to the EGL context 0x.*, and the EGL context 0x",
                        engines.panda3d.copy_from, view, scene, window)
            frame()  # makes its own context current again
    tell("right")
    """
    assert run_child(_SCENE + body, {**os.environ, **_HEADLESS}, 90).endswith("right\n")
