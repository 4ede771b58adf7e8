"""Who may own a surface, between two handles of one device, of two devices, and in two processes."""

from __future__ import annotations

import gc
import itertools
import math
import mmap
import os
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import access_patterns
from support.handle_pairs import Pair
from support.peer_processes import later
from support.shared_handles import followed, opened, wait_until

import vkshare as vks
from vkshare.errors import (
    AbandonedError,
    AcquireTimeout,
    ClosedError,
    DescriptorError,
    InvalidCallError,
    NotOwnerError,
)
from vkshare.util.library_calls import lib

pytest_plugins = ["support.peer_processes", "support.handle_pairs"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]
TOP = 2**64 - 1


# ---- acquiring and releasing ---------------------------------------------------------------------------------------


@pytest.mark.rule("K1", "K5")
def test_nobody_owns_a_fresh_surface_so_releasing_it_is_refused(pair: Pair) -> None:
    for handle in (pair.a, pair.b):
        for key in (0, 1, TOP):
            with pytest.raises(InvalidCallError):
                handle.release(key)
        assert not handle.is_owned
    assert pair.a.mutex.statistics().key == 0
    pair.b.acquire(0, 0)


@pytest.mark.rule("K2", "K12")
def test_a_fresh_surface_is_acquired_by_key_0_only(pair: Pair) -> None:
    for handle in (pair.a, pair.b):
        for key in (1, 2, TOP):
            with pytest.raises(AcquireTimeout):
                handle.acquire(key, 0)
            assert not handle.is_owned
    pair.b.acquire(0, 0)
    assert pair.b.is_owned
    assert not pair.a.is_owned


@pytest.mark.rule("K3")
def test_an_owner_that_acquires_again_is_refused_at_once_whatever_the_timeout(pair: Pair) -> None:
    for handle in (pair.a, pair.b):
        handle.acquire(0, 0)
        for key, timeout in itertools.product((0, 1), (0, 0.5, 30, None)):
            with pytest.raises(InvalidCallError):
                handle.acquire(key, timeout)
        assert handle.is_owned
        handle.release(0)


@pytest.mark.rule("K4")
def test_the_key_of_the_last_release_and_no_other_admits(pair: Pair) -> None:
    for handle in (pair.a, pair.b):
        handle.acquire(0, 0)
        handle.release(0)
        handle.acquire(0, 0)
        handle.release(1)
        for key in (0, 2):
            with pytest.raises(AcquireTimeout):
                handle.acquire(key, 0)
        handle.acquire(1, 0)
        handle.release(0)


@pytest.mark.rule("K5", "K29")
def test_while_one_owns_the_other_can_neither_acquire_nor_release(pair: Pair) -> None:
    pair.a.acquire(0, 0)
    for key in (0, 1):
        with pytest.raises(AcquireTimeout):
            pair.b.acquire(key, 0)
        with pytest.raises(AcquireTimeout):
            pair.b.acquire(key, 0.01)
        with pytest.raises(NotOwnerError):
            pair.b.release(key)
    assert pair.a.is_owned
    assert not pair.b.is_owned
    pair.a.release(0)
    with pytest.raises(NotOwnerError):
        pair.a.release(0)


@pytest.mark.rule("K6")
def test_a_surface_goes_to_and_fro_on_key_0(pair: Pair) -> None:
    for _ in range(50):
        for handle in (pair.a, pair.b):
            handle.acquire(0, 0)
            handle.release(0)


@pytest.mark.rule("K16")
def test_the_value_beside_the_keys_grows_by_one_at_each_hand_over_whatever_the_keys(pair: Pair) -> None:
    key = 0
    before = pair.a.mutex.statistics().value
    for turn, following in enumerate((5, 5, 3, TOP, 0, 0, 1 << 40, 7)):
        handle = (pair.a, pair.b)[turn % 2]
        handle.acquire(key, 5)
        if turn % 3 == 0:
            access_patterns.clear(handle, turn) if handle is pair.a else access_patterns.draw(handle, turn)
        handle.release(following)
        reported = pair.a.mutex.statistics()
        assert reported.key == following
        # A handle that reads by a copy, and then writes, announces a value for either, as a mirror of this kind does.
        assert reported.value == before + 1 or (pair.copies_by_cpu and reported.value == before + 2)
        key, before = following, reported.value


@pytest.mark.rule("K14")
def test_every_bit_of_a_key_counts(pair: Pair) -> None:
    keys = [0, TOP, *(1 << bit for bit in range(64))]
    last = 0
    for turn, key in enumerate(keys):
        giver, taker = (pair.a, pair.b) if turn % 2 else (pair.b, pair.a)
        giver.acquire(last, 0)
        giver.release(key)
        for wrong in {key ^ 1, key ^ 1 << 32, key ^ 1 << 63, ~key & TOP, key & 0xFFFFFFFF, key >> 32} - {key}:
            with pytest.raises(AcquireTimeout):
                taker.acquire(wrong, 0)
        taker.acquire(key, 0)
        taker.release(key)
        last = key


@pytest.mark.rule("K14")
def test_a_key_that_is_no_64_bit_number_is_refused_and_changes_nothing(pair: Pair) -> None:
    wrong: tuple[tuple[Any, type[Exception]], ...] = (
        *((number, ValueError) for number in (-1, 2**64, 2**64 + 1, -(2**64))),
        *((thing, TypeError) for thing in (1.0, "1", None, b"\1")),
    )
    for handle, (key, error) in itertools.product((pair.a, pair.b), wrong):
        for timeout in (0, None):
            with pytest.raises(error, match="key"):
                handle.acquire(key, timeout)
        handle.acquire(0, 0)
        with pytest.raises(error, match="key"):
            handle.release(key)
        assert handle.is_owned
        handle.release(0)


@pytest.mark.rule("K13")
def test_a_timeout_that_is_no_duration_is_refused_and_changes_nothing(pair: Pair) -> None:
    wrong = ((-1, ValueError), (-1e-9, ValueError), (-math.inf, ValueError), (math.nan, ValueError), ("1", TypeError))
    for handle, (timeout, error) in itertools.product((pair.a, pair.b), wrong):
        with pytest.raises(error, match="timeout"):
            handle.acquire(0, timeout)
        assert not handle.is_owned
        handle.acquire(0, 0)
        handle.release(0)


# ---- ownership is the handle's -----------------------------------------------------------------------------------


@pytest.mark.rule("K19")
def test_one_thread_may_acquire_and_another_release_and_a_threads_end_abandons_nothing(pair: Pair) -> None:
    taker = threading.Thread(target=pair.a.acquire, args=(0, 0))
    taker.start()
    taker.join()
    gc.collect()
    assert pair.a.is_owned
    with pytest.raises(AcquireTimeout):
        pair.b.acquire(0, 0.02)
    giver = threading.Thread(target=pair.a.release, args=(1,))
    giver.start()
    giver.join()
    pair.b.acquire(1, 5)


@pytest.mark.rule("K30")
def test_next_key_gives_all_handles_one_sequence(pair: Pair) -> None:
    first = pair.a.mutex.next_key()
    assert [pair.b._next_key(), pair.a.mutex.next_key(), pair.b._next_key()] == [first + 1, first + 2, first + 3]


def test_the_mutex_of_a_closed_handle_gives_neither_keys_nor_statistics(pair: Pair) -> None:
    mutex = pair.a.mutex
    pair.a.close()
    for use in (mutex.next_key, mutex.statistics):
        with pytest.raises(ClosedError, match="closed"):
            use()
    assert repr(mutex) == "<vkshare.KeyedMutex closed>"
    assert pair.b.mutex.next_key() == 1


@pytest.mark.rule("K33")
def test_a_lock_that_was_written_over_is_told_as_invalid(pair: Pair) -> None:
    with pair.a.export() as descriptor, mmap.mmap(descriptor._fds[1], 4096) as page:
        page[64] |= 3  # the lock's word: its lowest two bits are the state
        assert pair.a.mutex.statistics().state == "invalid"
        assert "invalid" in repr(pair.a.mutex)
        page[64] &= ~3
        assert pair.a.mutex.statistics().state == "free"


# ---- closing and abandonment ---------------------------------------------------------------------------------------


@pytest.mark.rule("K7", "K29")
@pytest.mark.parametrize("what", ["handle", "device"])
def test_an_owner_that_closes_abandons_the_surface_until_somebody_recovers_it(pair: Pair, what: str) -> None:
    if what == "device" and pair.way == "one device":
        third = pair.b = pair.another()
        pair.b.acquire(0, 0)
        pair.b.close()
        third = pair.another()
    else:
        third = pair.another()
        pair.a.acquire(0, 0)
        (pair.a if what == "handle" else pair.device_a).close()
    survivor = pair.a if not pair.a.is_closed else pair.b
    for handle in (survivor, third, survivor):
        for key, timeout in ((0, 0), (1, 0.5), (0, None)):
            with pytest.raises(AbandonedError):
                handle.acquire(key, timeout)
        with pytest.raises(InvalidCallError):
            handle.release(0)
        assert not handle.is_owned
    third.recover()
    third.release(3)
    with pytest.raises(AbandonedError):
        survivor.acquire(3, 0)
    survivor.acquire(3, 0)


@pytest.mark.rule("K7")
def test_closing_a_handle_that_does_not_own_changes_nothing(pair: Pair) -> None:
    third = pair.another()
    pair.a.acquire(0, 0)
    third.close()
    assert pair.a.is_owned
    pair.a.release(4)
    pair.b.acquire(4, 0)
    pair.a.close()
    pair.b.release(0)
    pair.b.acquire(0, 0)


@pytest.mark.rule("K27")
def test_recover_is_for_abandoned_surfaces_only(pair: Pair) -> None:
    generation = pair.b.generation
    for handle in (pair.a, pair.b):
        with pytest.raises(InvalidCallError, match="abandoned"):
            handle.recover()
    pair.a.acquire(0, 0)
    for handle in (pair.a, pair.b):
        with pytest.raises(InvalidCallError):
            handle.recover()
    assert pair.a.is_owned
    assert pair.b.generation == generation
    pair.a.release(0)
    pair.b.acquire(0, 0)


@pytest.mark.rule("K27")
def test_recover_starts_a_generation_that_each_other_handle_is_told_of_once(pair: Pair) -> None:
    third = pair.another()
    lost = pair.another()
    lost.acquire(0, 0)
    generation = pair.b.generation
    lost.close()
    pair.b.recover()
    assert pair.b.is_owned
    assert pair.b.generation == generation + 1
    fresh = pair.another()
    assert fresh.generation == generation + 1
    with pytest.raises(InvalidCallError):
        third.recover()
    access_patterns.draw(pair.b, 5)
    pair.b.release(9)
    with pytest.raises(AbandonedError):
        third.acquire(9, 5)
    third.acquire(9, 0)
    assert third.generation == generation + 1
    assert (third.read() == access_patterns.picture((16, 16, 4), 5)).all()
    third.release(2)
    fresh.acquire(2, 0)
    fresh.release(0)
    pair.b.acquire(0, 0)
    pair.b.release(0)
    with pytest.raises(AbandonedError):
        pair.a.acquire(0, 0)
    pair.a.acquire(0, 0)


@pytest.mark.rule("K27", "K25")
def test_while_a_handle_recovers_it_can_open_no_other_tenure_and_one_queued_before_fails(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    theirs = other.create_surface(8, 8)
    mine, third = opened(theirs, device), opened(theirs, device)
    gate = device.create_fence()
    theirs.acquire(0, 0)
    access_patterns.clear(theirs, 1, waits=(followed(gate, other), 1))
    theirs.release(1)  # its work is still to come: recover() waits for that
    third.acquire(1, 5)
    mine.acquire(2, mode="gpu")
    third.close()
    recovers = later(mine.recover, 5)
    wait_until(lambda: mine.mutex.statistics().state == "owned")
    for attempt in (lambda: mine.acquire(0, 0), lambda: mine.acquire(0, mode="gpu"), lambda: mine.recover(0)):
        with pytest.raises(InvalidCallError):
            attempt()
    gate.signal(1)
    recovers.result(5)
    assert mine.is_owned
    mine.release(0)


@pytest.mark.rule("K27")
def test_of_many_that_recover_at_once_one_owns(vks_open: Open) -> None:
    maker, device = vks_open(), vks_open()
    surface = maker.create_surface(8, 8)
    handles = [opened(surface, device) for _ in range(6)]
    surface.acquire()
    surface.close()
    outcomes: list[str] = []

    def recover(handle: vks.Surface) -> None:
        try:
            handle.recover(5)
            outcomes.append("owned")
        except InvalidCallError:
            outcomes.append("refused")

    threads = [threading.Thread(target=recover, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["owned"] + ["refused"] * 5
    assert [handle.is_owned for handle in handles].count(True) == 1


@pytest.mark.rule("K20")
def test_close_is_idempotent_and_the_pixels_live_as_long_as_any_handle(pair: Pair) -> None:
    pair.a.acquire(0, 0)
    access_patterns.draw(pair.a, 3)
    pair.a.release(1)
    pair.a.close()
    pair.a.close()
    assert pair.a.is_closed
    for use in (lambda: pair.a.acquire(1, 0), lambda: pair.a.release(1), pair.a.recover, pair.a.read, pair.a.export):
        with pytest.raises(ClosedError):
            use()
    pair.b.acquire(1, 0)
    assert (pair.b.read() == access_patterns.picture((16, 16, 4), 3)).all()
    pair.b.release(0)


@pytest.mark.rule("K20")
def test_a_descriptor_opened_after_the_last_handle_is_gone_is_refused(pair: Pair) -> None:
    descriptor = pair.a.export()
    pair.a.close()
    late = pair.device_a.open_surface(descriptor)  # b is still there
    late.close()
    pair.b.close()
    for opens in (pair.device_a.open_surface, pair.open_at_b):
        with pytest.raises(DescriptorError):
            opens(descriptor)
    descriptor.close()


# ---- using without owning --------------------------------------------------------------------------------------------


@pytest.mark.rule("K21")
def test_every_use_of_the_contents_without_owning_is_refused(pair: Pair) -> None:
    pair.b.acquire(0, 0)
    surface, device, fence = pair.a, pair.device_a, pair.device_a.create_fence()
    own = device.create_surface(16, 16)
    own.acquire()
    writes = device.record().clear(surface, (1, 1, 1, 1))
    reads = device.record().copy(surface, own)
    for use in (
        surface.read,
        lambda: surface.write(np.zeros((16, 16, 4), np.uint8)),
        lambda: device.submit(writes, signals=fence),
        lambda: device.submit(reads, signals=fence),
    ):
        with pytest.raises(NotOwnerError, match=r"with surface\.access\("):
            use()
    assert fence.queued_value == 0
    pair.b.release(0)
    with surface.access() as view:
        assert view.shape == (16, 16, 4)
    for use in (lambda: view.array, lambda: np.asarray(view), lambda: view.image, lambda: view.shape):
        with pytest.raises(InvalidCallError):
            use()


@pytest.mark.rule("K21")
def test_submissions_to_an_unowned_surface_that_discards_vanish_and_their_signals_come(vks_open: Open) -> None:
    device = vks_open()
    surface, own = device.create_surface(16, 16, unowned="discard"), device.create_surface(16, 16)
    surface.acquire()
    access_patterns.draw(surface, 1)
    surface.release(0)
    own.acquire()
    access_patterns.draw(own, 2)
    fence = device.create_fence()
    device.submit(device.record().clear(surface, (1, 1, 1, 1)), signals=fence)
    device.submit(device.record().copy(surface, own), signals=fence)
    fence.wait(2, 5)
    assert not own.read().any()
    surface.acquire(0, 0)
    assert access_patterns.is_picture(surface, 1)


@pytest.mark.rule("K21", "K25")
def test_work_for_a_turn_that_is_queued_is_held_and_not_discarded(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    surface = device.create_surface(16, 16, unowned="discard")
    theirs = opened(surface, other)
    theirs.acquire(0, 5)
    surface.acquire(1, mode="gpu")
    queued = device.submit(device.record().clear(surface, (0, 1, 0, 1)))
    surface.release(2)
    unowned = device.submit(device.record().clear(surface, (1, 0, 0, 1)))  # the turn is over: this one vanishes
    assert queued.is_held
    unowned.wait(5)
    theirs.release(1)
    queued.wait(5)
    theirs.acquire(2, 5)
    assert (theirs.read() == (0, 255, 0, 255)).all()


@pytest.mark.rule("K32")
def test_a_page_of_another_layout_version_is_refused_and_both_versions_are_named(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)
    with surface.export() as descriptor:
        page = descriptor._fds[1]
        magic_and_version = os.pread(page, 16, 0)
        ours = lib.VKS_LAYOUT_VERSION
        at = magic_and_version.index(struct.pack("<I", ours))
        os.pwrite(page, struct.pack("<I", 77), at)
        with pytest.raises(DescriptorError, match=rf"(?s)77.*\b{ours}\b|\b{ours}\b.*77"):
            two.open_surface(descriptor)
        os.pwrite(page, struct.pack("<I", ours), at)
        two.open_surface(descriptor).acquire(0, 0)
