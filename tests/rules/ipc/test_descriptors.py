"""Descriptors: over sockets, opened and closed. test_descriptor_channels.py has what others carry."""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import socket
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.fd_counts import open_fds

import vkshare as vks
from vkshare.errors import ClosedError, DescriptorError

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.driver_dependent, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

Open = Callable[..., vks.Device]


@pytest.fixture(params=[socket.SOCK_STREAM, socket.SOCK_SEQPACKET], ids=["stream", "seqpacket"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair(socket.AF_UNIX, request.param)
    yield one, two
    one.close()
    two.close()


@pytest.fixture
def surface(device: vks.Device) -> vks.Surface:
    return device.create_surface(24, 10)


def duplicates(fds: tuple[int, ...]) -> list[int]:
    return [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in fds]


# ---- there and back ------------------------------------------------------------------------------------------------


@pytest.mark.rule("I8")
def test_a_surface_crosses_a_socket_with_its_pixels(
    pair: tuple[socket.socket, socket.socket], surface: vks.Surface, vks_open: Open
) -> None:
    with surface.access():
        surface.write(np.full(surface.shape, 66, np.uint8))
    with surface.export() as sent:
        sent.send(pair[0])
    with vks.SurfaceDescriptor.recv(pair[1], 5) as received:
        assert received.spec == surface.spec
        assert received.name == "test"
        other = vks_open().open_surface(received)
    with other.access():
        assert (other.read() == 66).all()


@pytest.mark.rule("I8")
def test_a_fence_crosses_a_socket_and_is_followed(
    pair: tuple[socket.socket, socket.socket], device: vks.Device, vks_open: Open
) -> None:
    fence = device.create_fence(4)
    with fence.export() as sent:
        sent.send(pair[0])
    with vks.FenceDescriptor.recv(pair[1], 5) as received:
        assert received.name == "test"
        follower = vks_open().open_fence(received)
    fence.signal(6)
    follower.wait(6, 5)


@pytest.mark.rule("I8")
def test_many_descriptors_in_a_row_keep_their_bounds(
    pair: tuple[socket.socket, socket.socket], device: vks.Device
) -> None:
    for width in range(1, 9):
        with device.create_surface(width, 3).export() as sent:
            sent.send(pair[0])
    for width in range(1, 9):
        with vks.SurfaceDescriptor.recv(pair[1], 5) as received:
            assert received.spec.width == width


@pytest.mark.rule("X12")
def test_received_and_exported_fds_are_close_on_exec(
    pair: tuple[socket.socket, socket.socket], surface: vks.Surface
) -> None:
    with surface.export() as sent:
        assert not any(os.get_inheritable(fd) for fd in sent._fds)
        sent.send(pair[0])
    with vks.SurfaceDescriptor.recv(pair[1], 5) as received:
        assert not any(os.get_inheritable(fd) for fd in received._fds)


def test_one_descriptor_can_be_opened_several_times(surface: vks.Surface, vks_open: Open) -> None:
    other = vks_open()
    with surface.export() as descriptor:
        handles = [other.open_surface(descriptor) for _ in range(3)]
    assert surface.mutex.statistics().handles == 4
    assert len({id(handle) for handle in handles}) == 3


# ---- closing -------------------------------------------------------------------------------------------------------


def test_close_is_idempotent_and_gives_the_fds_back(surface: vks.Surface) -> None:
    before = open_fds()
    descriptor = surface.export()
    assert descriptor.fd_count == len(open_fds()) - len(before)
    descriptor.close()
    descriptor.close()
    assert descriptor.is_closed
    assert descriptor.fd_count == 0
    assert "closed" in repr(descriptor)
    assert open_fds() == before
    for use in (lambda: pickle.dumps(descriptor), descriptor._open_fds):
        with pytest.raises(ClosedError, match=r"export\(\)"):
            use()


def test_a_descriptor_that_was_never_used_warns_and_one_that_was_sent_does_not(
    pair: tuple[socket.socket, socket.socket], surface: vks.Surface, device: vks.Device
) -> None:
    with surface.export() as first:
        device.open_surface(first).close()  # starts the service threads, which have fds of their own
    before = open_fds()
    with pytest.warns(ResourceWarning, match="neither sent, opened nor closed"):
        surface.export()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surface.export().send(pair[0])
        handle = device.open_surface(vks.SurfaceDescriptor.recv(pair[1], 5))
        handle.close()
        del handle
        gc.collect()
    device.record()
    assert open_fds() == before


@pytest.mark.rule("X18")
def test_opening_and_failing_to_open_leave_no_fd_behind(surface: vks.Surface, vks_open: Open) -> None:
    other = vks_open()
    with surface.export() as descriptor:
        other.open_surface(descriptor).close()
        data, fds = descriptor.to_bytes(), descriptor._fds
        before = len(open_fds())
        for _ in range(100):
            other.open_surface(descriptor).close()
            with pytest.raises(DescriptorError):
                vks.SurfaceDescriptor.from_bytes(data[:-1], duplicates(fds))
            with pytest.raises(DescriptorError):
                vks.SurfaceDescriptor.from_bytes(data, duplicates(fds[:1]))
        other.record()
        assert len(open_fds()) == before
