"""OpenGL and Vulkan of one real driver: they wait for each other on the GPU (GL_EXT_semaphore_fd)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support import gl_peer
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
