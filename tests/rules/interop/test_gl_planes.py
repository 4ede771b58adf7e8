"""Surfaces in planes in OpenGL: a texture a plane, or an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support import gl_peer
from support.peer_processes import Peer
from support.pixel_formats import PLANAR
from support.planar_pictures import first_difference, noise
from support.run_volumes import rounds

import vkshare as vks
from vkshare.errors import UnsupportedError
from vkshare.interop.gl import GLSurface, offsets

pytest_plugins = ["support.opengl_context", "support.peer_processes"]
pytestmark = [pytest.mark.slow, pytest.mark.rule("I6")]

Peers = Callable[..., Peer]
SIZES = ((2, 2), (34, 18), (640, 362))


@pytest.fixture(params=["linear", "optimal"])
def tiling(request: pytest.FixtureRequest, context: object, device: vks.Device) -> str:
    """In which OpenGL has the planes of surfaces; skipped where it has none."""
    name = str(request.param)
    try:
        with device.create_surface(16, 16, "nv12", tiling=name) as surface:
            vks.interop.gl.open(surface).close()
    except UnsupportedError as error:
        pytest.skip(str(error))
    return name


def _surfaces(device: vks.Device, name: str, tiling: str) -> Iterator[vks.Surface]:
    for size in SIZES:
        with device.create_surface(*size, name, tiling=tiling) as surface:
            yield surface


@pytest.mark.parametrize("name", PLANAR)
def test_opengl_reads_the_planes_of_vulkan_and_vulkan_those_of_opengl(
    device: vks.Device, name: str, tiling: str
) -> None:
    gl = gl_peer.functions()
    for surface in _surfaces(device, name, tiling):
        with vks.interop.gl.open(surface) as shared:
            assert shared.statistics().objects == 1 + 2 * len(shared.planes)
            for turn in range(rounds(50, 3)):
                mine, theirs = noise(surface, 2 * turn), noise(surface, 2 * turn + 1)
                with surface.access(0, 1):
                    surface.write_planes(mine)
                with shared.access(1, 2) as view:
                    found = tuple(
                        gl_peer.read_plane(gl, plane, wanted) for plane, wanted in zip(view.planes, mine, strict=True)
                    )
                    for plane, pixels in zip(view.planes, theirs, strict=True):
                        gl_peer.write_plane(gl, plane, pixels)
                assert not first_difference(found, mine), f"Vulkan to OpenGL, {surface}"
                with surface.access(2, 0):
                    written = surface.read_planes()
                assert not first_difference(written, theirs), f"OpenGL to Vulkan, {surface}"


@pytest.mark.parametrize("name", PLANAR)
def test_opengl_draws_each_plane_alone(device: vks.Device, name: str, tiling: str) -> None:
    gl = gl_peer.functions()
    for surface in _surfaces(device, name, tiling):
        with vks.interop.gl.open(surface) as shared:
            for index in range(len(shared.planes)):
                with surface.access(0, 1):
                    wanted = [np.zeros_like(plane) for plane in noise(surface)]
                    surface.write_planes(wanted)
                with shared.access(1, 2) as view:
                    gl_peer.clear_plane(gl, view.planes[index], 1)
                wanted[index][:] = np.iinfo(wanted[index].dtype).max
                with surface.access(2, 0):
                    assert not first_difference(surface.read_planes(), tuple(wanted)), f"plane {index} of {surface}"


def test_opengl_in_another_process_answers_in_planes(device: vks.Device, peers: Peers, tiling: str) -> None:
    peer, turns = peers(), rounds(500, 5)
    with device.create_surface(34, 18, "nv12", tiling=tiling) as surface:
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        answering = peer.later(gl_peer.answer_in_planes, peer.device, theirs, turns)
        for turn in range(turns):
            sent = noise(surface, turn)
            with surface.access(0, 1, 30):
                surface.write_planes(sent)
            with surface.access(0, 0, 30):
                assert not first_difference(surface.read_planes(), tuple(~plane for plane in sent)), f"turn {turn}"
        answering.result()


# ---- what is refused ----------------------------------------------------------------------------------------------


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every context passes for one whose textures begin in their places; that of the first plane does."""
    monkeypatch.setattr(offsets, "_found", {})
    monkeypatch.setattr(offsets, "_begin_in_place", lambda *_: True)


def _opened(surface: vks.Surface) -> GLSurface:
    try:
        return vks.interop.gl.open(surface)
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("context", "in_place")
def test_one_texture_for_several_planes_is_refused_with_what_to_do(device: vks.Device) -> None:
    with device.create_surface(34, 18, "nv12") as surface, _opened(surface) as shared:
        for name in ("texture", "framebuffer", "internal_format", "transfer"):
            with pytest.raises(UnsupportedError, match=rf"{name} of a nv12 surface .*use planes\[0\]"):
                getattr(shared, name)
        with pytest.raises(UnsupportedError, match=r"moderngl_texture\(\) of a nv12 surface"):
            shared.moderngl_texture(None)
        assert not shared.swaps_red_and_blue
        luma, chroma = shared.planes
        assert (luma.format, luma.size, luma.internal_format) == ("r8unorm", (34, 18), 0x8229)
        assert (chroma.format, chroma.size, chroma.internal_format) == ("rg8unorm", (17, 9), 0x822B)
        assert luma.texture != chroma.texture
        assert luma.framebuffer != chroma.framebuffer
    with pytest.raises(vks.ClosedError):
        _ = luma.texture


@pytest.mark.usefixtures("context", "in_place")
def test_the_first_plane_is_the_memory_itself(device: vks.Device) -> None:
    gl = gl_peer.functions()
    with device.create_surface(34, 18, "i420") as surface, _opened(surface) as shared:
        planes = noise(surface)
        with surface.access(0, 1):
            surface.write_planes(planes)
        with shared.access(1, 2) as view:
            assert (gl_peer.read_plane(gl, view.planes[0], planes[0]) == planes[0]).all()
            gl_peer.write_plane(gl, view.planes[0], ~planes[0])
        with surface.access(2, 0):
            assert (surface.read_planes()[0] == ~planes[0]).all()


@pytest.mark.usefixtures("context")
def test_a_format_of_one_plane_has_that_texture(device: vks.Device) -> None:
    with device.create_surface(5, 3) as surface, vks.interop.gl.open(surface) as shared:
        (plane,) = shared.planes
        assert (plane.texture, plane.framebuffer) == (shared.texture, shared.framebuffer)
        assert (plane.format, plane.size, plane.transfer) == ("rgba8unorm", (5, 3), shared.transfer)


@pytest.mark.usefixtures("context")
def test_a_context_that_puts_every_texture_at_the_start_is_found_out(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mesa's llvmpipe is one; contexts that are not found out take part in the tests above."""
    monkeypatch.setattr(offsets, "_found", {})
    tries: list[Any] = []
    tried = offsets._begin_in_place
    monkeypatch.setattr(offsets, "_begin_in_place", lambda *given: tries.append(given) or tried(*given))
    answers = []
    with device.create_surface(34, 18, "nv12", tiling="optimal") as surface:
        for _ in range(2):
            try:
                vks.interop.gl.open(surface).close()
                answers.append("opened")
            except UnsupportedError as error:
                answers.append(str(error))
        with surface.access():
            assert not any(plane.any() for plane in surface.read_planes()), "the trial is in a surface of its own"
    assert len(tries) == 1, "tried once"
    assert answers[0] == answers[1]
    wanted = "at the start of its memory, whatever offset" if device.adapter.kind == "software" else "opened"
    assert wanted in answers[0]
