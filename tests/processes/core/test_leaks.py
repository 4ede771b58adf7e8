"""What is closed is gone: file descriptors, threads and memory stay flat however often it is made."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable

import pytest
from support import access_patterns
from support.peer_processes import Peer
from support.run_volumes import rounds, unhurried

import vkshare as vks
from vkshare.errors import DescriptorError, DeviceMismatchError, UnsupportedError, VulkanError

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"), unhurried, pytest.mark.slow]

Open = Callable[..., vks.Device]


class Flat:
    """What the process has now, to be compared with what it has later."""

    def __init__(self) -> None:
        self.fds, self.threads, self.kib = _now()

    def check(self, kib: int, threads: int = 0) -> None:
        fds, now_threads, now_kib = _now()
        assert fds <= self.fds, f"{fds - self.fds} fds more: {_targets()}"
        assert now_threads <= self.threads + threads, f"{now_threads - self.threads} threads more"
        assert now_kib - self.kib < kib, f"{now_kib - self.kib} KiB more"


def _now() -> tuple[int, int, int]:
    gc.collect()
    return access_patterns.open_fds(), access_patterns.threads(), access_patterns.resident_kib()


def _targets() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(found)


def _round(one: vks.Device, two: vks.Device) -> None:
    """Everything once: made, shared, used, closed."""
    surface, fence = one.create_surface(32, 32), one.create_fence()
    with surface.export() as a, fence.export() as b:
        other, follower = two.open_surface(a), two.open_fence(b)
    surface.acquire(0, 0)
    done = access_patterns.clear(surface, 7, signals=fence)
    surface.release(1)
    held = two.submit(waits=(follower, 1))
    other.acquire(1, 10)
    assert access_patterns.is_clear(other.read(), 7)
    event = fence.event_fd(1)
    for submission in (done, held):
        submission.wait(10)
    os.close(event)
    other.release(0)
    for thing in (surface, fence, other, follower):
        thing.close()


@pytest.mark.rule("K20", "X18")
def test_making_sharing_and_closing_leaves_nothing_behind(vks_open: Open, vks_adapter: vks.Adapter) -> None:
    one, two = vks_open(), vks_open()
    turns = rounds(10_000, 3_000 if vks_adapter.backend == "cpu" else 300)
    for _ in range(turns // 3):  # pools and caches fill
        _round(one, two)
    before = Flat()
    for _ in range(turns):
        _round(one, two)
    one.wait_idle(10)
    two.wait_idle(10)
    one.record(), two.record()  # reaps
    assert (one.statistics().surfaces, one.statistics().fences, one.statistics().buried) == (0, 0, 0)
    before.check(kib=8192)


@pytest.mark.rule("X12", "K20")
def test_devices_that_are_opened_and_closed_leave_nothing_behind(vks_adapter: vks.Adapter) -> None:
    def once() -> None:
        with vks.open(vks_adapter) as one, vks.open(vks_adapter) as two:
            _round(one, two)

    turns = rounds(500, 30 if vks_adapter.backend == "cpu" else 8)
    for _ in range(15):  # until malloc() has an arena for each thread of a driver
        once()
    before = Flat()
    for _ in range(turns):
        once()
    before.check(kib=512 * turns if vks_adapter.backend == "vulkan" else 4096)  # drivers keep caches


@pytest.mark.rule("X6", "X23")
def test_waits_that_were_given_up_leave_nothing_behind(vks_open: Open) -> None:
    device, other = vks_open(held_limit=4096), vks_open()
    theirs = other.create_fence()
    with theirs.export() as descriptor:
        gate = device.open_fence(descriptor)

    async def give_up() -> None:
        waits = [asyncio.ensure_future(gate.wait_async(2**40 + n)) for n in range(50)]
        await asyncio.sleep(0)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    def once() -> None:
        asyncio.run(give_up())
        with pytest.raises(TimeoutError):
            gate.wait(2**40, 0)

    once()
    before = Flat()
    for _ in range(rounds(1000, 20)):
        once()
    before.check(kib=8192)


@pytest.mark.full
@pytest.mark.rule("X18")
def test_a_thousand_good_imports_and_a_thousand_bad_ones_leave_the_fd_count_as_it_was(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surfaces = [one.create_surface(16, 16, tiling=tiling) for tiling in sorted(one.capabilities.tilings)]
    good = [surface.export() for surface in surfaces]
    bad = _bad_descriptors(surfaces[0])
    count = 1000
    for descriptor in good:
        two.open_surface(descriptor).close()
    two.record()
    before = access_patterns.open_fds()
    for turn in range(count):
        two.open_surface(good[turn % len(good)]).close()
    two.record()
    assert access_patterns.open_fds() == before, _targets()
    for turn in range(count):
        with pytest.raises((DescriptorError, DeviceMismatchError, UnsupportedError, VulkanError)):
            two.open_surface(bad[turn % len(bad)])
    two.record()
    assert access_patterns.open_fds() == before, _targets()
    assert two.statistics().surfaces == 0
    for descriptor in (*good, *bad):
        descriptor.close()


def _bad_descriptors(surface: vks.Surface) -> list[vks.SurfaceDescriptor]:
    """Each passes the checks on arrival, and fails in a later step: the image's memory, or its page."""
    bad = []
    with surface.export() as whole:
        data, fds = whole.to_bytes(), whole._fds
        size = os.fstat(fds[0]).st_size
        foreign = os.memfd_create("foreign", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(foreign, max(size, 1 << 16))
        _seal(foreign)
        empty_page = os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(empty_page, max(os.fstat(fds[1]).st_size, 1 << 16))
        _seal(empty_page)
        rest = [os.dup(fd) for fd in fds[2:]]
        bad.append(vks.SurfaceDescriptor.from_bytes(data, [os.dup(fds[0]), empty_page, *rest]))
        if "llvmpipe" in surface.device.adapter.name:  # others cannot tell a memfd of their own from another
            rest = [os.dup(fd) for fd in fds[2:]]
            bad.append(vks.SurfaceDescriptor.from_bytes(data, [foreign, os.dup(fds[1]), *rest]))
        else:
            os.close(foreign)
    return bad


def _seal(fd: int) -> None:
    import fcntl

    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)


@pytest.mark.rule("K9", "K20")
def test_peers_that_come_and_die_leave_nothing_behind(
    vks_open: Open, peers: Callable[..., Peer], vks_adapter: vks.Adapter
) -> None:
    device = vks_open()

    def once(patience: float = 0) -> None:
        peer = peers(validation=False)
        surface, theirs = device.create_surface(16, 16), peer.device.create_fence()
        with surface.export() as a, theirs.export() as b:
            other, follower = peer.device.open_surface(a), device.open_fence(b)
        other.acquire(0, 0)
        with pytest.raises(vks.AcquireTimeout):
            surface.acquire(1, patience)
        peer.kill()
        with pytest.raises(vks.AbandonedError):
            surface.acquire(1, 10)
        with pytest.raises(vks.AbandonedError):
            follower.wait(1, 10)
        surface.close()
        follower.close()
        peer.end()

    for _ in range(3):
        once(0.05)  # a wait for a living peer starts the thread that watches peers, which then stays
    before = Flat()
    for _ in range(rounds(1000, 30 if vks_adapter.backend == "cpu" else 5)):
        once()
    device.record()
    before.check(kib=8192)
