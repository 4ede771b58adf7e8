"""Corners of the rules K that mutants found untested."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns
from support.patience import HANG
from support.peers import Peer, later

import vkshare as vks
from vkshare.errors import AbandonedError, AcquireTimeout

pytest_plugins = ["support.peers"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]

PAGE_SLOTS, SLOT_SIZE = 256, 64  # bytes in a keyed-mutex page; a slot begins with {incarnation 16, start 26, pid 22}


def opened(surface: vks.Surface, device: Any) -> Any:
    """A handle on another device."""
    with surface.export() as descriptor:
        return device.open_surface(descriptor)


# ---- keyed mutex -------------------------------------------------------------------------------------------------


@pytest.mark.rule("K12")
def test_wake_ups_by_newcomers_do_not_restart_a_deadline(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)
    other = opened(surface, two)
    surface.acquire(0, 0)
    start = time.monotonic()
    call = later(other.acquire, 5, 0.3)
    with surface.export() as descriptor:
        while not call.done(0.01) and time.monotonic() - start < HANG:
            one.open_surface(descriptor).close()  # wakes every sleeper: there is one more to watch, and one less
    assert call.done(), "each newcomer restarted it"
    with pytest.raises(AcquireTimeout):
        call.result()


@pytest.mark.rule("K25")
def test_past_the_bound_a_held_submission_that_brings_what_others_wait_for_is_taken(vks_open: Open) -> None:
    device = vks_open(held_limit=4)
    start, gate = device.create_fence(), device.create_fence()
    held = [device.submit(waits=(gate, 1)) for _ in range(4)]
    brings = later(device.submit, waits=(start, 1), signals=(gate, 1))
    assert brings.result(5).is_held  # or nothing would ever run again
    start.signal(1)
    for submission in held:
        submission.wait(5)
    assert gate.value == 1


@pytest.mark.rule("K27", "K18")
def test_recover_waits_until_no_living_party_owes_work(vks_open: Open) -> None:
    devices = [vks_open() for _ in range(3)]
    a = devices[0].create_surface(16, 16)
    b, c = (opened(a, device) for device in devices[1:])
    gate = devices[0].create_fence()
    a.acquire(0, 0)
    drawn = access_patterns.fill_column(a, 3, 50, waits=(gate, 1))
    a.release(1)  # its work is held, and it lives
    b.acquire(1, 5)
    b.close()
    with pytest.raises(AbandonedError):
        c.acquire(1, 0)
    with pytest.raises(TimeoutError):
        c.recover(0.05)
    assert not c.is_owned
    with pytest.raises(AbandonedError):
        c.acquire(1, 0)
    recovers = later(c.recover, 10)
    assert not recovers.done(0.05)
    gate.signal(1)
    recovers.result(10)
    assert drawn.is_done()
    assert (c.read()[:, 3, 0] == 50).all()
    access_patterns.clear(c, 7).wait(5)
    assert access_patterns.is_clear(c.read(), 7)


@pytest.mark.rule("K33")
def test_ps_names_the_owner_that_is_neither_the_maker_nor_the_first(vks_open: Open, peers: Peers) -> None:
    surface = vks_open(name="maker").create_surface(24, 10)
    idler, owner = peers(name="idler"), peers(name="the owner")
    opened(surface, idler.device)
    theirs = opened(surface, owner.device)
    theirs.acquire(0, 0)
    done = subprocess.run([sys.executable, "-m", "vkshare", "ps", "--json"], capture_output=True, text=True, check=True)
    (told,) = (s for s in json.loads(done.stdout)["surfaces"] if os.getpid() in s["processes"] and s["width"] == 24)
    assert (told["state"], told["owner"]["pid"], told["owner"]["device"]) == ("owned", owner.pid, "the owner")
    theirs.release(0)


@pytest.mark.rule("K9")
def test_who_waits_hears_of_the_death_of_an_owner_that_came_after_it(vks_open: Open, peers: Peers) -> None:
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


@pytest.mark.rule("K28", "X8")
@pytest.mark.parametrize("what", ["surface", "fence"])
def test_a_signal_that_comes_before_the_wait_has_gone_to_sleep_is_heard_too(vks_open: Open, what: str) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    one, two = vks_open(), vks_open()
    surface, fence = one.create_surface(8, 8), one.create_fence()
    other = opened(surface, two)
    surface.acquire(0, 0)
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for turn in range(16):  # a waiter spins for some 50 us, where no system call could be interrupted
            with pytest.raises(Interrupted):  # noqa: PT012
                signal.setitimer(signal.ITIMER_REAL, (20 + 8 * turn) * 1e-6)
                other.acquire(1, HANG) if what == "surface" else fence.wait(1, HANG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert not other.is_owned
    surface.release(1)
    other.acquire(1, 5)


@pytest.mark.rule("X19", "K9")
def test_an_owner_whose_pid_belongs_to_another_process_by_now_is_dead(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(8, 8)
    peer = peers()
    theirs = opened(surface, peer.device)
    theirs.acquire(0, 0)
    with surface.export() as descriptor:
        page = descriptor._fds[1]
        for place in range(4):
            at = PAGE_SLOTS + place * SLOT_SIZE
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
