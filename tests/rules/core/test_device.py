"""Devices: opening, what they make, counting, closing, and fork."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from support.child_processes import in_child
from support.fd_counts import open_fds
from support.peer_processes import later
from support.shared_handles import followed, wait_until

import vkshare as vks
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.driver_dependent, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]


Open = Callable[..., vks.Device]


def test_a_device_tells_what_it_is(device: vks.Device, vks_adapter: vks.Adapter) -> None:
    assert device.adapter == vks_adapter
    assert device.backend == vks_adapter.backend
    assert device.capabilities == vks_adapter.capabilities
    assert device.name == "test"
    assert not device.is_closed
    assert not device.is_lost
    assert "'test'" in repr(device)
    assert vks_adapter.name in repr(device)


def test_close_is_idempotent_and_everything_after_it_is_a_closed_error(vks_open: Open) -> None:
    device = vks_open()
    surface, fence = device.create_surface(8, 8), device.create_fence()
    commands = device.record().clear(surface, (0, 0, 0, 1))
    device.close()
    device.close()
    assert device.is_closed
    assert surface.is_closed
    assert "closed" in repr(device)
    assert "closed" in repr(surface)
    assert "closed" in repr(fence)
    for call in (
        lambda: device.create_surface(8, 8),
        device.create_fence,
        device.record,
        lambda: device.submit(commands),
        device.wait_idle,
        lambda: surface.acquire(0, 0),
        surface.read,
        surface.export,
        lambda: fence.signal(1),
        lambda: fence.wait(1, 0),
        fence.export,
    ):
        with pytest.raises(ClosedError):
            call()


def test_a_device_is_a_context_manager(vks_adapter: vks.Adapter) -> None:
    with vks.open(vks_adapter) as device:
        assert not device.is_closed
    assert device.is_closed


def test_a_lost_device_surface_and_fence_warn(vks_adapter: vks.Adapter) -> None:
    device = vks.open(vks_adapter)
    with pytest.warns(ResourceWarning, match=r"unclosed <vkshare\.Surface 8x8"):
        device.create_surface(8, 8)
    with pytest.warns(ResourceWarning, match=r"unclosed <vkshare\.Fence"):
        device.create_fence()
    assert (device.statistics().surfaces, device.statistics().fences) == (0, 0)
    with pytest.warns(ResourceWarning, match=r"unclosed <vkshare\.Device"):
        del device


def test_closed_things_do_not_warn(vks_adapter: vks.Adapter) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device = vks.open(vks_adapter)
        surface, fence = device.create_surface(8, 8), device.create_fence()
        device.close()
        del surface, fence, device
        gc.collect()


def test_statistics_count_what_happened(device: vks.Device) -> None:
    before = device.statistics()
    surface = device.create_surface(16, 4)
    fence = device.create_fence()
    with surface.access() as view:
        device.submit(device.record().clear(view, (1, 0, 0, 1)), signals=fence)
        surface.read()
    after = device.statistics()
    assert after.submissions > before.submissions
    assert after.copied_bytes - before.copied_bytes == 16 * 4 * 4
    assert (after.surfaces, after.fences) == (before.surfaces + 1, before.fences + 1)
    assert after.held == 0
    assert after.held_limit > 0


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((0, 8), ValueError, "width is 0; allowed is 1 to"),
        ((8, -3), ValueError, "height is -3; allowed is 1 to"),
        ((10**9, 8), ValueError, "width is 1000000000; allowed is 1 to"),
        ((8.0, 8), TypeError, "width must be an integer, not float"),
        ((8, 8, "rgb8"), ValueError, "format is 'rgb8'; allowed are"),
        ((8, 8, "p016"), UnsupportedError, "such planes"),
    ],
)
def test_create_surface_refuses_wrong_arguments(
    device: vks.Device, arguments: tuple[object, ...], error: type[Exception], text: str
) -> None:
    before = device.statistics().surfaces
    with pytest.raises(error, match=text):
        device.create_surface(*arguments)  # type: ignore[arg-type]
    assert device.statistics().surfaces == before


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_c_cannot_hold_is_a_value_error_that_names_it(name: str) -> None:
    with pytest.raises(ValueError, match="name is "):
        vks.open(name=name)


def test_create_surface_refuses_wrong_options(device: vks.Device) -> None:
    for options, text in (
        ({"tiling": "square"}, "tiling is 'square'"),
        ({"usage": ("paint",)}, "usage is 'paint'"),
        ({"usage": ()}, "usage is empty"),
        ({"unowned": "ignore"}, "unowned is 'ignore'"),
    ):
        with pytest.raises(ValueError, match=text):
            device.create_surface(8, 8, **options)


def test_open_refuses_wrong_options() -> None:
    for options, error in (({"name": 3}, TypeError), ({"name": "a\0b"}, ValueError), ({"held_limit": -1}, ValueError)):
        with pytest.raises(error):
            vks.open(backend="cpu", **options)


def test_open_surface_and_open_fence_refuse_what_is_no_descriptor(device: vks.Device) -> None:
    with pytest.raises(TypeError, match="must be a Surface or a SurfaceDescriptor, not int"):
        device.open_surface(3)  # type: ignore[arg-type]
    with (
        device.create_surface(8, 8).export() as descriptor,
        pytest.raises(TypeError, match="must be a FenceDescriptor"),
    ):
        device.open_fence(descriptor)  # type: ignore[arg-type]


def test_adopting_a_semaphore_on_the_cpu_backend_is_unsupported() -> None:
    with vks.open(backend="cpu") as device, pytest.raises(UnsupportedError, match=r"create_fence\(\)"):
        device.adopt_fence(1)


def test_auto_tiling_is_linear_where_memory_is_host_memory(device: vks.Device) -> None:
    tiling = device.create_surface(8, 8).tiling
    if device.adapter.kind == "gpu" or "linear" not in device.capabilities.tilings:
        assert tiling == "optimal"
    else:
        assert tiling == "linear"


def test_devices_surfaces_fences_and_command_lists_do_not_pickle(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    for thing, hint in (
        (device, "export"),
        (surface, "export"),
        (device.create_fence(), "export"),
        (device.record(), ""),
    ):
        with pytest.raises(TypeError, match=f"cannot be pickled.*{hint}"):
            pickle.dumps(thing)


def test_images_of_closed_surfaces_are_buried_until_the_work_on_them_has_run(vks_open: Open) -> None:
    device = vks_open()
    gate, other = device.create_fence(), device.create_surface(8, 8)
    surface = device.create_surface(64, 64)
    surface.acquire()
    device.submit(device.record().clear(surface, (1, 1, 1, 1))).wait(5)
    surface.close()
    device.record()
    assert device.statistics().buried == 0
    gate.signal(1)
    other.close()


def test_many_surfaces_created_and_closed_leave_no_fd_and_no_image_behind(vks_open: Open) -> None:
    device = vks_open()

    def fds_after(rounds: int) -> int:
        for _ in range(rounds):
            with device.create_surface(32, 32) as surface, surface.access() as view:
                device.submit(device.record().clear(view, (0, 1, 0, 1)))
        device.wait_idle(10)
        device.record()
        assert device.statistics().buried == 0
        return len(os.listdir("/proc/self/fd"))

    first = fds_after(2)  # the service threads' own fds come with the first use
    assert fds_after(50) == first


def test_an_array_kept_beyond_the_surface_and_the_device_can_still_be_read(vks_adapter: vks.Adapter) -> None:
    device = vks.open(vks_adapter)
    surface = device.create_surface(64, 64)
    if not surface.is_host_visible:
        device.close()
        pytest.skip("the CPU cannot see this adapter's surfaces")
    with surface.access() as view:
        view.array[:] = 7
        kept = view.array[3]
    surface.close()
    device.record()
    assert device.statistics().buried == 1
    device.close()
    assert (kept == 7).all()
    del kept, view
    gc.collect()


def test_closing_a_device_from_another_thread_ends_waits(vks_open: Open) -> None:
    device = vks_open()
    fence = device.create_fence()
    closer = threading.Timer(0.05, device.close)
    closer.start()
    with pytest.raises(ClosedError):
        fence.wait(1, 10)
    closer.join()


@pytest.mark.parametrize("use", ["create", "open", "compile", "read", "write"])
def test_close_waits_for_who_is_inside_the_backend_and_frees_nothing_before(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    device = vks_open()
    tiling = "optimal" if "optimal" in device.capabilities.tilings else "linear"
    surface = device.create_surface(8, 8, tiling=tiling)
    if use in ("read", "write") and surface.is_host_visible:
        pytest.skip("the CPU sees every surface of this device: nothing is staged")
    surface.acquire()
    descriptor = surface.export()
    method, call = {
        "create": ("create_image", lambda: device.create_surface(8, 8)),
        "open": ("open_image", lambda: device.open_surface(descriptor)),
        "compile": ("compile", lambda: device.submit(device.record().clear(surface, (1, 0, 0, 1)))),
        "read": ("stage", surface.read),
        "write": ("stage", lambda: surface.write(np.zeros((8, 8, 4), np.uint8))),
    }[use]
    backend, entered, order = device._backend, threading.Event(), []
    real, real_close = getattr(backend, method), backend.close

    def slow(*args: object, **options: object) -> object:
        entered.set()
        wait_until(lambda: device.is_closed)
        time.sleep(0.05)
        try:
            return real(*args, **options)
        finally:
            order.append("left")

    def close() -> None:
        order.append("closed")
        real_close()

    monkeypatch.setattr(backend, method, slow)
    monkeypatch.setattr(backend, "close", close)
    user = later(call)
    entered.wait(10)
    device.close()
    with pytest.raises(ClosedError):
        user.result(10)
    assert order == ["left", "closed"]
    with pytest.raises(ClosedError):
        call()
    descriptor.close()


def test_threads_that_use_a_device_while_it_is_closed_get_closed_errors(vks_adapter: vks.Adapter) -> None:
    def use(device: vks.Device, surface: vks.Surface) -> None:
        while True:
            device.create_surface(8, 8).close()
            device.submit(device.record().clear(surface, (1, 0, 0, 1)))
            surface.read()
            surface.export().close()

    for turn in range(8):
        device = vks.open(vks_adapter)
        surface = device.create_surface(8, 8, tiling="auto" if turn % 2 else sorted(device.capabilities.tilings)[-1])
        surface.acquire()
        users = [later(lambda d=device, s=surface: use(d, s)) for _ in range(3)]
        time.sleep(0.005 * turn)
        device.close()
        for user in users:
            with pytest.raises(ClosedError):
                user.result(10)


def test_a_close_in_the_middle_of_a_call_of_its_own_thread_ends_that_call_and_the_next_close_frees_all(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = vks_open()
    real, real_close, closed = device._backend.create_image, device._backend.close, []

    def create_image(spec: object, *, is_tight: bool = False) -> object:
        device.close()  # as a signal handler or a finalizer would
        assert not closed
        return real(spec, is_tight=is_tight)  # type: ignore[arg-type]

    monkeypatch.setattr(device._backend, "create_image", create_image)
    monkeypatch.setattr(device._backend, "close", lambda: (closed.append(True), real_close()))
    with pytest.raises(ClosedError):
        device.create_surface(8, 8)
    assert device.is_closed
    assert not closed
    device.close()
    device.close()
    assert closed == [True]


@pytest.mark.parametrize("step", ["_shutdown", "_reap"])
def test_a_close_that_ctrl_c_interrupted_is_finished_by_the_next(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    device, other = vks_open(), vks_open()
    gate = other.create_fence()
    surface, fence = device.create_surface(8, 8), followed(gate, device)
    surface.acquire()
    device.submit(device.record().clear(surface, (0, 0, 0, 1)), waits=(fence, 1))
    image, real_step, real_close, closed = surface._image, getattr(device, step), device._backend.close, []
    del surface  # what is held has the last reference

    def interrupted(**options: object) -> None:
        real_step(**options)
        raise KeyboardInterrupt

    monkeypatch.setattr(device._backend, "close", lambda: (closed.append(True), real_close()))
    with monkeypatch.context() as patch:
        patch.setitem(device.__dict__, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.close()
    assert device.is_closed
    assert not closed
    device.close()
    assert closed == [True]
    assert image is not None
    assert image.pixels() is None
    device.close()
    assert closed == [True]


def test_a_device_whose_close_was_interrupted_is_freed_with_the_object_and_does_not_warn(
    vks_adapter: vks.Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = vks.open(vks_adapter)
    real, closed = device._backend.close, []

    def shutdown(real: Callable[[], bool] = device._shutdown) -> bool:
        real()
        raise KeyboardInterrupt

    monkeypatch.setattr(device._backend, "close", lambda: (closed.append(True), real()))
    device._shutdown = shutdown  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        device.close()
    device.__dict__.pop("_shutdown")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del device, shutdown
        gc.collect()
    assert closed == [True]


@pytest.mark.rule("X11")
def test_everything_inherited_through_fork_is_refused_and_the_parent_goes_on(vks_open: Open) -> None:
    device = vks_open()
    surface, fence = device.create_surface(8, 8), device.create_fence()
    surface.acquire()
    submission = device.submit(device.record().clear(surface, (1, 0, 0, 1)), signals=fence)

    def child() -> None:
        commands = None
        for call in (
            device.create_fence,
            lambda: device.create_surface(8, 8),
            device.record,
            lambda: device.submit(),
            device.wait_idle,
            device.statistics,
            device.close,
            lambda: surface.release(1),
            lambda: surface.acquire(0),
            surface.read,
            lambda: surface.write(np.zeros((8, 8, 4), np.uint8)),
            surface.export,
            surface.close,
            lambda: surface.access().__enter__(),
            lambda: fence.value,
            lambda: fence.signal(9),
            lambda: fence.wait(9, 0),
            fence.export,
            submission.wait,
        ):
            with pytest.raises(InvalidCallError):
                call()
        assert commands is None

    in_child(child)
    submission.wait(10)
    assert fence.value == 1
    assert surface.is_owned
    assert (surface.read()[..., 0] == 255).all()
    surface.release(0)


@pytest.mark.rule("X11")
def test_a_forked_child_can_open_a_device_of_its_own(vks_open: Open, vks_adapter: vks.Adapter) -> None:
    parent = vks_open()
    parent.wait_idle(5)
    if vks_adapter.kind == "gpu":
        pytest.skip("a GPU driver does not survive a fork: the child is told to spawn")
    if "SwiftShader" in vks_adapter.name:
        pytest.skip("SwiftShader's threads may hold its locks at the moment of the fork: the child was seen to hang")

    def child() -> None:
        mine = next(a for a in vks.adapters(vks_adapter.backend) if a.uuid == vks_adapter.uuid)
        with vks.open(mine) as device, device.create_surface(16, 16) as surface, surface.access() as view:
            device.submit(device.record().clear(view, (0, 0, 1, 1)))
            assert (surface.read() == (0, 0, 255, 255)).all()

    in_child(child)
    parent.create_surface(8, 8).close()


def test_wait_idle_waits_for_what_was_submitted(device: vks.Device) -> None:
    fence = device.create_fence()
    device.submit(signals=fence)
    device.wait_idle(5)
    assert fence.value == 1


def test_wait_idle_frees_what_was_closed_under_its_work(vks_open: Open) -> None:
    with vks_open() as device, device.create_surface(2048, 2048) as large, large.access():
        device.create_surface(64, 64).close()  # NVIDIA's driver keeps a file of the memory that was freed last
        before = len(open_fds())
        with device.create_surface(64, 64) as surface, surface.access():
            for _ in range(10):
                device.submit(device.record().clear(large, (0, 0, 0, 0)))
            device.submit(device.record().clear(surface, (0, 0, 0, 0)))
        del surface
        device.wait_idle()
        assert len(open_fds()) == before


def test_wait_idle_times_out_while_work_is_held(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    gate = other.create_fence()
    follower = followed(gate, device)
    submission = device.submit(waits=(follower, 1))
    assert submission.is_held
    with pytest.raises(TimeoutError):
        device.wait_idle(0.05)
    gate.signal(1)
    device.wait_idle(5)
    assert submission.is_done()
