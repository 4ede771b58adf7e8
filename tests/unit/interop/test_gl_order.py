"""Turns by semaphores on the GPU. No OpenGL of the sysroot has GL_EXT_semaphore_fd, so Vulkan plays its part here:

what OpenGL would wait for and signal, the same queue does. tests/gpu/test_gl.py has the real one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import access_patterns, gl_peer
from support.fd_counts import open_fds
from support.peer_processes import later
from support.run_volumes import rounds

import vkshare as vks
from vkshare.interop.gl import order
from vkshare.interop.gl.context import GLError

pytest_plugins = ["support.opengl_context"]
pytestmark = pytest.mark.slow

Open = Callable[..., vks.Device]


class VulkanForOpenGL:
    """The functions of OpenGL that GPUOrder calls. The surface's own queue does what they would have OpenGL do."""

    def __init__(self, surface: vks.Surface) -> None:
        self.surface = surface
        self.calls: list[str] = []
        self.semaphores: dict[int, Any] = {}
        self.order: order.GPUOrder
        self.fails = False

    def make(self, generate: str) -> int:
        assert generate == "glGenSemaphoresEXT"
        self.semaphores[len(self.semaphores) + 1] = None
        return len(self.semaphores)

    def delete(self, function: str, name: int) -> None:
        assert function == "glDeleteSemaphoresEXT"
        del self.semaphores[name]

    def check(self, what: str) -> None:
        if self.fails:
            raise GLError(0x0502, what)

    def glImportSemaphoreFdEXT(self, name: int, handle_type: int, fd: int) -> None:
        assert handle_type == 0x9586
        if not self.fails:
            os.close(fd)

    def glWaitSemaphoreEXT(self, name: int, n: int, buffers: Any, m: int, texture: Any, layout: Any) -> None:
        assert (n, m, list(layout)) == (0, 1, [0x958D])
        self.calls.append(f"wait {name} for {texture[0]}")
        self.surface._acquire_from_external(self.order._vulkan[name - 1].handle)

    def glSignalSemaphoreEXT(self, name: int, n: int, buffers: Any, m: int, texture: Any, layout: Any) -> None:
        assert (n, m, list(layout)) == (0, 1, [0x958D])
        self.calls.append(f"signal {name} for {texture[0]}")
        self.surface._release_to_external(self.order._vulkan[name - 1].handle)

    def glFlush(self) -> None:
        self.calls.append("flush")


@pytest.fixture(autouse=True)
def _semaphores_that_stay_at_home(vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver exports none, they are not exported: only OpenGL would need that."""
    if vks_device.backend == "cpu":
        return
    from vkshare.backends.vulkan import semaphores
    from vkshare.backends.vulkan.api import new
    from vkshare.backends.vulkan.objects import Objects

    def made(self: Any, context: Any) -> None:
        self._context = context
        self._objects = Objects(context)
        self._handle = self._objects.make("vkCreateSemaphore", new("VkSemaphoreCreateInfo"))

    try:
        backend: Any = vks_device._backend
        semaphores.SharedSemaphore(backend.context).destroy()
    except vks.UnsupportedError:
        monkeypatch.setattr(semaphores.SharedSemaphore, "__init__", made)
        monkeypatch.setattr(semaphores.SharedSemaphore, "export", lambda self: os.memfd_create("a semaphore"))


@pytest.fixture
def turns(vks_device: vks.Device) -> Iterator[tuple[vks.Surface, VulkanForOpenGL, order.GPUOrder]]:
    if vks_device.backend == "cpu":
        pytest.skip("the CPU backend has no semaphores: see test_the_cpu_backend_hands_nothing_out")
    with vks_device.create_surface(16, 16) as surface:
        gl: Any = VulkanForOpenGL(surface)
        made = gl.order = order.GPUOrder(gl, surface)
        yield surface, gl, made
        made.delete()
        made.close()


@pytest.mark.rule("I6")
def test_each_semaphore_is_signalled_and_waited_for_once_a_turn(device: vks.Device, turns: Any) -> None:
    surface, gl, by_gpu = turns
    for turn in range(rounds(2_000, 20)):
        with surface.access(acquire=0, release=1):
            access_patterns.clear(surface, turn)
        surface.acquire(1, 10)
        by_gpu.begin([42])
        device.submit(device.record().fill_rect(surface, (0, 0, 8, 16), (1, 1, 1, 1)))  # as OpenGL would
        by_gpu.end([42])
        surface.release(0)
        assert gl.calls == ["wait 1 for 42", "signal 2 for 42", "flush"]
        gl.calls.clear()
    with surface.access():
        pixels = surface.read()
    assert (pixels[:, :8] == 255).all()
    assert access_patterns.is_clear(pixels[:, 8:], turn)


@pytest.mark.rule("I6")
def test_a_turn_that_is_given_up_leaves_the_next_one_as_it_should_be(device: vks.Device, turns: Any) -> None:
    surface, _, by_gpu = turns
    for ends in (False, True, False, True):
        surface.acquire(0, 10)
        by_gpu.begin([1])
        if ends:
            by_gpu.end([1])
        else:
            by_gpu.give_up()
        surface.release(0)
    with surface.access():
        assert not surface.read().any()


@pytest.mark.rule("I6")
def test_another_device_sees_what_was_drawn_in_the_turn(vks_open: Open, turns: Any) -> None:
    surface, _, by_gpu = turns
    other = vks_open()
    with surface.export() as descriptor, other.open_surface(descriptor) as theirs:
        for turn in range(10):
            surface.acquire(0, 10)
            by_gpu.begin([1])
            access_patterns.clear(surface, turn)
            by_gpu.end([1])
            surface.release(1)
            with theirs.access(acquire=1, release=0, timeout=10):
                assert access_patterns.is_clear(theirs.read(), turn)


@pytest.mark.rule("I6")
def test_a_turn_behind_work_that_is_held_back_begins_when_that_has_run(vks_open: Open, turns: Any) -> None:
    surface, _, by_gpu = turns
    other = vks_open()
    gate = other.create_fence()
    with surface.export() as descriptor, other.open_surface(descriptor) as theirs:
        with theirs.access(acquire=0, release=1):
            held = access_patterns.clear(theirs, 7, waits=(gate, 1))
        assert held.is_held
        surface.acquire(1, 10)
        begun = later(by_gpu.begin, [1])
        assert not begun.done(0.05)
        gate.signal(1)
        begun.result(10)
        by_gpu.end([1])
        surface.release(0)
        with surface.access():
            assert access_patterns.is_clear(surface.read(), 7)


@pytest.mark.rule("I6")
def test_what_is_not_owned_is_not_handed_out(device: vks.Device, turns: Any) -> None:
    surface, _, by_gpu = turns
    with pytest.raises(vks.NotOwnerError):
        by_gpu.begin([1])
    with pytest.raises(vks.NotOwnerError):
        by_gpu.give_up()
    surface.acquire(0)
    for wrong in (-1, 2**64):
        with pytest.raises(OverflowError):
            surface._release_to_external(wrong)
    with pytest.raises(TypeError):
        surface._acquire_from_external("semaphore")
    surface.close()
    for use in (surface._release_to_external, surface._acquire_from_external):
        with pytest.raises(vks.ClosedError):
            use(0)


@pytest.mark.rule("I6")
def test_semaphores_that_cannot_be_imported_leave_nothing_behind_and_the_cpu_waits(
    device: vks.Device, turns: Any
) -> None:
    surface, gl, _ = turns
    before, names = open_fds(), set(gl.semaphores)
    gl.fails = True
    gl.extensions = {"GL_EXT_semaphore", "GL_EXT_semaphore_fd"}
    assert order.choose(gl, surface).kind == "cpu"
    assert open_fds() == before
    assert set(gl.semaphores) == names
    gl.fails, gl.extensions = False, {"GL_EXT_semaphore"}
    assert order.choose(gl, surface).kind == "cpu"
    gl.extensions = {"GL_EXT_semaphore", "GL_EXT_semaphore_fd"}
    chosen = order.choose(gl, surface)
    assert chosen.kind == "gpu"
    chosen.delete()
    chosen.close()
    assert set(gl.semaphores) == names
    device.submit(device.record()).wait()  # a later batch has run
    device.record()  # looks at what may go
    assert device.statistics().buried == 0
    assert open_fds() == before


@pytest.mark.rule("I6")
def test_the_cpu_backend_hands_nothing_out(device: vks.Device) -> None:
    if device.backend != "cpu":
        pytest.skip("about the CPU backend")
    with device.create_surface(8, 8) as surface, surface.access():
        with pytest.raises(vks.UnsupportedError, match="the CPU backend has no semaphores"):
            surface._release_to_external(1)
        with pytest.raises(vks.UnsupportedError, match="the CPU backend has no semaphores"):
            surface._acquire_from_external(1)


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_without_the_extension_the_cpu_waits(device: vks.Device) -> None:
    has = gl_peer.functions().extensions >= {"GL_EXT_semaphore", "GL_EXT_semaphore_fd"}
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        assert shared.order == ("gpu" if has and device.capabilities.export_timelines else "cpu")
