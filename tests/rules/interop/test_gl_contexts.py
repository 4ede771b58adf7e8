"""vkshare.interop.gl: which context a surface belongs to, what is refused, and what close() leaves behind."""

from __future__ import annotations

import ctypes
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns, gl_peer
from support.child_processes import in_child
from support.fd_counts import open_fds
from support.opengl_context import needs_opengl
from support.run_volumes import rounds

import vkshare as vks
from vkshare.interop.gl import EGLContext, context, memory

pytest_plugins = ["support.opengl_context"]
pytestmark = pytest.mark.slow

Open = Callable[..., vks.Device]


@pytest.fixture
def any_context() -> Any:
    """An OpenGL context on whatever EGL has: for what does not depend on the device."""
    with vks.interop.gl.egl_context() as made:
        yield made


# ---- what cannot be opened ------------------------------------------------------------------------------------------


@pytest.mark.rule("I6", "I5")
@pytest.mark.usefixtures("any_context")
def test_memory_that_opengl_cannot_open_is_refused_with_the_reason(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface:
        if device.backend == "cpu":
            with pytest.raises(vks.UnsupportedError, match=r"CPU backend's.*glTexSubImage2D"):
                vks.interop.gl.open(surface)
            with pytest.raises(vks.UnsupportedError, match="an OpenGL context on the CPU backend's device"):
                vks.interop.gl.egl_context(device)
        elif "SwiftShader" in device.adapter.name:
            with pytest.raises(vks.DeviceMismatchError, match=r"SwiftShader.*device 5377.*llvmpipe.*device 6d65"):
                vks.interop.gl.open(surface)
            with pytest.raises(vks.UnsupportedError, match=r"an OpenGL context on SwiftShader.*llvmpipe.*copy instead"):
                vks.interop.gl.egl_context(device)
        else:
            with vks.interop.gl.egl_context(device):
                vks.interop.gl.open(surface).close()


@pytest.mark.rule("E6")
@pytest.mark.usefixtures("context")
def test_depth_is_not_shared_with_opengl(device: vks.Device) -> None:
    with device.create_surface(8, 8, "d32float") as surface, pytest.raises(vks.UnsupportedError, match="depth is not"):
        vks.interop.gl.open(surface)


@pytest.mark.rule("I6", "I5")
@pytest.mark.usefixtures("context")
def test_another_devices_or_drivers_memory_is_refused_and_both_are_named(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, driver = gl_peer.functions().uuids()
    other = b"another UUID    "
    for reported in (([other], driver), (devices, other)):
        monkeypatch.setattr(context.GL, "uuids", lambda self, reported=reported: reported)
        with (
            device.create_surface(8, 8) as surface,
            pytest.raises(vks.DeviceMismatchError, match="616e6f74-6865-7220-5555-494420202020"),
        ):
            vks.interop.gl.open(surface)


@pytest.mark.rule("I6", "I10")
@pytest.mark.usefixtures("context")
def test_a_driver_without_the_extension_is_unsupported(device: vks.Device) -> None:
    gl = gl_peer.functions()
    gl.extensions = frozenset({"GL_KHR_debug"})
    with (
        device.create_surface(8, 8) as surface,
        pytest.raises(vks.UnsupportedError, match=r"no GL_EXT_memory_object and no GL_EXT_memory_object_fd; use"),
    ):
        memory.check(gl, surface)


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_a_surface_larger_than_opengl_allows_is_unsupported(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    gl = gl_peer.functions()
    monkeypatch.setattr(gl, "integer", lambda name: 16 if name == 0x0D33 else context.GL.integer(gl, name))
    with (
        device.create_surface(17, 2) as surface,
        pytest.raises(vks.UnsupportedError, match=r"it is 17x2, and the OpenGL context .* textures of 16 at most"),
    ):
        memory.check(gl, surface)


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_an_import_that_fails_leaves_nothing_behind(device: vks.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: context.GL, what: str) -> None:
        if what.startswith("glTexStorageMem2DEXT"):
            raise context.GLError(0x0505, what)

    with device.create_surface(8, 8) as surface:
        vks.interop.gl.open(surface).close()
        before = open_fds()
        monkeypatch.setattr(context.GL, "check", fail)
        with pytest.raises(context.GLError, match=r"glTexStorageMem2DEXT of 8x8 .*GL_OUT_OF_MEMORY \(0x0505\)"):
            vks.interop.gl.open(surface)
        assert open_fds() == before
        monkeypatch.undo()
        vks.interop.gl.open(surface).close()


@pytest.mark.rule("I10")
def test_without_libegl_a_context_is_unsupported_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(vks.UnsupportedError, match=r"libEGL.so.1 cannot be loaded .*install libegl1"):
        vks.interop.gl.egl_context()


@pytest.mark.rule("I10")
def test_importing_the_module_loads_no_opengl_and_needs_no_package_for_it() -> None:
    code = """
import sys
import vkshare as vks
vks.interop.gl.open
loaded = [m for m in sys.modules if m.split(".")[0] in ("OpenGL", "moderngl", "glcontext", "glfw")]
mapped = [line.split()[-1] for line in open("/proc/self/maps") if "libEGL" in line or "libGL" in line]
print(loaded, mapped)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"


@pytest.mark.rule("I6")
@pytest.mark.parametrize("wrong", [None, 5, "surface"])
def test_what_is_no_surface_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"surface must be a vkshare\.Surface, not"):
        vks.interop.gl.open(wrong)


# ---- whose context --------------------------------------------------------------------------------------------------


@pytest.mark.rule("I6")
def test_without_a_current_context_it_says_how_to_have_one(device: vks.Device) -> None:
    with (
        device.create_surface(8, 8) as surface,
        pytest.raises(vks.InvalidCallError, match="no OpenGL context is current in this thread: make one current"),
    ):
        vks.interop.gl.open(surface)


@pytest.mark.rule("I6")
def test_an_access_without_its_context_is_refused_and_owns_nothing(device: vks.Device, context: EGLContext) -> None:
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        context.release_current()
        with pytest.raises(vks.InvalidCallError, match="no OpenGL context is current"), shared.access():
            pass
        with (
            vks.interop.gl.egl_context(device),
            pytest.raises(vks.InvalidCallError, match=r"belongs to the EGL context 0x.*, and the EGL context 0x"),
            shared.access(),
        ):
            pass
        assert not surface.is_owned
        context.make_current()
        with shared.access():
            assert surface.is_owned
        assert not surface.is_owned


@pytest.mark.rule("I6")
def test_a_block_that_ends_in_another_context_hands_nothing_on(device: vks.Device, context: EGLContext) -> None:
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        reported = r"not handed on: make the context current, call glFinish\(\)"
        with pytest.raises(vks.InvalidCallError, match=reported), shared.access(acquire=0, release=1):
            context.release_current()
        assert surface.is_owned
        context.make_current()
        gl_peer.functions().glFinish()
        surface.release(1)
        with shared.access(acquire=1, release=0, timeout=10):
            pass


@pytest.mark.rule("I6")
def test_a_context_at_the_address_of_one_that_is_gone_is_not_taken_for_it(
    device: vks.Device, context: EGLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with device.create_surface(8, 8) as surface:
        shared = vks.interop.gl.open(surface)
        with vks.interop.gl.egl_context(device):
            # As if the second had come to have the first one's address.
            monkeypatch.setattr(shared, "_context", vks.interop.gl.context.current())
            gl = gl_peer.functions()
            own = gl_peer.new_texture(gl)
            assert own == shared.texture  # names are counted in each context
            with pytest.raises(vks.InvalidCallError, match="gone, and another came to have its address"):
                shared.access().__enter__()
            shared.close()
            assert gl_peer.is_texture(gl, own)
        context.make_current()


@pytest.mark.rule("I6", "I11")
def test_close_works_after_its_context_is_gone_and_in_any_thread(device: vks.Device, context: EGLContext) -> None:
    with device.create_surface(8, 8) as surface:
        with vks.interop.gl.egl_context(device):
            lost = vks.interop.gl.open(surface)
        lost.close()  # no context at all
        context.make_current()
        with vks.interop.gl.egl_context(device):
            lost = vks.interop.gl.open(surface)
        context.make_current()
        lost.close()  # another one
        assert lost.is_closed
        assert context.is_current

        shared = vks.interop.gl.open(surface)
        thread = threading.Thread(target=shared.close)  # its context is current here, so its objects stay
        thread.start()
        thread.join(10)
        assert shared.is_closed
        with vks.interop.gl.open(surface) as again, again.access() as view:
            gl_peer.clear(gl_peer.functions(), view, (1, 1, 1, 1))


@pytest.mark.rule("I6")
def test_close_deletes_its_objects_in_its_own_context_and_in_no_other(device: vks.Device, context: EGLContext) -> None:
    with device.create_surface(8, 8) as surface:
        shared = vks.interop.gl.open(surface)
        texture = shared.texture
        with vks.interop.gl.egl_context(device) as other:
            gl = gl_peer.functions()
            own = gl_peer.new_texture(gl)
            assert own == texture
            shared.close()
            assert other.is_current
            assert gl_peer.is_texture(gl, own)
        context.make_current()
        assert not gl_peer.is_texture(gl_peer.functions(), texture)


@pytest.mark.rule("I6", "X11")
def test_a_forked_child_is_refused_and_leaves_the_parents_objects_alone(
    device: vks.Device, context: EGLContext
) -> None:
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:

        def child() -> None:
            with pytest.raises(vks.InvalidCallError, match="fork"):
                shared.access().__enter__()
            shared.close()
            context.close()
            assert shared.is_closed
            assert context.is_closed

        in_child(child)
        with shared.access() as view:
            gl_peer.clear(gl_peer.functions(), view, (1, 0, 0, 1))
        with surface.access():
            assert access_patterns.is_clear(surface.read(), 255)


@pytest.mark.rule("I6")
def test_what_is_open_when_the_interpreter_ends_is_no_crash(device: vks.Device) -> None:
    needs_opengl(device)
    code = """
import vkshare as vks
device = vks.open(validation=False)
context = vks.interop.gl.egl_context(device)
context.make_current()
surface = device.create_surface(8, 8)
shared = vks.interop.gl.open(surface)
held = shared.access()
view = held.__enter__()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr, "Exception" in done.stderr) == (0, False, False), done.stderr


# ---- egl_context() --------------------------------------------------------------------------------------------------


@pytest.mark.rule("I6")
def test_an_egl_context_is_on_the_devices_gpu_and_tells_what_it_is(device: vks.Device, context: EGLContext) -> None:
    devices, driver = gl_peer.functions().uuids()
    assert device.capabilities.device_uuid in devices
    assert device.capabilities.driver_uuid == driver
    assert context.renderer
    assert context.is_current
    assert context.handle
    assert context.display
    assert repr(context).endswith(", current>")
    context.release_current()
    assert repr(context).endswith(", not current>")
    context.close()
    context.close()
    assert context.is_closed
    assert repr(context).endswith(", closed>")
    with pytest.raises(vks.InvalidCallError, match="this EGLContext is closed"):
        context.make_current()


@pytest.mark.rule("I6")
def test_egl_context_leaves_current_what_was(any_context: EGLContext) -> None:
    with_none_current = vks.interop.gl.egl_context()
    assert any_context.is_current
    assert not with_none_current.is_current
    with_none_current.close()
    assert any_context.is_current


@pytest.mark.rule("I6")
def test_a_context_that_is_current_in_another_thread_is_refused(any_context: EGLContext) -> None:
    reported: list[BaseException] = []

    def steal() -> None:
        try:
            any_context.make_current()
        except vks.VkshareError as error:
            reported.append(error)

    thread = threading.Thread(target=steal)
    thread.start()
    thread.join(10)
    assert "current in one thread at a time" in str(reported[0])


@pytest.mark.rule("I6")
def test_a_lost_context_and_a_lost_gl_surface_warn(device: vks.Device, context: EGLContext) -> None:
    with device.create_surface(8, 8) as surface:
        lost: list[Any] = [vks.interop.gl.open(surface)]
        with pytest.warns(ResourceWarning, match=r"unclosed <vkshare.interop.gl.GLSurface 8x8"):
            lost.clear()
    lost = [vks.interop.gl.egl_context(device)]
    with pytest.warns(ResourceWarning, match=r"unclosed <vkshare.interop.gl.EGLContext on"):
        lost.clear()
    assert context.is_current


# ---- turns ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I6", "K31")
@pytest.mark.usefixtures("context")
def test_a_body_that_raises_gives_its_key_back_and_a_view_ends_with_its_block(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        with pytest.raises(ZeroDivisionError), shared.access(acquire=0, release=5) as view:
            raise ZeroDivisionError
        with pytest.raises(vks.InvalidCallError, match="this GLView is over"):
            view.texture  # noqa: B018
        assert repr(view) == "<vkshare.interop.gl.GLView over>"
        mine = shared.access(acquire=0, release=5, timeout=0)
        with mine, pytest.raises(vks.InvalidCallError), shared.access():
            pass  # this handle owns it already
        with pytest.raises(vks.AcquireTimeout), shared.access(acquire=0, timeout=0.01):
            pass
        with pytest.raises(vks.ClosedError), shared.access(acquire=5, timeout=0):
            surface.close()


@pytest.mark.rule("I6")
@pytest.mark.usefixtures("context")
def test_keys_and_timeouts_are_checked(device: vks.Device) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"acquire": -1}, ValueError),
        ({"release": 2**64}, ValueError),
        ({"acquire": 1.5}, TypeError),
        ({"timeout": -1}, ValueError),
        ({"timeout": "soon"}, TypeError),
    ]
    with device.create_surface(8, 8) as surface, vks.interop.gl.open(surface) as shared:
        for arguments, error in wrong:
            with pytest.raises(error, match=next(iter(arguments))):
                shared.access(**arguments)
        with pytest.raises(TypeError, match=r"cannot be pickled: send surface.export\(\)"):
            pickle.dumps(shared)


# ---- nothing is left behind -----------------------------------------------------------------------------------------


@pytest.mark.rule("I6", "I11")
def test_opening_using_and_closing_leaves_nothing_behind(device: vks.Device, context: EGLContext) -> None:
    gl = gl_peer.functions()

    def once() -> int:
        with device.create_surface(256, 256) as surface, vks.interop.gl.open(surface) as shared:
            with shared.access() as view:
                gl_peer.clear(gl, view, (1, 0, 0, 1))
            return shared.texture

    for _ in range(10):
        once()
    fds, memory_before = open_fds(), access_patterns.resident_kib()
    turns = rounds(2_000, 60)
    textures = {once() for _ in range(turns)}
    assert not any(gl_peer.is_texture(gl, texture) for texture in textures)
    assert open_fds() <= fds
    if device.adapter.kind != "gpu":  # whose drivers keep caches
        assert access_patterns.resident_kib() - memory_before < 8_192  # a surface has 256 KiB
    assert context.is_current


@pytest.mark.rule("I6", "I11")
def test_contexts_with_open_surfaces_that_end_leave_no_fds_behind(vks_device: vks.Device) -> None:
    needs_opengl(vks_device)

    def once() -> None:
        with vks_device.create_surface(64, 64) as surface:
            with vks.interop.gl.egl_context(vks_device):
                shared = vks.interop.gl.open(surface)
                with shared.access() as view:
                    gl_peer.clear(gl_peer.functions(), view, (1, 0, 0, 1))
            shared.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            once()
        fds = open_fds()
        for _ in range(rounds(200, 8)):
            once()
    assert open_fds() <= fds
