"""Corners of the rules X that mutants found untested: fences, strangers, capabilities."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import mmap
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from support import access_patterns
from support.peers import Peer, later
from support.sharing import followed

import vkshare as vks
from vkshare.backends import cpu
from vkshare.errors import AcquireTimeout, DescriptorError, DeviceMismatchError, UnsupportedError
from vkshare.ipc import descriptors

pytest_plugins = ["support.peers"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]


def opened(surface: vks.Surface, device: Any) -> Any:
    """A handle on another device."""
    with surface.export() as descriptor:
        return device.open_surface(descriptor)


# ---- fences ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X2", "X10")
def test_no_counter_falls_however_and_from_where_it_is_read(vks_open: Open, peers: Peers) -> None:
    one, two, peer = vks_open(), vks_open(), peers()
    fence = one.create_fence()
    with fence.export() as descriptor:
        readers: list[Any] = [two.open_fence(descriptor), fence]
        theirs = peer.device.open_fence(descriptor)
    signals = 400
    watched = later(theirs.wait, signals, 60)
    fallen: list[str] = []

    def watch(what: Any) -> None:
        last = 0
        while last < signals and not fallen:
            now = what.value
            if now < last:
                fallen.append(f"{what!r} fell from {last} to {now}")
            last = now

    threads = [threading.Thread(target=watch, args=(what,)) for what in readers]
    for thread in threads:
        thread.start()
    for value in range(1, signals + 1):
        if value % 3:
            one.submit(signals=(fence, value))
        else:
            fence.signal(value)
    for thread in threads:
        thread.join(60)
    assert fallen == []
    watched.result(10)


@pytest.mark.rule("X2")
def test_the_counter_never_falls_between_the_drivers_news_and_our_own_looks(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    follower = followed(fence, two)
    own = theirs = 0
    for _ in range(50):
        for _ in range(20):
            one.submit(signals=fence)
        while theirs < fence.queued_value:
            before, own, theirs = (own, theirs), fence.value, follower.value
            assert own >= before[0]
            assert theirs >= before[1]


@pytest.mark.rule("X2")
def test_a_host_signal_keeps_its_place_behind_what_was_promised_before_it(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    gate, fence = one.create_fence(), one.create_fence()
    follower = followed(fence, two)
    work = one.submit(waits=(gate, 1), signals=(fence, 4))
    fence.signal(5)
    assert (fence.queued_value, fence.value, follower.value) == (5, 0, 0)
    for waited_for in (fence, follower):
        with pytest.raises(TimeoutError):
            waited_for.wait(4, 0.02)
    gate.signal(1)
    for waited_for in (fence, follower):
        waited_for.wait(5, 5)
    assert work.is_done()
    assert (fence.value, follower.value) == (5, 5)


@pytest.mark.rule("X2", "X24")
def test_one_signal_wakes_every_waiter_of_its_value(vks_open: Open, peers: Peers) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    with fence.export() as descriptor:
        follower = two.open_fence(descriptor)
        far = [peers().device.open_fence(descriptor) for _ in range(2)]
    calls = [later(waited_for.wait, 1, 30) for waited_for in [fence] * 6 + [follower] * 6 + far]
    time.sleep(0.05)
    assert not any(call.done() for call in calls)
    fence.signal(1)
    for call in calls:
        call.result(10)


@pytest.mark.rule("X4", "K18")
def test_what_is_only_queued_at_a_stranger_keeps_back_what_waits_for_it(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(2048, 2048)
    surface.acquire()
    long_work = one.record()
    for n in range(100):
        long_work.clear(surface, (n / 100, 0, 0, 1))
    fence = one.create_fence()
    follower = followed(fence, two)
    one.submit(long_work, signals=(fence, 1))
    waits = two.submit(waits=(follower, 1))
    waits.wait(60)
    assert fence.is_done(1)


@pytest.mark.rule("X20")
def test_a_fence_page_cannot_be_written_or_resized_by_whoever_has_its_fd(device: vks.Device) -> None:
    fence = device.create_fence(3)
    with fence.export() as descriptor:
        page = descriptor._fds[0]
        again = os.open(f"/proc/self/fd/{page}", os.O_RDWR | os.O_CLOEXEC)
        try:
            for fd in (page, again):
                with pytest.raises(PermissionError):
                    os.pwrite(fd, b"x", 0)
                with pytest.raises(PermissionError):
                    mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
                for size in (0, 8192):
                    with pytest.raises(PermissionError):
                        os.ftruncate(fd, size)
            with mmap.mmap(page, 4096, mmap.MAP_SHARED, mmap.PROT_READ) as view:
                assert struct.pack("<Q", 3) in view[:]
        finally:
            os.close(again)
    fence.signal(4)  # the signaller's own mapping stays writable
    assert fence.value == 4


@pytest.mark.rule("X24", "X23")
@pytest.mark.parametrize("place", ["signaller", "follower"])
def test_a_signal_wakes_those_it_reaches_in_whatever_order_they_came(vks_open: Open, place: str) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    with fence.export() as descriptor:
        waited_for = fence if place == "signaller" else two.open_fence(descriptor)
    values = [9, 2, 14, 5, 5, 1, 30, 8, 3, 21, 6, 4]
    os.close(waited_for.event_fd(0))  # starts what has fds of its own
    before = len(os.listdir("/proc/self/fd"))
    events = {waited_for.event_fd(value): value for value in values}
    try:
        left = set(events)
        for reached in (1, 4, 5, 8, 20, 30):
            fence.signal(reached)
            expected = {fd for fd in left if events[fd] <= reached}
            deadline = time.monotonic() + 20
            while set(select.select(left, [], [], 0)[0]) != expected and time.monotonic() < deadline:
                time.sleep(0.001)
            assert set(select.select(left, [], [], 0.01)[0]) == expected
            left -= expected
    finally:
        for fd in events:
            os.close(fd)
    assert len(os.listdir("/proc/self/fd")) == before


# ---- strangers ---------------------------------------------------------------------------------------------------


SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def _memfd(size: int, seals: int) -> int:
    fd = os.memfd_create("stranger", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


@pytest.mark.rule("X15")
@pytest.mark.parametrize(
    ("size", "seals"),
    [
        (4096, 0),
        (4096, SEALS & ~fcntl.F_SEAL_GROW),
        (4096, SEALS & ~fcntl.F_SEAL_SHRINK),
        (4096, SEALS & ~fcntl.F_SEAL_SEAL),
        (64, SEALS),
    ],
)
def test_the_core_itself_maps_no_page_that_could_be_cut_off(device: vks.Device, size: int, seals: int) -> None:
    fence = device.create_fence()
    with fence.export() as descriptor:
        content = os.pread(descriptor._fds[0], 4096, 0)
    page = _memfd(0, 0)
    os.pwrite(page, content[:size], 0)
    os.ftruncate(page, size)
    fcntl.fcntl(page, fcntl.F_ADD_SEALS, seals)
    with pytest.raises(DescriptorError, match="seals" if size == 4096 else "64 bytes"):
        vks.Fence._open(device, page, -1)  # takes the fd over


@pytest.mark.rule("X18")
def test_a_surface_that_the_backend_refuses_leaves_no_fd_behind(device: vks.Device) -> None:
    surface = device.create_surface(16, 16)
    with surface.export() as descriptor:
        device.open_surface(descriptor).close()  # starts the threads that have fds of their own
        data, fds = bytearray(descriptor.to_bytes()), descriptor._fds
        start = descriptors.HEADER.size
        spoils = {"cpu": (start + 14, 0), "vulkan": (start + 40, data[start + 40] ^ 1)}  # memory kind; device UUID
        at, value = spoils[device.backend]
        data[at] = value
        before = access_patterns.open_fds()
        for _ in range(1000):
            with (
                vks.SurfaceDescriptor.from_bytes(bytes(data), [os.dup(fd) for fd in fds]) as forged,
                pytest.raises((UnsupportedError, DeviceMismatchError)),
            ):
                device.open_surface(forged)
        assert access_patterns.open_fds() == before


_LISTING = """
import os
for fd in os.listdir("/proc/self/fd"):
    if os.path.exists(f"/proc/self/fd/{fd}"):
        print(os.readlink(f"/proc/self/fd/{fd}").split(":[")[0])
"""


def _inherited() -> list[str]:
    """What a child that closes nothing finds open, apart from the numbers of pipes and sockets."""
    done = subprocess.run([sys.executable, "-c", _LISTING], close_fds=False, capture_output=True, text=True, check=True)
    return sorted(done.stdout.splitlines())


@pytest.mark.rule("X12")
def test_a_child_that_closes_nothing_inherits_no_fd_of_ours(vks_open: Open, peers: Peers) -> None:
    before = _inherited()
    one, two, peer = vks_open(), vks_open(), peers()
    surface, fence = one.create_surface(16, 16), one.create_fence()
    here, there = opened(surface, two), opened(surface, peer.device)
    there.acquire(0, 0)
    with pytest.raises(AcquireTimeout):
        here.acquire(0, 0.01)  # from here on the peer is watched
    event = fence.event_fd(7)
    with fence.export() as page, surface.export():
        two.submit(waits=(two.open_fence(page), 1))

        async def wait() -> None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(fence.wait_async(9), 0.01)
            assert _inherited() == before

        asyncio.run(wait())
    os.close(event)


@pytest.mark.rule("X17")
def test_memory_of_another_driver_is_refused_and_both_sides_are_named(device: vks.Device) -> None:
    surface = device.create_surface(16, 16)
    with surface.export() as descriptor:
        data, start = descriptor.to_bytes(), descriptors.HEADER.size
    here = device.capabilities
    forged: list[tuple[bytes, type[Exception], list[str]]] = []
    if device.backend == "cpu":  # memory of a Vulkan driver, as its kind tells
        changed = data[: start + 14] + b"\0" + data[start + 15 :]
        forged.append((changed, UnsupportedError, ["opaque_fd", "Vulkan driver", "CPU backend"]))
    else:
        for at, ours in ((start + 40, here.device_uuid), (start + 56, here.driver_uuid)):
            theirs = bytes([ours[0] ^ 1]) + ours[1:]
            assert data[at : at + 16] == ours
            changed = data[:at] + theirs + data[at + 16 :]
            forged.append((changed, DeviceMismatchError, [str(UUID(bytes=theirs)), str(UUID(bytes=ours)), "adapter"]))
    surface.acquire(0, 0)
    for changed, error, words in forged:
        with surface.export() as descriptor:
            fds = [os.dup(fd) for fd in descriptor._fds]
        with vks.SurfaceDescriptor.from_bytes(changed, fds) as stranger, pytest.raises(error) as refused:
            device.open_surface(stranger)
        assert [word for word in words if word not in str(refused.value)] == []
    assert surface.is_owned


# ---- capabilities ------------------------------------------------------------------------------------------------


@pytest.mark.rule("X22")
def test_the_cpu_adapter_claims_nothing_where_its_trial_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedError("memfd", "the kernel refused it")

    monkeypatch.setattr(cpu.probe.memory, "open_memory", refuse)
    can = cpu.probe.adapter.__wrapped__().capabilities
    assert (can.tilings, can.surface_memory, can.formats, can.host_visible) == (frozenset(),) * 3 + (False,)
    assert "refused" in can.reasons["linear"]
    assert "refused" in can.reasons["memfd"]
