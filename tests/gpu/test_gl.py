"""OpenGL and Vulkan of one real driver: they wait for each other on the GPU (GL_EXT_semaphore_fd)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support import gl_peer
from support.planar_pictures import first_difference
from support.run_volumes import rounds

import vkshare as vks

pytest_plugins = ["support.opengl_context"]

Open = Callable[..., vks.Device]
SIDE = 4096


@pytest.mark.rule("I6")
@pytest.mark.vks_gpu
@pytest.mark.usefixtures("gpu", "context")
def test_the_driver_has_semaphores_and_they_are_used(device: vks.Device) -> None:
    for tiling in gl_peer.tilings(device):
        with device.create_surface(64, 64, tiling=tiling) as surface, vks.interop.gl.open(surface) as shared:
            assert shared.order == "gpu"


@pytest.mark.rule("I6")
@pytest.mark.vks_gpu
@pytest.mark.usefixtures("gpu", "context")
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_long_drawing_of_either_is_waited_for_by_the_other(device: vks.Device, tiling: str) -> None:
    if tiling not in gl_peer.tilings(device):
        pytest.skip(f"the OpenGL of {device.adapter.name} opens no {tiling} surfaces")
    with device.create_surface(SIDE, SIDE, tiling=tiling) as surface, vks.interop.gl.open(surface) as shared:
        gl_peer.take_turns(device, shared, rounds(500, 10), layers=50)


@pytest.mark.rule("I6")
@pytest.mark.vks_gpu
@pytest.mark.usefixtures("gpu", "context")
def test_a_turn_begins_while_vulkan_still_draws(device: vks.Device) -> None:
    """No CPU wait: the block is entered and left before the work that it is behind has run."""
    gl = gl_peer.functions()
    with (
        device.create_surface(SIDE, SIDE, "rgba32float", tiling="optimal") as surface,
        vks.interop.gl.open(surface) as shared,
    ):
        with shared.access() as view:  # what is made at first use is made
            gl_peer.clear(gl, view, (0, 0, 0, 0))
        with surface.access(acquire=0, release=1) as view:
            commands = device.record()
            for _ in range(2_000):  # some 0.1 s
                commands.clear(view, (0.5, 0.5, 0.5, 0.5))
            drawn = device.submit(commands)
        with shared.access(acquire=1, release=2) as view:
            assert not drawn.is_done(), "drawing took no longer than entering the block, or that waited for it"
            gl_peer.clear(gl, view, (0.25, 0.25, 0.25, 0.25))
        assert not drawn.is_done()
        with surface.access(acquire=2, release=0):
            assert (surface.read() == np.float32(0.25)).all()


@pytest.mark.rule("I6", "Y1")
@pytest.mark.vks_gpu
@pytest.mark.usefixtures("gpu", "context")
def test_long_drawing_of_planes_is_waited_for_by_the_other(device: vks.Device) -> None:
    gl, codes = gl_peer.functions(), []
    with (
        device.create_surface(2048, 2048, "nv12", tiling="optimal") as surface,
        vks.interop.gl.open(surface) as shared,
    ):
        assert shared.order == "gpu"
        for level in range(4):  # the codes of each grey, read in peace
            with surface.access() as view:
                device.submit(device.record().clear(view, (level / 3, level / 3, level / 3, 1))).wait()
                codes.append(surface.read_planes())
        for turn in range(rounds(500, 10)):
            level, code = turn % 4, turn % 256
            with surface.access(acquire=0, release=1) as view:
                commands = device.record()
                for layer in range(50):
                    commands.clear(view, (layer / 50, 0.5, 0, 1))
                device.submit(commands.clear(view, (level / 3, level / 3, level / 3, 1)))
            with shared.access(acquire=1, release=2) as drawn:
                pairs = list(zip(drawn.planes, codes[level], strict=True))
                seen = tuple(gl_peer.read_plane(gl, plane, wanted) for plane, wanted in pairs)
                for layer in range(50):
                    for plane in drawn.planes:
                        gl_peer.clear_plane(gl, plane, layer / 50)
                for plane in drawn.planes:
                    gl_peer.clear_plane(gl, plane, code / 255)
            assert not first_difference(seen, codes[level]), f"turn {turn}: OpenGL after Vulkan"
            with surface.access(acquire=2, release=0):
                wanted = tuple(np.full_like(plane, code) for plane in seen)
                assert not first_difference(surface.read_planes(), wanted), f"turn {turn}: Vulkan after OpenGL"
