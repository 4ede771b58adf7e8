"""Buffers: bytes under a keyed mutex, as surfaces are."""

from __future__ import annotations

import asyncio
import pickle
import socket
import threading
from collections.abc import Callable

import numpy as np
import pytest
from support import access_patterns
from support.shared_handles import opened_buffer

import vkshare as vks
from vkshare.backends.base import BUFFER_USAGES
from vkshare.cli import ps
from vkshare.errors import (
    AbandonedError,
    AcquireTimeout,
    ClosedError,
    DescriptorError,
    InvalidCallError,
    NotOwnerError,
    UnsupportedError,
)

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.wheel,
    pytest.mark.rule("E5"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]
SIZES = (1, 2, 3, 4, 5, 63, 4095, 4096, 4097, 100_001)


@pytest.fixture
def buffer(device: vks.Device) -> vks.Buffer:
    return device.create_buffer(1000)


# ---- making them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", SIZES)
def test_a_new_buffer_is_zeros_of_exactly_that_size_and_is_not_owned(device: vks.Device, nbytes: int) -> None:
    buffer = device.create_buffer(nbytes)
    assert not buffer.is_owned
    assert (buffer.nbytes, buffer.shape) == (nbytes, (nbytes,))
    assert bool(buffer.buffer) == (device.backend == "vulkan")
    with buffer.access():
        read = buffer.read()
        assert (read.dtype, read.shape) == (np.uint8, (nbytes,))
        assert not read.any()
        access_patterns.fill(buffer, 5)
        assert access_patterns.is_filling(buffer, 5)


@pytest.mark.parametrize("usage", [*BUFFER_USAGES, BUFFER_USAGES])
def test_a_buffer_has_the_usage_that_it_was_made_with_on_both_sides(vks_open: Open, usage: str) -> None:
    buffer = vks_open().create_buffer(64, usage=usage)
    other = opened_buffer(buffer, vks_open())
    assert buffer.usage == other.usage == ({usage} if isinstance(usage, str) else set(usage))


def test_an_unknown_usage_is_refused_with_the_list_of_the_known_ones(device: vks.Device) -> None:
    with pytest.raises(ValueError, match=r"'texture'.*'copy', 'storage', 'vertex', 'index', 'uniform', 'indirect'"):
        device.create_buffer(64, usage=("copy", "texture"))
    with pytest.raises(ValueError, match="usage is empty"):
        device.create_buffer(64, usage=())


@pytest.mark.parametrize("nbytes", [0, -1, 2**47, 2**48 + 1, 2**80])
def test_a_size_that_no_driver_has_is_refused_with_the_value(device: vks.Device, nbytes: int) -> None:
    with pytest.raises(ValueError, match=rf"nbytes is {nbytes}; allowed is "):
        device.create_buffer(nbytes)
    with pytest.raises(TypeError, match="nbytes must be an integer, not float"):
        device.create_buffer(1.0)  # type: ignore[arg-type]


def test_a_buffer_is_no_surface_and_what_takes_pictures_refuses_it(device: vks.Device, buffer: vks.Buffer) -> None:
    surface = device.create_surface(8, 8)
    with buffer.access() as view, surface.access():
        for thing in (buffer, view):
            with pytest.raises(TypeError, match=r"target must be a Surface or a View.*copy\(\) alone takes buffers"):
                device.record().clear(thing, (0, 0, 0, 0))  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="source must be a Surface"):
                device.record().blit(thing, surface)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="source must be a Surface"):
                device.record().composite(thing, surface)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="texture must be a Surface"):
                device.record().draw_triangles(surface, [[0, 0, 0, 0]] * 3, thing)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="surface must be a Surface or a SurfaceDescriptor, not Buffer"):
        device.open_surface(buffer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="buffer must be a Buffer or a BufferDescriptor, not Surface"):
        device.open_buffer(surface)  # type: ignore[arg-type]


# ---- turns ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K2", "K17", "K18")
def test_each_owner_sees_the_bytes_of_the_one_before(vks_open: Open) -> None:
    first = vks_open().create_buffer(5000)
    handles = [first, opened_buffer(first, vks_open()), first.device.open_buffer(first)]
    for turn in range(12):
        handle = handles[turn % 3]
        handle.acquire(turn, 5)
        assert turn == 0 or access_patterns.is_filling(handle, turn - 1)
        access_patterns.fill(handle, turn)
        handle.release(turn + 1)


@pytest.mark.rule("K2", "K17", "K18")
def test_two_devices_hand_bytes_there_and_back_by_their_queues_alone(vks_open: Open) -> None:
    here, there = vks_open(), vks_open()
    buffer = here.create_buffer(4096)
    other = opened_buffer(buffer, there)
    mine, theirs = here.create_buffer(4096), there.create_buffer(4096)
    mine.acquire(0, 5)
    theirs.acquire(0, 5)
    for turn in range(0, 20, 2):
        access_patterns.fill(mine, turn)
        buffer.acquire(turn, 5)
        here.submit(here.record().copy(mine, buffer))
        buffer.release(turn + 1)
        other.acquire(turn + 1, 5)
        there.submit(there.record().copy(other, theirs))
        other.release(turn + 2)
        assert access_patterns.is_filling(theirs, turn)


@pytest.mark.rule("K12", "K3")
def test_keys_timeouts_and_owners_are_those_of_surfaces(buffer: vks.Buffer) -> None:
    with pytest.raises(AcquireTimeout, match="key 7"):
        buffer.acquire(7, 0)
    with pytest.raises(NotOwnerError):
        buffer.release()
    with pytest.raises(NotOwnerError):
        buffer.read()
    with pytest.raises(NotOwnerError):
        buffer.write(bytes(1000))
    buffer.acquire()
    with pytest.raises(InvalidCallError, match="owns"):
        buffer.acquire()
    buffer.release(3)
    assert buffer.mutex.statistics().key == 3
    asyncio.run(buffer.acquire_async(3, 5))
    assert buffer.is_owned
    assert buffer.statistics() == type(buffer.statistics())(is_owned=True, generation=1, nbytes=1000)


@pytest.mark.rule("K31")
def test_a_body_that_raises_releases_with_the_key_that_it_acquired(buffer: vks.Buffer) -> None:
    with pytest.raises(ZeroDivisionError), buffer.access(0, 1):
        raise ZeroDivisionError
    assert buffer.mutex.statistics().key == 0
    with buffer.access(0, 1):
        pass
    assert buffer.mutex.statistics().key == 1


@pytest.mark.rule("K7", "K27")
def test_an_owner_that_closes_leaves_the_buffer_abandoned_and_it_can_be_recovered(vks_open: Open) -> None:
    first = vks_open().create_buffer(64)
    other = opened_buffer(first, vks_open())
    other.acquire(0, 5)
    other.close()
    with pytest.raises(AbandonedError):
        first.acquire(0, 5)
    first.recover()
    assert first.statistics().generation == 2
    first.release()


@pytest.mark.rule("E9")
def test_an_event_loop_can_wait_for_a_buffer(vks_open: Open) -> None:
    first = vks_open().create_buffer(64)
    other = opened_buffer(first, vks_open())
    first.acquire(0, 5)
    waits = threading.Thread(target=lambda: asyncio.run(other.acquire_async(4, 30)))
    waits.start()
    first.release(4)
    waits.join(30)
    assert other.is_owned


@pytest.mark.rule("K20")
def test_the_memory_lives_until_the_last_handle_is_gone_and_not_longer(vks_open: Open) -> None:
    first = vks_open().create_buffer(64)
    descriptor = first.export()
    here = vks_open()
    other = here.open_buffer(descriptor)
    with first.access():
        access_patterns.fill(first, 9)
    first.close()
    with other.access():
        assert access_patterns.is_filling(other, 9)
    other.close()
    with pytest.raises(DescriptorError, match="every handle of the surface is gone"):
        here.open_buffer(descriptor)
    descriptor.close()
    for call in (other.read, other.export, other.acquire, other.access().__enter__):
        with pytest.raises(ClosedError):
            call()


# ---- contents ------------------------------------------------------------------------------------------------------


def test_write_takes_any_contiguous_bytes_and_refuses_other_sizes(buffer: vks.Buffer) -> None:
    numbers = np.arange(250, dtype=np.float32)
    with buffer.access():
        for data in (numbers, numbers.tobytes(), bytearray(numbers.tobytes()), numbers.reshape(25, 10)):
            buffer.write(bytes(1000))
            buffer.write(data)
            assert (buffer.read().view(np.float32) == numbers).all()
        with pytest.raises(ValueError, match="data has 999 bytes; this buffer takes 1000"):
            buffer.write(bytes(999))
        with pytest.raises(TypeError, match="data must be a contiguous array"):
            buffer.write(np.zeros((500, 2), np.uint8)[:, 0])
        with pytest.raises(TypeError, match="not int"):
            buffer.write(3)


def test_a_view_is_the_memory_itself_for_numpy_memoryview_and_dlpack(buffer: vks.Buffer) -> None:
    with buffer.access() as view:
        assert (view.surface, view.nbytes, view.shape, view.strides, view.dtype) == (buffer, 1000, (1000,), (1,), "u1")
        assert view.buffer == buffer.buffer
        if not buffer.is_host_visible:
            for use in (lambda: view.array, lambda: memoryview(view), lambda: np.from_dlpack(view)):
                with pytest.raises(BufferError, match="cannot be mapped"):
                    use()
            return
        view.array[:] = 3
        assert bytes(memoryview(view)) == b"\3" * 1000
        assert view.__dlpack_device__() == (1, 0)
        shown = np.from_dlpack(view)
        view.array[10] = 4
        assert shown[10] == 4
        assert np.asarray(view)[10] == 4
        with pytest.raises(AttributeError, match="this buffer's memory is not open in CUDA"):
            view.__cuda_array_interface__  # noqa: B018
    with pytest.raises(InvalidCallError, match=r"this BufferView is over.*buffer\.access"):
        view.array  # noqa: B018
    assert repr(view) == "<vkshare.BufferView over>"
    assert shown[10] == 4  # the memory is kept


def test_a_read_only_view_of_a_buffer_cannot_be_written(buffer: vks.Buffer) -> None:
    with buffer.access(writable=False) as view:
        if not buffer.is_host_visible:
            pytest.skip("the memory cannot be mapped")
        assert memoryview(view).readonly
        with pytest.raises(ValueError, match="read-only"):
            view.array[0] = 1


# ---- descriptors ---------------------------------------------------------------------------------------------------


def test_a_descriptor_goes_over_sockets_and_pickles_and_stays_usable(vks_open: Open, buffer: vks.Buffer) -> None:
    there = vks_open()
    one, two = socket.socketpair()
    with one, two, buffer.export() as descriptor:
        assert (descriptor.spec.nbytes, descriptor.spec.usage) == (1000, buffer.usage)
        assert repr(descriptor) == "<vkshare.BufferDescriptor 1000 bytes>"
        descriptor.send(one)
        with vks.BufferDescriptor.recv(two, 10) as received:
            assert there.open_buffer(received).nbytes == 1000
        with pickle.loads(pickle.dumps(descriptor)) as unpickled:
            assert there.open_buffer(unpickled).nbytes == 1000
        assert there.open_buffer(descriptor).mutex.statistics().handles == 2
    with pytest.raises(TypeError, match=r"buffer\.export\(\)"):
        pickle.dumps(buffer)


@pytest.mark.rule("X13")
def test_the_descriptors_of_surfaces_and_buffers_are_not_taken_for_each_other(
    device: vks.Device, buffer: vks.Buffer
) -> None:
    with device.create_surface(8, 8).export() as surface, buffer.export() as bytes_:
        with pytest.raises(TypeError):
            device.open_surface(bytes_)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            device.open_buffer(surface)  # type: ignore[arg-type]
        for kind, other in ((vks.BufferDescriptor, surface), (vks.SurfaceDescriptor, bytes_)):
            with other.duplicate() as copy, pytest.raises(DescriptorError, match=f"not a {kind.__name__}: its kind is"):
                kind.from_bytes(*copy._give_away())


@pytest.mark.rule("K33")
def test_ps_shows_the_bytes_of_a_buffer(buffer: vks.Buffer) -> None:
    with buffer.export():
        found = [each for each in ps.collect()["surfaces"] if each["format"] == "buffer"]
        assert 1000 in [each["nbytes"] for each in found]
        assert "1000 bytes" in ps._text(ps.collect())


@pytest.mark.rule("Q6")
def test_a_queue_of_surfaces_refuses_a_buffer(device: vks.Device, buffer: vks.Buffer) -> None:
    queue = vks.SurfaceQueue(device, 8, 8)
    producer = queue.open_producer(device)
    buffer.acquire()
    with pytest.raises((InvalidCallError, TypeError)):
        producer.enqueue(buffer)  # type: ignore[arg-type]
    queue.close()


# ---- the CPU backend's, on Vulkan ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [1, 4096, 100_001])
def test_a_buffer_of_the_cpu_backend_opens_on_vulkan_without_a_copy(vks_open: Open, nbytes: int) -> None:
    device = vks_open()
    with vks.open(backend="cpu", validation=False) as cpu:
        theirs = cpu.create_buffer(nbytes)
        with theirs.export() as descriptor:
            if device.backend == "vulkan" and "host_pointer" not in device.capabilities.surface_memory:
                with pytest.raises(UnsupportedError, match="opening memory of the CPU backend"):
                    device.open_buffer(descriptor)
                return
            mine = device.open_buffer(descriptor)
        with theirs.access(0, 1):
            access_patterns.fill(theirs, 3)
        private = device.create_buffer(nbytes)
        with mine.access(1, 2), private.access():
            assert access_patterns.is_filling(mine, 3)
            device.submit(device.record().copy(mine, private))
            assert access_patterns.is_filling(private, 3)
            access_patterns.fill(private, 4)
            device.submit(device.record().copy(private, mine))
        with theirs.access(2, 3):
            assert access_patterns.is_filling(theirs, 4)
        mine.close()


def test_a_buffer_of_vulkan_does_not_open_on_the_cpu_backend(device: vks.Device, buffer: vks.Buffer) -> None:
    if device.backend == "cpu":
        pytest.skip("both are the CPU backend's")
    refused = pytest.raises(UnsupportedError, match="belongs to a Vulkan driver")
    with vks.open(backend="cpu", validation=False) as cpu, buffer.export() as descriptor, refused:
        cpu.open_buffer(descriptor)
