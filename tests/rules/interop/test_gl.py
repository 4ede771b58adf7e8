"""vkshare.interop.gl: one memory in Vulkan and in OpenGL, byte for byte, in turns."""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support import gl_peer
from support.peer_processes import Peer, PeerDied
from support.pixel_formats import WITHOUT_DEPTH
from support.run_volumes import rounds, seeded

import vkshare as vks
from vkshare.errors import InvalidCallError
from vkshare.interop.gl import EGLContext

pytest_plugins = ["support.opengl_context", "support.peer_processes"]
pytestmark = pytest.mark.slow

SIZES = ((1, 1), (3, 5), (64, 32), (333, 7))
Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]


def _surfaces(device: vks.Device) -> Iterator[vks.Surface]:
    """One surface of each format, tiling and size; closed one after the other."""
    names = [name for name in sorted(device.capabilities.formats) if name in WITHOUT_DEPTH]
    pairs = [(name, tiling) for name in names for tiling in gl_peer.tilings(device, name)]
    for (name, tiling), size in itertools.product(pairs, SIZES):
        with device.create_surface(*size, name, tiling=tiling) as surface:
            yield surface


# ---- the same bytes ------------------------------------------------------------------------------------------------


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_what_vulkan_writes_opengl_reads_in_every_format_tiling_and_size(device: vks.Device) -> None:
    random, gl = np.random.default_rng(seeded().getrandbits(32)), gl_peer.functions()
    for surface in _surfaces(device):
        with vks.interop.gl.open(surface) as shared:
            pixels = gl_peer.random_pixels(surface, random)
            with surface.access(acquire=0, release=1):
                surface.write(pixels)
            with shared.access(acquire=1, release=0) as view:
                seen = gl_peer.read(gl, view)
            assert seen.tobytes() == pixels.tobytes(), surface


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_what_opengl_writes_vulkan_reads_in_every_format_tiling_and_size(device: vks.Device) -> None:
    random, gl = np.random.default_rng(seeded().getrandbits(32)), gl_peer.functions()
    for surface in _surfaces(device):
        with vks.interop.gl.open(surface) as shared:
            with surface.access():
                surface.write(gl_peer.poison(surface))
            pixels = gl_peer.random_pixels(surface, random)
            with shared.access(acquire=0, release=1) as view:
                gl_peer.write(gl, view, pixels)
            with surface.access(acquire=1, release=0):
                assert surface.read().tobytes() == pixels.tobytes(), surface
            if surface.spec.format.is_integer:
                continue  # glClear leaves an integer target undefined
            with shared.access() as view:
                gl_peer.clear(gl, view, (1, 1, 1, 1))
            with surface.access():
                full = surface.read()
            assert (full == (np.iinfo(full.dtype).max if full.dtype.kind == "u" else 1)).all(), surface


@pytest.mark.rule("X26")
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("count", [1, 3])
def test_opengl_does_not_believe_a_header_that_a_peer_rewrote(device: vks.Device, count: int) -> None:
    if device.adapter.kind != "software":
        pytest.skip("of software drivers: a GPU's memory has no header")
    surface = device.create_surface(64, 32)
    pixels = gl_peer.random_pixels(surface, np.random.default_rng(3))
    with surface.access(acquire=0, release=1):
        surface.write(pixels)
    with surface.export() as descriptor, contextlib.ExitStack() as stack:
        size, offset = struct.unpack("<QQ", os.pread(descriptor.memory_fd, 16, 0))
        os.pwrite(descriptor.memory_fd, struct.pack("<QQ", size, offset + 4096), 0)
        theirs = [stack.enter_context(device.open_surface(descriptor)) for _ in range(count)]
        for each in theirs:
            shared = stack.enter_context(vks.interop.gl.open(each))
            os.pwrite(descriptor.memory_fd, struct.pack("<Q", 1 << 40), offset - 8)  # what is read when it is freed
            with shared.access(acquire=1, release=1) as view:
                assert gl_peer.read(gl_peer.functions(), view).tobytes() == pixels.tobytes()
    surface.close()


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_each_waits_for_the_others_drawing_at_every_hand_over(device: vks.Device, tiling: str) -> None:
    if tiling not in gl_peer.tilings(device):
        pytest.skip(f"the OpenGL of {device.adapter.name} opens no {tiling} surfaces")
    surface = device.create_surface(1024, 1024, tiling=tiling)
    with surface, vks.interop.gl.open(surface) as shared:
        gl_peer.take_turns(device, shared, rounds(2_000, 12), layers=8)
        assert shared.statistics().accesses == rounds(2_000, 12)
        assert shared.statistics().copied_bytes == 0


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_a_second_handle_lets_opengl_and_vulkan_wait_for_each_other_in_two_threads(device: vks.Device) -> None:
    turns = rounds(2_000, 40)
    surface = device.create_surface(33, 17)
    with surface.export() as descriptor:
        theirs = device.open_surface(descriptor)
    seen: list[int] = []

    def draw() -> None:
        for turn in range(turns):
            with surface.access(acquire=0, release=1, timeout=30) as view:
                device.submit(device.record().clear(view, (turn % 256 / 255, 0, 0, 1)))

    thread = threading.Thread(target=draw)
    with theirs, vks.interop.gl.open(theirs) as shared:
        gl = gl_peer.functions()
        thread.start()
        for _ in range(turns):
            with shared.access(acquire=1, release=0, timeout=30) as view:
                pixels = gl_peer.read(gl, view)
                assert (pixels == pixels[0, 0]).all()
                seen.append(int(pixels[0, 0, 0]))
        thread.join(30)
    surface.close()
    assert seen == [turn % 256 for turn in range(turns)]


@pytest.mark.rule("I6", "I8")
@pytest.mark.usefixtures("context")
def test_opengl_in_another_process_answers_every_picture(device: vks.Device, peers: Peers) -> None:
    turns, random = rounds(1_000, 10), np.random.default_rng(seeded().getrandbits(32))
    peer = peers()
    for tiling in gl_peer.tilings(device):
        with device.create_surface(97, 31, tiling=tiling) as surface:
            with surface.export() as descriptor:
                theirs = peer.device.open_surface(descriptor)
            role = peer.later(gl_peer.answer, peer.device, theirs, turns)
            for _ in range(turns):
                pixels = gl_peer.random_pixels(surface, random)
                with surface.access(acquire=0, release=1, timeout=30):
                    surface.write(pixels)
                with surface.access(acquire=0, release=0, timeout=30):
                    assert (surface.read() == ~pixels).all()
            assert role.result() in ("cpu", "gpu")
            theirs.close()


@pytest.mark.rule("I6", "K9")
@pytest.mark.usefixtures("context")
def test_a_process_that_dies_in_its_opengl_turn_leaves_the_surface_to_be_recovered(
    device: vks.Device, peers: Peers
) -> None:
    peer = peers()
    with device.create_surface(64, 64) as surface, vks.interop.gl.open(surface) as shared:
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        dying = peer.later(gl_peer.own_and_die, peer.device, theirs)
        with surface.access(acquire=0, release=1):
            pass
        with pytest.raises(PeerDied):
            dying.result(30)
        with pytest.raises(vks.AbandonedError), shared.access(acquire=0, timeout=10):
            pass
        surface.recover(10)
        surface.release(0)
        with shared.access() as view:
            gl_peer.clear(gl_peer.functions(), view, (0, 1, 0, 1))
        with surface.access():
            assert (surface.read() == (0, 255, 0, 255)).all()


@pytest.mark.rule("I6", "I11")
def test_the_texture_keeps_its_memory_when_surface_and_device_are_closed(vks_open: Open, context: EGLContext) -> None:
    device = vks_open()
    surface = device.create_surface(40, 30)
    gl, random = gl_peer.functions(), np.random.default_rng(1)
    pixels = gl_peer.random_pixels(surface, random)
    with vks.interop.gl.open(surface) as shared:
        with surface.access():
            surface.write(pixels)
        with shared.access() as view:
            assert (gl_peer.read(gl, view) == pixels).all()
        surface.close()
        with pytest.raises(vks.ClosedError), shared.access():
            pass
        device.close()
        texture, framebuffer = shared.texture, shared.framebuffer
        assert texture
        gl.glBindFramebuffer(0x8D40, framebuffer)
        seen = np.zeros_like(pixels)
        gl.glReadPixels(0, 0, 40, 30, *shared.transfer, seen.ctypes.data)
        assert (seen == pixels).all()
        assert context.is_current


# ---- who the texture is ---------------------------------------------------------------------------------------------


# ---- within a turn that the handle has ------------------------------------------------------------------------------


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_opengl_and_vulkan_draw_on_the_frames_of_a_pipe_in_turn(device: vks.Device, vks_open: Open) -> None:
    gl, opened = gl_peer.functions(), {}
    receiving = vks_open(name="receiver")
    sender, descriptor = vks.pipe(device, 8, 8)
    with sender, vks.open_receiver(receiving, descriptor) as receiver:
        for n in range(rounds(1000, 12)):
            with sender.frame(timeout=30) as frame:
                surface = frame.surface
                device.submit(device.record().clear(surface, (n / 255, 0, 0, 1)))
                shared = opened.get(surface.image) or opened.setdefault(surface.image, vks.interop.gl.open(surface))
                with shared.within() as view:
                    assert (gl_peer.read(gl, view) == (n, 0, 0, 255)).all()
                    gl_peer.clear(gl, view, (0, n / 255, 0, 1))
                device.submit(device.record().fill_rect(surface, (0, 0, 4, 8), (0, 0, n / 255, 1)))
            with receiver.frame(timeout=30) as frame:
                pixels = frame.surface.read()
            assert (pixels[:, :4] == (0, 0, n, 255)).all()
            assert (pixels[:, 4:] == (0, n, 0, 255)).all()
        for shared in opened.values():
            shared.close()
    descriptor.close()


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_opengl_has_no_block_in_a_turn_that_the_handle_has_not(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        with pytest.raises(vks.NotOwnerError), shared.within():
            pass
        surface.acquire()
        with shared.within() as view:
            gl_peer.clear(gl_peer.functions(), view, (1, 1, 1, 1))
        assert surface.is_owned
        assert (surface.read() == 255).all()
        surface.release(1)


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_opengl_has_one_block_at_a_time_and_leaves_it_once(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        surface.acquire()
        block = shared.within()
        with block:
            for second in (block, shared.within()):
                with pytest.raises(InvalidCallError, match="already"):
                    second.__enter__()
            with pytest.raises(InvalidCallError, match="owns"):
                shared.access().__enter__()
        block.__exit__(None, None, None)
        assert shared.statistics().accesses == 1
        surface.release()
        block = shared.access(0, 0)
        with block:
            pass
        with surface.access():
            block.__exit__(None, None, None)
            assert surface.is_owned


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_opening_leaves_the_programs_own_bindings_as_they_were(device: vks.Device) -> None:
    gl = gl_peer.functions()
    texture, one, two = gl.make("glGenTextures"), gl.make("glGenFramebuffers"), gl.make("glGenFramebuffers")
    gl.glBindTexture(0x0DE1, texture)
    gl.glBindFramebuffer(0x8CA9, one)
    gl.glBindFramebuffer(0x8CA8, two)
    gl.glBindTexture(0x1234, 5)  # an error of the program's own is not taken for ours
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        assert (gl.integer(0x8069), gl.integer(0x8CA6), gl.integer(0x8CAA)) == (texture, one, two)
        with shared.access():
            pass
        assert (gl.integer(0x8069), gl.integer(0x8CA6), gl.integer(0x8CAA)) == (texture, one, two)
    assert (gl.integer(0x8069), gl.integer(0x8CA6), gl.integer(0x8CAA)) == (texture, one, two)


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_a_gl_surface_tells_what_it_is(device: vks.Device) -> None:
    with device.create_surface(8, 6) as surface:
        shared = vks.interop.gl.open(surface)
        assert shared.surface is surface
        assert shared.device is device
        assert (shared.target, shared.internal_format, shared.transfer) == (0x0DE1, 0x8058, (0x1908, 0x1401))
        assert not shared.swaps_red_and_blue
        assert shared.order in ("cpu", "gpu")
        assert f"8x6 rgba8unorm {surface.tiling}, texture {shared.texture} of the EGL context" in repr(shared)
        before = shared.statistics()
        assert (before.accesses, before.objects, before.order) == (0, 3, shared.order)
        with shared.access() as view:
            assert (view.texture, view.framebuffer, view.size) == (shared.texture, shared.framebuffer, (8, 6))
            assert view.gl_surface is shared
        shared.close()
        shared.close()
        assert shared.is_closed
        assert (shared.statistics().accesses, shared.statistics().objects) == (1, 0)
        assert repr(shared).endswith("closed>")
        with pytest.raises(vks.ClosedError, match="this GLSurface is closed"):
            shared.texture  # noqa: B018
        with pytest.raises(vks.ClosedError), shared.access():
            pass
        assert not surface.is_closed
