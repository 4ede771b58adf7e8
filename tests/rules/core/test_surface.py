"""Surfaces: pixels in and out, access, opening on another device, closing."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from support.peer_processes import later
from support.pixel_formats import ONE_PLANE

import vkshare as vks
from vkshare import formats
from vkshare.errors import (
    AbandonedError,
    AcquireTimeout,
    ClosedError,
    DeviceMismatchError,
    InvalidCallError,
    NotOwnerError,
    UnsupportedError,
)
from vkshare.testing import assert_images_equal

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.driver_dependent, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]


Open = Callable[..., vks.Device]


def picture_of(surface: vks.Surface, seed: int = 0) -> np.ndarray:
    """Random pixels that the surface can hold; floats are finite."""
    random = np.random.default_rng(seed)
    dtype: np.dtype[Any] = formats.get(surface.format).numpy_dtype
    if dtype.kind == "f":
        return random.random(surface.shape).astype(dtype)
    return random.integers(0, np.iinfo(dtype).max, surface.shape, dtype, endpoint=True)


def opened(surface: vks.Surface, device: vks.Device) -> vks.Surface:
    """A handle on another device."""
    with surface.export() as descriptor:
        return device.open_surface(descriptor)


@pytest.mark.parametrize("tiling", ["linear", "optimal"])
@pytest.mark.parametrize("name", ONE_PLANE)
def test_what_is_written_is_read_back(device: vks.Device, name: str, tiling: str) -> None:
    if tiling not in device.capabilities.tilings or name not in device.capabilities.formats:
        pytest.skip(f"{device.adapter.name} has no {tiling} {name}")
    try:
        surface = device.create_surface(37, 11, name, tiling=tiling)
    except UnsupportedError as error:
        pytest.skip(str(error))
    picture = picture_of(surface)
    with surface.access():
        surface.write(picture)
        assert_images_equal(surface.read(), picture)
    assert surface.format == name
    assert surface.tiling == tiling
    assert surface.shape == (11, 37, formats.get(name).channels)


def test_a_new_surface_holds_zeros(device: vks.Device) -> None:
    for tiling in sorted(device.capabilities.tilings):
        surface = device.create_surface(33, 7, tiling=tiling)
        with surface.access():
            assert not surface.read().any()


@pytest.mark.rule("K17", "K6")
def test_what_one_device_writes_another_reads_and_back(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    for tiling in sorted(one.capabilities.tilings):
        mine = one.create_surface(64, 48, tiling=tiling)
        theirs = opened(mine, two)
        for turn in range(4):
            writer, reader = (mine, theirs) if turn % 2 == 0 else (theirs, mine)
            picture = picture_of(mine, turn)
            writer.acquire(turn)
            writer.write(picture)
            writer.release(turn + 1)
            reader.acquire(turn + 1, 5)
            assert_images_equal(reader.read(), picture)
            reader.release(turn + 1)


@pytest.mark.rule("K21", "K31")
def test_reading_and_writing_without_owning_is_refused_with_the_line_to_write(device: vks.Device) -> None:
    for tiling in sorted(device.capabilities.tilings):
        surface = device.create_surface(8, 8, tiling=tiling)
        for use in (surface.read, lambda s=surface: s.write(np.zeros((8, 8, 4), np.uint8))):
            with pytest.raises(NotOwnerError, match=r"with surface\.access\("):
                use()


@pytest.mark.rule("K21")
def test_reads_and_writes_without_owning_are_discarded_where_asked(vks_open: Open) -> None:
    device = vks_open()
    for tiling in sorted(device.capabilities.tilings):
        surface = device.create_surface(8, 8, tiling=tiling, unowned="discard")
        with surface.access():
            surface.write(np.full((8, 8, 4), 9, np.uint8))
        surface.write(np.full((8, 8, 4), 5, np.uint8))
        assert not surface.read().any()
        with surface.access():
            assert (surface.read() == 9).all()


@pytest.mark.parametrize(
    ("array", "error", "text"),
    [
        (np.zeros((8, 8, 3), np.uint8), ValueError, r"shape \(8, 8, 3\).*\(6, 8, 4\)"),
        (np.zeros((8, 6, 4), np.uint8), ValueError, "shape"),
        (np.zeros((6, 8, 4), np.float32), TypeError, "dtype float32"),
        ("picture", TypeError, "dtype"),
    ],
)
def test_write_refuses_another_shape_or_dtype(
    device: vks.Device, array: object, error: type[Exception], text: str
) -> None:
    surface = device.create_surface(8, 6)
    with surface.access(), pytest.raises(error, match=text):
        surface.write(array)


def test_a_single_channel_surface_also_takes_two_axes(device: vks.Device) -> None:
    surface = device.create_surface(8, 6, "r8unorm")
    with surface.access():
        surface.write(np.full((6, 8), 3, np.uint8))
        assert (surface.read() == 3).all()


def test_access_owns_inside_and_hands_on_outside(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    mine = one.create_surface(8, 8)
    theirs = opened(mine, two)
    with mine.access(acquire=0, release=4) as view:
        assert mine.is_owned
        assert view.surface is mine
    assert not mine.is_owned
    with pytest.raises(AcquireTimeout):
        theirs.acquire(0, 0)
    theirs.acquire(4, 0)
    theirs.release(0)


@pytest.mark.rule("K31")
def test_an_access_whose_body_raises_releases_with_the_acquire_key(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    with pytest.raises(ZeroDivisionError), surface.access(acquire=0, release=1):
        1 / 0  # noqa: B018
    assert not surface.is_owned
    surface.acquire(0, 0)


def test_an_access_whose_body_closes_the_surface_keeps_the_bodys_error(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    with pytest.raises(ZeroDivisionError), surface.access():  # noqa: PT012
        surface.close()
        1 / 0  # noqa: B018


@pytest.mark.rule("K14")
@pytest.mark.parametrize("key", [-1, 2**64])
def test_access_refuses_keys_outside_64_bits_before_acquiring(device: vks.Device, key: int) -> None:
    surface = device.create_surface(8, 8)
    with pytest.raises(ValueError, match=f"release is {key}"):
        surface.access(release=key)
    with pytest.raises(ValueError, match=f"acquire is {key}"):
        surface.access(acquire=key)
    with pytest.raises(TypeError, match="acquire must be an integer"):
        surface.access(acquire=0.0)  # type: ignore[arg-type]


@pytest.mark.rule("K13")
def test_access_refuses_a_timeout_that_is_no_duration_before_acquiring(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    for bad, error in ((-1, ValueError), (float("nan"), ValueError), (-(10**400), ValueError), ("1", TypeError)):
        with pytest.raises(error, match="timeout"):
            surface.access(timeout=bad)  # type: ignore[arg-type]
    for good in (0, np.float32(1.5), 10**400, float("inf"), None):
        with surface.access(timeout=good):  # type: ignore[arg-type]
            pass


@pytest.mark.rule("K20")
def test_close_is_idempotent_and_the_memory_lives_until_the_last_handle(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    mine = one.create_surface(8, 8)
    theirs = opened(mine, two)
    with mine.access():
        mine.write(np.full((8, 8, 4), 77, np.uint8))
    mine.close()
    mine.close()
    assert mine.is_closed
    with theirs.access():
        assert (theirs.read() == 77).all()
    for use in (mine.read, mine.export, lambda: mine.acquire(0, 0), lambda: mine.image):
        with pytest.raises(ClosedError):
            use()


@pytest.mark.rule("K20", "X8")
def test_other_threads_run_while_close_waits_for_work_on_the_surface(device: vks.Device) -> None:
    surface = device.create_surface(1024, 1024)
    surface.acquire()
    commands = device.record()
    for n in range(20):
        commands.fill_rect(surface, (0, 0, 1024, 1024), (n / 20, 0, 0, 1))

    def seconds() -> float:
        start = time.monotonic()
        device.submit(commands).wait(20)
        return time.monotonic() - start

    for _ in range(int(0.5 / min(seconds() for _ in range(5))) + 1):
        last = device.submit(commands)
    surface.release()
    assert not last.is_done()
    closing = threading.Thread(target=surface.close)
    closing.start()
    ticks = 0
    while closing.is_alive():
        ticks += 1
        time.sleep(0.001)
    assert last.is_done()
    assert ticks > 2


@pytest.mark.rule("K20")
def test_a_descriptor_opened_after_the_last_handle_is_gone_is_refused(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)
    with surface.export() as descriptor:
        surface.close()
        with pytest.raises(vks.DescriptorError):
            two.open_surface(descriptor)


@pytest.mark.rule("K7")
def test_closing_a_handle_that_owns_abandons_the_surface_until_it_is_recovered(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    mine = one.create_surface(8, 8)
    theirs = opened(mine, two)
    mine.acquire()
    mine.close()
    for _ in range(2):
        with pytest.raises(AbandonedError):
            theirs.acquire(0, 1)
    with pytest.raises(InvalidCallError):
        theirs.release(0)
    generation = theirs.generation
    theirs.recover()
    assert theirs.is_owned
    assert theirs.generation == generation + 1
    theirs.release(0)


@pytest.mark.rule("K30")
def test_next_key_hands_out_successive_keys_to_all_handles(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    mine = one.create_surface(8, 8)
    theirs = opened(mine, two)
    first = mine.mutex.next_key()
    assert [theirs.mutex.next_key(), mine.mutex.next_key(), theirs.mutex.next_key()] == [
        first + 1,
        first + 2,
        first + 3,
    ]
    taken: list[int] = []
    threads = [
        threading.Thread(target=lambda s=s: taken.extend(s.mutex.next_key() for _ in range(200)))
        for s in (mine, theirs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(first + 4, first + 404))


@pytest.mark.rule("K33")
def test_the_mutexs_statistics_tell_owner_key_and_waiters(vks_open: Open) -> None:
    one, two = vks_open(name="painter"), vks_open(name="reader")
    mine = one.create_surface(8, 8)
    theirs = opened(mine, two)
    assert mine.mutex.statistics().state == "free"
    mine.acquire()
    waiter = threading.Thread(target=theirs.acquire, args=(5, 10))
    waiter.start()
    reported = mine.mutex.statistics()
    for _ in range(1000):
        if reported.waiters:
            break
        threading.Event().wait(0.002)
        reported = mine.mutex.statistics()
    assert (reported.state, reported.owner_name, reported.handles) == ("owned", "painter", 2)
    assert [(w.name, w.key) for w in reported.waiters] == [("reader", 5)]
    assert "owned" in repr(mine.mutex)
    mine.release(5)
    waiter.join()
    assert theirs.is_owned
    assert mine.mutex.statistics().owner_name == "reader"
    assert not mine.mutex.statistics().waiters
    theirs.release(0)


def test_statistics_and_repr_tell_the_handles_state(device: vks.Device) -> None:
    surface = device.create_surface(8, 4)
    assert "8x4 rgba8unorm" in repr(surface)
    assert "not owned" in repr(surface)
    with surface.access():
        assert surface.statistics().is_owned
        assert ", owned" in repr(surface)
    assert surface.statistics().nbytes >= 8 * 4 * 4


def test_the_image_is_a_handle_on_vulkan_only(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    for handle in (surface.image, surface.image_view):
        assert (handle != 0) == (device.backend == "vulkan")


def test_sync_is_for_vulkan_and_for_owners(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    if device.backend == "cpu":
        with surface.access(), pytest.raises(UnsupportedError):
            surface.sync()
        return
    with pytest.raises(NotOwnerError):
        surface.sync()
    surface.acquire()
    waits, signals = surface.sync()
    assert len(signals) == 1
    assert all(semaphore and value for semaphore, value in (*waits, *signals))


def test_an_interrupted_access_leaves_no_ownership_behind(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    surface.acquire()
    surface.release(3)
    with pytest.raises(AcquireTimeout), surface.access(acquire=0, timeout=0.01):
        raise AssertionError("the body must not run")
    surface.acquire(3, 0)


def test_a_surface_of_the_cpu_backend_opens_on_vulkan_where_host_memory_can_be_imported(vks_open: Open) -> None:
    device = vks_open()
    with vks.open(backend="cpu") as cpu, cpu.create_surface(64, 32) as mine:
        with mine.export() as descriptor:
            if device.backend == "vulkan" and "host_pointer" not in device.capabilities.surface_memory:
                assert device.capabilities.reasons["host_pointer"]
                with pytest.raises(UnsupportedError):
                    device.open_surface(descriptor)
                return
            theirs = device.open_surface(descriptor)
        picture = picture_of(mine)
        with mine.access(0, 1):
            mine.write(picture)
        with theirs.access(1, 2, 5) as view:
            assert_images_equal(theirs.read(), picture)
            device.submit(device.record().fill_rect(view, (0, 0, 8, 8), (1, 1, 1, 1)))
        with mine.access(2, 0, 5):
            picture[:8, :8] = 255
            assert_images_equal(mine.read(), picture)


def test_memory_of_a_vulkan_driver_cannot_be_opened_on_the_cpu_backend(device: vks.Device) -> None:
    if device.backend == "cpu":
        pytest.skip("this device is on the CPU backend itself")
    surface = device.create_surface(8, 8)
    text = "belongs to a Vulkan driver"
    with vks.open(backend="cpu") as cpu, surface.export() as descriptor, pytest.raises(UnsupportedError, match=text):
        cpu.open_surface(descriptor)


@pytest.mark.rule("K25")
def test_a_write_behind_a_gpu_acquire_waits_for_its_turn_and_then_lands(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    if "optimal" not in one.capabilities.tilings:
        pytest.skip("surfaces that the CPU sees are written by the CPU, which waits")
    mine = one.create_surface(16, 16, tiling="optimal")
    theirs = opened(mine, two)
    mine.acquire()
    theirs.acquire(1, mode="gpu")
    picture = picture_of(mine)
    theirs.write(picture)
    assert not theirs.is_owned
    mine.release(1)
    theirs.release(2)
    mine.acquire(2, 10)
    assert_images_equal(mine.read(), picture)
    mine.release(0)


@pytest.mark.rule("K34")
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_read_and_write_give_up_in_time_and_leave_the_surface_owned(vks_open: Open, tiling: str) -> None:
    one, two = vks_open(), vks_open()
    if tiling not in one.capabilities.tilings:
        pytest.skip(f"the driver has no surfaces of {tiling} tiling")
    mine = one.create_surface(16, 16, tiling=tiling)
    theirs = opened(mine, two)
    gate = one.create_fence()
    mine.acquire()
    submission = one.submit(one.record().clear(mine, (1, 0, 0, 1)), waits=(gate, 1))
    for timeout in (0, 0.05):
        with pytest.raises(AcquireTimeout, match="nothing was copied"):
            mine.read(timeout)
    mine.release(1)
    theirs.acquire(1, 10)
    with pytest.raises(AcquireTimeout, match=r"Surface\.read: .* within 0\.05 s"):
        theirs.read(timeout=0.05)
    if theirs.is_host_visible:
        with pytest.raises(AcquireTimeout, match=r"Surface\.write: "):
            theirs.write(picture_of(theirs), timeout=0.05)
    assert theirs.is_owned
    gate.signal(1)
    submission.wait(10)
    assert (theirs.read(30) == (255, 0, 0, 255)).all()
    theirs.write(picture_of(theirs), 30)
    assert_images_equal(theirs.read(), picture_of(theirs))


@pytest.mark.rule("K34")
def test_read_and_write_refuse_a_timeout_that_is_no_duration(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    surface.acquire()
    pixels = surface.read()
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            surface.read(wrong)
        with pytest.raises(ValueError, match="timeout"):
            surface.write(pixels, wrong)
    with pytest.raises(TypeError, match="timeout"):
        surface.read("soon")  # type: ignore[arg-type]


def forge_a_wait_point(surface: vks.Surface, slot: int) -> None:
    """Writes into the surface's page that the handle of this slot is to bring a value, which it has not promised."""
    with surface.export() as descriptor, mmap.mmap(descriptor._fds[1], 8192) as page:
        identity = page[256 + 64 * slot : 264 + 64 * slot]
        page[80:88] = (1 << 20).to_bytes(8, "little")  # value, signaller, its slot
        page[88:96] = identity if any(identity) else (4711).to_bytes(8, "little")
        page[96:100] = slot.to_bytes(4, "little")


@pytest.mark.rule("K34")
@pytest.mark.parametrize("signaller", [0, 1, 7], ids=["other", "reader", "none"])
@pytest.mark.parametrize("call", ["read", "write"])
def test_a_value_that_no_handle_has_announced_ends_read_and_write(vks_open: Open, signaller: int, call: str) -> None:
    mine = vks_open().create_surface(8, 8)
    theirs = opened(mine, vks_open())
    mine.acquire()
    mine.release(1)
    forge_a_wait_point(mine, signaller)
    theirs.acquire(1, 10)
    if call == "write" and not theirs.is_host_visible:
        pytest.skip("the copy is submitted, and write() does not wait")
    with pytest.raises(AbandonedError):
        theirs.read(30) if call == "read" else theirs.write(picture_of(theirs), 30)
    with pytest.raises(AbandonedError):
        theirs.release(2)
    mine.recover(10)
    mine.write(picture_of(mine))
    assert_images_equal(mine.read(), picture_of(mine))


@pytest.mark.rule("X17")
def test_memory_of_another_device_or_driver_is_refused_and_both_are_named(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    if one.backend == "cpu":
        pytest.skip("a memfd is not bound to a driver")
    surface = one.create_surface(8, 8)
    for field in ("device_uuid", "driver_uuid"):
        with surface.export() as descriptor:
            data = descriptor.to_bytes()
            uuid = getattr(one.capabilities, field)
            assert data.count(uuid) >= 1
            start = data.rindex(uuid) if field == "driver_uuid" else data.index(uuid)
            other = bytes(b ^ 255 for b in uuid)
            forged = data[:start] + other + data[start + 16 :]
            fds = [os.dup(fd) for fd in descriptor._fds]
        with vks.SurfaceDescriptor.from_bytes(forged, fds) as strange, pytest.raises(DeviceMismatchError) as caught:
            two.open_surface(strange)
        for each in (uuid, other):
            assert str(UUID(bytes=each)) in str(caught.value)


def test_a_surface_passes_from_device_to_device_each_exporting_what_it_opened(vks_open: Open) -> None:
    devices = [vks_open() for _ in range(4)]
    for tiling in sorted(devices[0].capabilities.tilings):
        handles = [devices[0].create_surface(33, 9, tiling=tiling)]
        for device in devices[1:]:
            handles.append(opened(handles[-1], device))
        handles[1].close()  # those who opened what it exported need it no more
        for turn, (writer, reader) in enumerate(((0, 3), (3, 2), (2, 0))):
            picture = picture_of(handles[0], turn)
            with handles[writer].access(turn, turn + 1, 5):
                handles[writer].write(picture)
            with handles[reader].access(turn + 1, turn + 1, 5):
                assert_images_equal(handles[reader].read(), picture)


@pytest.mark.rule("X12", "X18")
def test_the_fds_of_an_opened_surface_are_cloexec_and_go_with_it(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)

    def fds() -> set[str]:
        return {fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")}

    def count_after(rounds: int) -> int:
        for _ in range(rounds):
            before = fds()
            theirs = opened(surface, two)
            assert not any(os.get_inheritable(int(fd)) for fd in fds() - before)
            with theirs.export() as descriptor:
                assert not any(os.get_inheritable(fd) for fd in descriptor._fds)
            theirs.close()
            two.record()
        return len(fds())

    first = count_after(2)  # the service threads' own fds come with the first use
    assert count_after(20) == first


@pytest.mark.rule("K20")
def test_close_waits_for_an_export_in_another_thread_before_it_frees_the_memory(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)
    kept, image = opened(surface, two), surface._image
    assert image is not None
    real, entered = image.export, threading.Event()

    def slow() -> object:
        entered.set()
        time.sleep(0.05)
        return real()

    monkeypatch.setattr(image, "export", slow)
    exporter = later(surface.export)
    entered.wait(10)
    closer = later(surface.close)
    with exporter.result(10) as descriptor:
        theirs = two.open_surface(descriptor)
    closer.result(10)
    with pytest.raises(ClosedError):
        surface.export()
    theirs.close()
    kept.close()


def test_a_close_that_ctrl_c_interrupted_is_finished_by_the_next(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = vks_open()
    surface = device.create_surface(8, 8)
    image = surface._image

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(device._deletion_queue, "defer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            surface.close()
    assert surface.is_closed
    with pytest.raises(ClosedError):
        surface.image  # noqa: B018
    surface.close()
    assert image is not None
    assert image.pixels() is None
    assert device.statistics().buried == 0


# ---- where its memory is -----------------------------------------------------------------------------------------


def test_linear_rows_in_device_memory_are_not_mapped_and_work_as_any_surface(
    vks_open: Open, vks_adapter: vks.Adapter
) -> None:
    one, two = vks_open(), vks_open()
    if vks_adapter.backend == "cpu":
        with pytest.raises(UnsupportedError, match="CPU's memory"):
            one.create_surface(5, 3, memory="device")
        return
    try:
        surface = one.create_surface(5, 3, tiling="linear", memory="device")
    except UnsupportedError as error:
        pytest.skip(str(error))
    assert not surface.is_host_visible
    assert surface.stride >= 5 * 4
    pixels = np.arange(60, dtype=np.uint8).reshape(3, 5, 4)
    with surface.export() as descriptor:
        other = two.open_surface(descriptor)
    assert other.spec == surface.spec
    with surface.access(0, 1) as view:
        surface.write(pixels)
        with pytest.raises(UnsupportedError, match="cannot be mapped"):
            view.array  # noqa: B018
    with other.access(1, 0):
        assert (other.read() == pixels).all()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"memory": "video"}, "memory"),
        ({"memory": None}, "memory"),
        ({"memory": "host", "tiling": "optimal"}, "linear"),
    ],
)
def test_memory_that_there_is_not_is_refused(device: vks.Device, options: dict[str, Any], error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        device.create_surface(5, 3, **options)


def test_a_surface_that_is_closed_while_read_waits_for_its_work_is_reported_as_closed(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    surface = vks_device.create_surface(8, 8)
    surface.acquire(0, 0)
    monkeypatch.setattr(surface, "_cpu_access", lambda timeout: surface.close())
    with pytest.raises(vks.ClosedError):
        surface.read()
