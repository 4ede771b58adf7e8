"""Surfaces as textures of stock pygfx: a renderer's target, and a map on an object."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_process import run_with_layer
from support.run_volumes import LONG, rounds, unhurried

import vkshare as vks
from vkshare.engines import layer

pytestmark = unhurried


@pytest.fixture(autouse=True)
def _needs_pygfx(vks_adapter: vks.Adapter) -> None:
    pytest.importorskip("pygfx", reason="pygfx is not installed (vkshare[engines])")
    if vks_adapter.backend != "vulkan":
        pytest.skip("pygfx has no device on the CPU backend")


def scene_in_turns(turns: int) -> int:
    vks.engines.enable()
    import pygfx as gfx

    with (
        vks.engines.pygfx.open() as device,
        vks.open(device.adapter) as other,
        other.create_surface(48, 32, "rgba8unorm-srgb") as shown,
        other.create_surface(16, 16) as painted,
        shown.export() as of_shown,
        painted.export() as of_painted,
        device.open_surface(of_shown) as target,
        device.open_surface(of_painted) as picture,
    ):
        renderer = gfx.renderers.WgpuRenderer(vks.engines.pygfx.texture(target))
        material = gfx.MeshBasicMaterial(map=vks.engines.pygfx.texture(picture))
        scene: Any = gfx.Scene().add(gfx.Background(None, gfx.BackgroundMaterial("#204060")))
        scene.add(gfx.Mesh(gfx.plane_geometry(2, 2), material))
        camera = gfx.OrthographicCamera(4.5, 3)
        for turn in range(turns):
            colour = np.random.default_rng(turn).integers(0, 2, 3) * 255
            with painted.access(0, 1, 60):
                painted.write(np.full((16, 16, 4), (*colour, 255), np.uint8))
            with picture.access(1, 0, 60), target.access(0, 1, 60):
                renderer.render(scene, camera)
            with shown.access(1, 0, 60):
                pixels = shown.read()
            assert (pixels[16, 24] == (*colour, 255)).all(), f"turn {turn}: {pixels[16, 24]} of {colour}"
            assert (pixels[1, 1] == (0x20, 0x40, 0x60, 255)).all(), f"turn {turn}: {pixels[1, 1]}"
        return layer.misuses()


@pytest.mark.rule("E11", "E12", "E13")
@pytest.mark.parametrize(
    "validation", ["", *(pytest.param(each, marks=pytest.mark.full) for each in ("above", "below"))]
)
def test_a_scene_is_rendered_into_a_surface_with_anothers_picture_as_its_map(validation: str) -> None:
    turns = rounds(10_000, 20, full=200) if validation else rounds(10_000, 100, full=1000)
    assert run_with_layer(scene_in_turns, turns, validation=validation, timeout=LONG) == 0
