"""Processes that are killed: who notices, how soon, and what is left of the surfaces and fences that they shared."""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import access_patterns
from support.child_processes import in_new_process
from support.peer_processes import Peer, PeerDied, later
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import followed, opened, wait_until
from support.time_limits import Measured

import vkshare as vks
from vkshare.errors import AbandonedError, AcquireTimeout, DescriptorError, InvalidCallError

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"), unhurried]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]
LIMIT = 0.2  # seconds from the kill to the AbandonedError (rule K9)


# ---- the owner ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("K9", "K8")
@pytest.mark.serial
def test_a_peer_that_waits_is_told_within_200_ms_that_the_owner_was_killed(
    vks_open: Open, peers: Peers, vks_adapter: vks.Adapter, measured: Measured
) -> None:
    device = vks_open()

    def kill() -> float:
        surface = device.create_surface(8, 8)
        killed, waits = peers(validation=False), peers()
        theirs, others = opened(surface, killed.device), opened(surface, waits.device)
        theirs.acquire(0, 0)
        calls = [later(others.acquire, 1), later(surface.acquire, 0)]
        wait_until(lambda page=surface: len(page.mutex.statistics().waiters) == 2)  # type: ignore[misc]
        start = killed.kill()
        with pytest.raises(AbandonedError):
            calls[1].result(5)
        with pytest.raises(AbandonedError):
            calls[0].result(5)
        took = time.monotonic() - start
        surface.close()
        killed.end()
        return took

    took = [measured(kill, LIMIT) for _ in range(rounds(200, 20 if vks_adapter.backend == "cpu" else 6))]
    print(f"\nkill to AbandonedError: median {statistics.median(took) * 1e3:.2f} ms, most {max(took) * 1e3:.2f} ms")


@pytest.mark.rule("K9", "K27")
def test_after_the_owners_death_the_surface_is_recovered_and_used_again(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(16, 16)
    killed, lives = peers(), peers()
    theirs, others = opened(surface, killed.device), opened(surface, lives.device)
    theirs.acquire(0, 0)
    killed.run(access_patterns.draw, theirs, 3)
    killed.kill()
    with pytest.raises(AbandonedError):
        surface.acquire(0, 5)
    with pytest.raises(AbandonedError):
        others.acquire(0, 0)
    with pytest.raises(InvalidCallError):
        surface.release(0)
    others.recover()
    assert others.generation == 2
    lives.run(access_patterns.draw, others, 4)
    others.release(5)
    with pytest.raises(AbandonedError):
        surface.acquire(5, 0)
    surface.acquire(5, 5)
    assert access_patterns.is_picture(surface, 4)


@pytest.mark.rule("K9", "K12")
def test_an_owner_that_died_unseen_is_seen_by_a_test_that_does_not_wait(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(8, 8)
    killed = peers()
    opened(surface, killed.device).acquire(0, 0)
    with pytest.raises(AcquireTimeout):
        surface.acquire(0, 0)
    killed.kill()
    assert not killed.is_running(5)
    time.sleep(0.01)
    with pytest.raises(AbandonedError):
        surface.acquire(0, 0)


# ---- everybody else ----------------------------------------------------------------------------------------------


@pytest.mark.rule("K9", "K10")
def test_the_death_of_a_waiter_or_of_one_that_does_nothing_changes_nothing(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(16, 16)
    waiter, idler, heir = peers(), peers(), peers()
    handles = [opened(surface, peer.device) for peer in (waiter, idler, heir)]
    surface.acquire(0, 0)
    access_patterns.draw(surface, 2)
    handles[0].acquire.later(1)
    inherits = later(handles[2].acquire, 1, 30)
    wait_until(lambda: len(surface.mutex.statistics().waiters) == 2)
    for peer in (waiter, idler):
        peer.kill()
        assert not peer.is_running(5)
    wait_until(lambda: surface.mutex.statistics().handles == 2)
    assert surface.is_owned
    assert not inherits.done(0.05)
    surface.release(1)
    inherits.result(5)
    assert heir.run(access_patterns.is_picture, handles[2], 2)
    handles[2].release(0)
    surface.acquire(0, 5)


@pytest.mark.rule("K10", "K9")
def test_a_release_is_not_lost_with_a_waiter_that_dies_at_that_moment(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(8, 8)
    heir = peers()
    patient = opened(surface, heir.device)
    dice = seeded()
    for _ in range(rounds(500, 6)):
        surface.acquire(0, 5)
        dying = peers(validation=False)
        opened(surface, dying.device).acquire.later(1)
        waits = later(patient.acquire, 1, 30)
        wait_until(lambda: len(surface.mutex.statistics().waiters) == 2)
        if dice.random() < 0.5:
            surface.release(1)
            dying.kill()
        else:
            dying.kill()
            surface.release(1)
        try:
            waits.result(5)
        except AbandonedError:  # the dying one had it
            patient.recover()
        patient.release(0)
        try:
            surface.acquire(0, 5)
        except AbandonedError:  # once for the new generation
            surface.acquire(0, 5)
        surface.release(0)


@pytest.mark.rule("K9", "K20")
def test_when_the_maker_dies_while_nobody_owns_the_others_go_on(vks_open: Open, peers: Peers) -> None:
    device, maker, other = vks_open(), peers(), peers()
    made = maker.device.create_surface(16, 16)
    with made.export() as descriptor:
        surface, theirs = device.open_surface(descriptor), other.device.open_surface(descriptor)
    made.acquire(0, 0)
    maker.run(access_patterns.draw, made, 6)
    made.release(1)
    wait_until(lambda: (reported := surface.mutex.statistics()).completed == reported.value)  # its work has run
    maker.kill()
    assert not maker.is_running(5)
    for turn in range(4):
        handle = (surface, theirs)[turn % 2]
        handle.acquire(turn + 1, 5)
        assert (handle.read() == access_patterns.picture((16, 16, 4), 6)).all()
        handle.release(turn + 2)


@pytest.mark.rule("K20", "K9")
def test_a_descriptor_of_a_surface_whose_every_process_died_is_refused(vks_open: Open, peers: Peers) -> None:
    device, maker = vks_open(), peers()
    descriptor = maker.device.create_surface(8, 8).export()
    device.open_surface(descriptor).close()
    maker.kill()
    assert not maker.is_running(5)
    with pytest.raises(DescriptorError):
        device.open_surface(descriptor)
    descriptor.close()


@pytest.mark.rule("K9", "K20")
def test_the_places_of_the_dead_are_given_to_new_handles(vks_open: Open, peers: Peers) -> None:
    device = vks_open()
    surface = device.create_surface(8, 8)
    for _ in range(3):  # a page has 120 places
        killed = peers(validation=False)
        with surface.export() as descriptor:
            assert killed.run(access_patterns.open_many, killed.device, descriptor, 60) == 60
        killed.kill()
        assert not killed.is_running(5)
    opened(surface, device).acquire(0, 0)


# ---- promises of the dead ------------------------------------------------------------------------------------------


@pytest.mark.rule("K9", "K27", "K18")
@pytest.mark.parametrize("is_released_first", [True, False], ids=["released", "owned"])
def test_a_frame_whose_drawing_died_with_its_owner_is_never_read_as_whole(
    vks_open: Open, peers: Peers, is_released_first: bool
) -> None:
    surface = vks_open().create_surface(16, 16)
    killed = peers()
    theirs = opened(surface, killed.device)
    gate = killed.device.create_fence()
    theirs.acquire(0, 0)
    killed.run(access_patterns.clear_and_forget, theirs, 5)
    killed.run(access_patterns.fill_column, theirs, 3, 99, waits=(gate, 1))  # held: it will never run
    theirs.release(1)
    surface.acquire(1, 5)
    reading = later(surface.read)
    assert not reading.done(0.05)
    killed.kill()
    with pytest.raises(AbandonedError):
        reading.result(5)
    if is_released_first:
        with pytest.raises(AbandonedError):  # the release passes the broken chain on
            surface.release(0)
    surface.recover()
    surface.read()
    surface.release(0)
    surface.acquire(0, 0)


@pytest.mark.rule("K9", "K27")
def test_an_owner_whose_work_can_never_run_recovers_the_surface(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(16, 16)
    killed = peers()
    theirs, gate = opened(surface, killed.device), killed.device.create_fence()
    theirs.acquire(0, 0)
    killed.run(access_patterns.fill_column, theirs, 3, 99, waits=(gate, 1))  # held: it will never run
    theirs.release(1)
    surface.acquire(1, 5)
    with pytest.raises(InvalidCallError, match="not abandoned"):
        surface.recover(0)
    killed.kill()
    wait_until(lambda: surface.mutex.statistics().handles == 1)  # the death is known: the next submission is refused
    with pytest.raises(AbandonedError, match=r"recover\(\) makes it usable again"):
        access_patterns.clear(surface, 7)
    surface.recover()
    access_patterns.clear(surface, 8).wait(5)
    assert access_patterns.is_clear(surface.read(), 8)


@pytest.mark.rule("K25", "K9", "K27")
def test_work_held_for_an_owner_that_is_killed_fails_and_the_device_goes_on(vks_open: Open, peers: Peers) -> None:
    device = vks_open()
    surface, own = device.create_surface(16, 16), device.create_surface(16, 16)
    killed = peers()
    opened(surface, killed.device).acquire(0, 0)
    surface.acquire(1, mode="gpu")
    fence = device.create_fence()
    held = [access_patterns.clear(surface, n, signals=fence) for n in range(5)]
    killed.kill()
    for submission in held:
        with pytest.raises(AbandonedError):
            submission.wait(20)
    with pytest.raises(AbandonedError):
        fence.wait(1, 5)
    own.acquire(0, 0)
    access_patterns.clear(own, 9).wait(5)
    assert access_patterns.is_clear(own.read(), 9)
    surface.recover()
    access_patterns.clear(surface, 7).wait(5)
    assert access_patterns.is_clear(surface.read(), 7)


@pytest.mark.rule("X9", "X10")
def test_waits_for_a_fence_whose_signaller_is_killed_fail_above_its_last_value_only(
    vks_open: Open, peers: Peers
) -> None:
    device, killed = vks_open(), peers()
    theirs = killed.device.create_fence()
    fence = followed(theirs, device)
    theirs.signal(4)
    held = device.submit(waits=(fence, 6))
    waits = later(fence.wait, 5)
    assert not waits.done(0.02)
    killed.kill()
    with pytest.raises(AbandonedError):
        waits.result(5)
    with pytest.raises(AbandonedError):
        held.wait(5)
    fence.wait(4, 0)
    assert fence.value == 4
    with pytest.raises(AbandonedError):
        fence.wait(5, 0.5)
    device.submit(waits=(fence, 3)).wait(5)


# ---- at any moment ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("X9", "K9", "K27", "K17")
def test_a_party_killed_at_any_moment_leaves_a_whole_frame_or_an_abandoned_surface(
    vks_open: Open, peers: Peers, vks_adapter: vks.Adapter
) -> None:
    device = vks_open()
    surface = device.create_surface(64, 64)
    dice = seeded()
    is_quick = vks_adapter.backend == "cpu"
    kills = rounds(10_000, 40 if is_quick else 8, full=200 if is_quick else 40)
    outcomes = {"abandoned": 0, "whole": 0}
    took = []
    for _ in range(kills):
        victim = peers(validation=False)  # quicker to start
        victim.later(access_patterns.tear, opened(surface, victim.device), dice.getrandbits(32))
        _let_it_draw(surface)
        time.sleep(dice.uniform(0, 0.004))
        start = victim.kill()
        try:
            surface.acquire(0, 5)
            pixels = surface.read()
            assert access_patterns.is_whole_frame(pixels), "a torn frame"
            surface.release(0)
            outcomes["whole"] += 1
        except AbandonedError:
            took.append(time.monotonic() - start)
            _recover(surface)
            outcomes["abandoned"] += 1
        victim.end()
    print(f"\n{kills} kills: {outcomes}; to AbandonedError: median {statistics.median(took or [0]) * 1e3:.2f} ms")
    # The driver and the machine's load decide how many kills come between two ownerships.
    assert outcomes["abandoned"]
    with pytest.raises(AcquireTimeout):
        surface.acquire(1, 0.01)  # who waits looks for the dead
    wait_until(lambda: surface.mutex.statistics().handles == 1)


def _let_it_draw(surface: vks.Surface) -> None:
    value = surface.mutex.statistics().value
    wait_until(lambda: surface.mutex.statistics().value > value)


def _recover(surface: vks.Surface) -> None:
    """Also where the drawing of the last whole ownership was lost: then release() passes the broken chain on first."""
    if surface.is_owned:
        with pytest.raises(AbandonedError):
            surface.release(0)
    surface.recover(5)
    assert surface.is_owned
    access_patterns.draw(surface, 1)
    surface.release(0)


@pytest.mark.rule("X9")
def test_a_request_to_a_peer_that_was_killed_says_that_it_died(peers: Peers) -> None:
    peer = peers()
    fence = peer.device.create_fence()
    waits = later(fence.wait, 1)
    peer.kill()
    with pytest.raises(PeerDied):
        waits.result(5)


# ---- pages that name processes at will -------------------------------------------------------------------------------

_SLOTS, _SLOT_SIZE, _ROSTER = 256, 64, 200  # where a mutex page has them (native/shm/page.h)


def _identity(pid: int) -> int:
    """The word that says "a handle of that process" (native/os/platform.h)."""
    started = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    return 1 << 48 | (started & 0x3FFFFFF) << 22 | pid


def _name(page: mmap.mmap, processes: list[subprocess.Popen[bytes]]) -> None:
    """Writes them into the page's slots from 4 on, in place of those that were there, as any party can."""
    for slot in range(4, 120):
        identity = _identity(processes[slot - 4].pid) if slot - 4 < len(processes) else 0
        struct.pack_into("<Q", page, _SLOTS + _SLOT_SIZE * slot, identity)
    struct.pack_into("<I", page, _ROSTER, struct.unpack_from("<I", page, _ROSTER)[0] + 1)


@contextlib.contextmanager
def _page_and_sleepers(
    count: int,
) -> Iterator[tuple[vks.Surface, vks.Surface, mmap.mmap, list[subprocess.Popen[bytes]]]]:
    """An owner and a waiter of one surface, its page, and so many processes that have no part in it."""
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(count)]
    try:
        with (
            vks.open(backend="cpu") as one,
            vks.open(backend="cpu") as two,
            one.create_surface(4, 4) as surface,
            surface.export() as descriptor,
            mmap.mmap(descriptor._fds[1], 0) as page,
            two.open_surface(descriptor) as waiter,
        ):
            surface.acquire(0)
            yield surface, waiter, page, sleepers
    finally:
        for each in sleepers:
            each.kill()
            each.wait()


def _wait_in_vain(waiter: vks.Surface) -> None:
    with pytest.raises(AcquireTimeout):
        waiter.acquire(5, 0.01)


def _pidfds() -> int:
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += "pidfd" in os.readlink(f"/proc/self/fd/{fd}")
    return found


@pytest.mark.rule("X14", "X19")
def test_a_process_that_no_page_names_any_more_costs_no_pidfd() -> None:
    in_new_process(_name_ten_at_a_time)  # no other test's pages name any process there


def _name_ten_at_a_time() -> None:
    inherited = _pidfds()
    with _page_and_sleepers(100) as (_, waiter, page, sleepers):
        for first in range(0, 100, 10):
            _name(page, sleepers[first : first + 10])
            _wait_in_vain(waiter)
        assert 10 <= _pidfds() - inherited < 100
        waiter.close()
        assert _pidfds() - inherited == 10  # the owner's mapping is of a page that names these
    assert _pidfds() == inherited


@pytest.mark.rule("X14", "X19")
def test_pidfds_of_processes_that_pages_name_are_at_most_a_quarter_of_the_fds() -> None:
    """The processes past that are looked up in /proc: the death of one is noticed all the same."""
    in_new_process(_name_eighty)


def _name_eighty() -> None:
    inherited = _pidfds()
    with _page_and_sleepers(80) as (surface, waiter, page, sleepers):
        limit = 48 + max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        _name(page, sleepers)
        _wait_in_vain(waiter)
        assert 0 < _pidfds() - inherited <= limit // 4
        with vks.open(backend="cpu") as other, other.create_surface(4, 4):
            pass  # there are fds for it
        last = _SLOTS + _SLOT_SIZE * (4 + 79)
        sleepers[79].kill()
        sleepers[79].wait()
        wait_until(lambda: struct.unpack_from("<Q", page, last)[0] & 0x3FFFFF == 0)
        assert surface.is_owned


@pytest.mark.rule("K9")
def test_a_waiter_is_woken_by_the_death_of_an_owner_that_came_after_it(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(8, 8)
    other = opened(surface, vks_open())
    surface.acquire(0, 0)
    waits = later(other.acquire, 7)  # in a thread: the main one looks round every 50 ms, for signals
    while len(surface.mutex.statistics().waiters) < 1:
        time.sleep(0.001)
    time.sleep(0.02)
    newcomer = peers()
    theirs = opened(surface, newcomer.device)
    surface.release(1)
    theirs.acquire(1, 5)
    assert not waits.done(0.02)
    newcomer.kill()
    with pytest.raises(AbandonedError):
        waits.result(5)


@pytest.mark.rule("X19", "K9")
def test_an_owner_whose_pid_belongs_to_another_process_by_now_is_dead(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(8, 8)
    peer = peers()
    theirs = opened(surface, peer.device)
    theirs.acquire(0, 0)
    with surface.export() as descriptor:
        page = descriptor._fds[1]
        for place in range(4):
            at = _SLOTS + place * _SLOT_SIZE
            (identity,) = struct.unpack("<Q", os.pread(page, 8, at))
            if identity & 0x3FFFFF == peer.pid:
                os.pwrite(page, struct.pack("<Q", identity ^ 1 << 22), at)  # it started a tick earlier or later
                break
        else:
            pytest.fail("the peer has no place in the page")
    with pytest.raises(AbandonedError):
        surface.acquire(0, 5)
    surface.recover()
    surface.release(0)
