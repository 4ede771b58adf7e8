"""What an owner finds in a surface: all that the owner before it did, by the CPU or the GPU, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from support import access_patterns
from support.handle_pairs import Pair
from support.peer_processes import Peer, later
from support.queue_faults import FaultyQueue, has_queue
from support.run_volumes import rounds, unhurried
from support.shared_handles import opened, where

import vkshare as vks
from vkshare.errors import AbandonedError, AcquireTimeout, InvalidCallError, NotOwnerError, VulkanError

pytest_plugins = ["support.peer_processes", "support.handle_pairs"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"), unhurried]

Open = Callable[..., vks.Device]


# ---- the same bytes ------------------------------------------------------------------------------------------------


@pytest.mark.rule("K17")
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_what_one_writes_by_cpu_or_gpu_the_other_reads_and_back(
    vks_open: Open, peers: Callable[..., Peer], tiling: str
) -> None:
    device = vks_open()
    if tiling not in device.capabilities.tilings:
        pytest.skip(f"{device.adapter.name} has no {tiling} surfaces that can be shared")
    mine = device.create_surface(37, 19, tiling=tiling)
    for theirs in (opened(mine, vks_open()), opened(mine, peers().device)):
        for turn in range(8):
            writer, reader = (mine, theirs) if turn % 2 else (theirs, mine)
            writer.acquire(0, 5)
            where(writer)(access_patterns.draw if turn % 4 < 2 else access_patterns.clear_and_forget, writer, turn)
            writer.release(0)
            reader.acquire(0, 5)
            pixels = reader.read()
            reader.release(0)
            if turn % 4 < 2:
                assert (pixels == access_patterns.picture(pixels.shape, turn)).all()
            else:
                assert access_patterns.is_clear(pixels, turn)


@pytest.mark.rule("K17")
def test_bytes_written_through_a_view_need_no_flush(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    mine = one.create_surface(64, 48)
    if not mine.is_host_visible:
        pytest.skip("the CPU cannot see this adapter's surfaces")
    theirs = opened(mine, two)
    for turn in range(10):
        writer, reader = (mine, theirs) if turn % 2 else (theirs, mine)
        with writer.access() as view:
            view.array[:] = access_patterns.picture(view.shape, turn)
        with reader.access(writable=False) as view:
            assert (view.array == access_patterns.picture(view.shape, turn)).all()


# ---- work that still runs at the hand-over ---------------------------------------------------------------------------


@pytest.mark.rule("K18", "X4")
def test_release_does_not_wait_for_work_and_the_next_owners_work_runs_after_it(pair: Pair) -> None:
    if pair.copies_by_cpu:
        pytest.skip("the CPU copies this mirror's pixels: its acquire waits for the work on them")
    gate = pair.device_a.create_fence()
    pair.a.acquire(0, 0)
    access_patterns.draw(pair.a, 1)
    access_patterns.clear(pair.a, 70, waits=(gate, 1))
    pair.a.release(1)
    pair.b.acquire(1, 5)  # its owner has released, though its work has not run
    assert pair.b.is_owned
    own = pair.device_b.create_surface(16, 16)
    own.acquire(0, 0)
    copied = where(pair.b)(access_patterns.copy, pair.b, own)
    assert not copied.is_done()
    reading = later(pair.b.read)  # the CPU's view waits for the work
    assert not reading.done(0.1)
    gate.signal(1)
    assert access_patterns.is_clear(reading.result(10), 70)
    copied.wait(10)
    assert access_patterns.is_clear(own.read(), 70)
    pair.b.release(0)


@pytest.mark.rule("K18")
def test_a_chain_of_owners_whose_work_waits_for_one_gate_runs_in_their_order(vks_open: Open) -> None:
    devices = [vks_open() for _ in range(3)]
    surfaces = [devices[0].create_surface(16, 16)]
    surfaces += [opened(surfaces[0], device) for device in devices[1:]]
    gate = devices[0].create_fence()
    for turn in range(9):
        surface = surfaces[turn % 3]
        surface.acquire(turn, 5)
        access_patterns.fill_column(surface, turn, turn + 1, waits=(gate, 1) if turn == 0 else ())
        access_patterns.fill_column(surface, 15, turn + 1)  # each overwrites it: the last must win
        surface.release(turn + 1)
    surfaces[0].acquire(9, 5)
    assert not gate.is_done(1)
    gate.signal(1)
    pixels = surfaces[0].read()
    assert [pixels[0, turn, 0] for turn in range(9)] == list(range(1, 10))
    assert (pixels[:, 15, 0] == 9).all()


# ---- submissions as units ----------------------------------------------------------------------------------------


@pytest.mark.rule("K22", "K21")
def test_what_was_not_acquired_in_time_executes_nothing_and_signals_nothing(pair: Pair) -> None:
    pair.b.acquire(0, 0)
    where(pair.b)(access_patterns.draw, pair.b, 4)
    fence, device = pair.device_a.create_fence(), pair.device_a
    own = device.create_surface(16, 16)
    own.acquire(0, 0)
    access_patterns.draw(own, 5)
    both = device.record().clear(own, (1, 1, 1, 1)).clear(pair.a, (1, 1, 1, 1))
    before = device.statistics()
    with pytest.raises(AcquireTimeout), pair.a.access(acquire=0, timeout=0.01) as view:
        device.submit(device.record().clear(view, (1, 1, 1, 1)), signals=fence)
    with pytest.raises(NotOwnerError):
        device.submit(both, signals=(fence, 5))
    after = device.statistics()
    assert (after.submitted, after.submissions) == (before.submitted, before.submissions)
    assert (fence.value, fence.queued_value) == (0, 0)
    assert access_patterns.is_picture(own, 5)
    pair.b.release(0)
    pair.a.acquire(0, 0)
    assert access_patterns.is_picture(pair.a, 4)
    device.submit(both, signals=fence).wait(10)
    assert fence.value == 1


@pytest.mark.rule("K22")
def test_what_is_held_behind_an_acquire_that_never_comes_executes_nothing_and_signals_nothing(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(16, 16)
    other = opened(surface, two)
    fence, own = two.create_fence(), two.create_surface(16, 16)
    surface.acquire(0, 0)
    access_patterns.draw(surface, 3)
    own.acquire(0, 0)
    access_patterns.draw(own, 6)
    other.acquire(1, mode="gpu")
    held = two.submit(two.record().clear(own, (1, 1, 1, 1)).clear(other, (1, 1, 1, 1)), signals=fence)
    assert held.is_held
    surface.close()
    with pytest.raises(AbandonedError):
        held.wait(5)
    with pytest.raises(AbandonedError):
        fence.wait(1, 5)
    assert fence.value == 0
    assert not other.is_owned
    other.recover()
    assert access_patterns.is_picture(other, 3)


@pytest.mark.rule("K23")
def test_one_tenure_is_one_acquire_and_one_hand_over_however_its_work_is_split(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(16, 16)
    other = opened(surface, two)
    lists = [
        one.record().clear(surface, access_patterns.colour(n)).fill_rect(surface, (n, 0, 1, 1), (1,) * 4)
        for n in range(6)
    ]
    twice = one.record().clear(surface, (0, 0, 0, 1)).blit(surface, own := one.create_surface(16, 16))
    own.acquire()
    for submissions in ([lists], [[c] for c in lists], [lists[:2], lists[2:], [twice], lists * 2]):
        value, batches = surface.mutex.statistics().value, one._counters()["submitted"]
        surface.acquire(0, 5)
        for commands in submissions:
            one.submit(*commands)
        one.wait_idle(10)
        assert one._counters()["submitted"] == batches + len(submissions)  # the acquire is part of the first
        surface.release(0)
        # One, or two where the first submission was taken for the only one.
        assert surface.mutex.statistics().value - value in (1, 2)
        with pytest.raises(InvalidCallError):
            surface.release(0)
        other.acquire(0, 5)
        other.release(0)


@pytest.mark.rule("K24")
def test_a_release_that_the_driver_refuses_can_be_tried_again_and_signals_once(
    vks_open: Open, vks_adapter: vks.Adapter
) -> None:
    if not has_queue(vks_adapter):
        pytest.skip("the CPU backend's queue cannot refuse work")
    two = vks_open()
    with FaultyQueue(vks_adapter) as (one, queue):
        surface = one.create_surface(16, 16)
        other = opened(surface, two)
        surface.acquire(0, 0)
        access_patterns.clear(surface, 33).wait(10)
        before = surface.mutex.statistics()
        for _ in range(3):
            queue.fail_next()
            with pytest.raises(VulkanError, match="OUT_OF_HOST_MEMORY"):
                surface.release(1)
            assert surface.is_owned
            with pytest.raises(AcquireTimeout):
                other.acquire(1, 0)
            reported = surface.mutex.statistics()
            assert (reported.value, reported.completed) == (before.value, before.completed)
        surface.release(1)
        other.acquire(1, 5)
        assert access_patterns.is_clear(other.read(), 33)
        reported = surface.mutex.statistics()
        assert reported.value == reported.completed == before.value + 1


@pytest.mark.rule("K24")
def test_a_release_with_a_wrong_key_can_be_tried_again_and_counts_once(pair: Pair) -> None:
    pair.a.acquire(0, 0)
    access_patterns.clear(pair.a, 8)
    value = pair.a.mutex.statistics().value
    for key in (-1, 2**64, "1", None):
        with pytest.raises((ValueError, TypeError)):
            pair.a.release(key)
    pair.a.release(2)
    assert pair.a.mutex.statistics().value == value + 1
    pair.b.acquire(2, 5)
    assert access_patterns.is_clear(pair.b.read(), 8)


# ---- three parties in turn ---------------------------------------------------------------------------------------


@pytest.mark.rule("K26", "K17", "K18")
def test_three_devices_hand_a_surface_round_in_strict_order(vks_open: Open) -> None:
    devices = [vks_open(name=f"party {place}") for place in range(3)]
    surfaces = [devices[0].create_surface(33, 9)]
    surfaces += [opened(surfaces[0], device) for device in devices[1:]]
    turns = rounds(10_000, 100)
    calls = [later(access_patterns.ring, surface, place, 3, turns) for place, surface in enumerate(surfaces)]
    assert [call.result(1200) for call in calls] == [turns] * 3
    reported = surfaces[0].mutex.statistics()
    assert reported.key == 0
    assert reported.value >= 3 * turns


@pytest.mark.rule("K26", "K17", "K18")
def test_three_processes_hand_a_surface_round_in_strict_order(
    vks_open: Open, peers: Callable[..., Peer], request: pytest.FixtureRequest
) -> None:
    surface = vks_open().create_surface(33, 9)
    parties = [peers(name=f"party {place}") for place in range(3)]
    theirs = [opened(surface, peer.device) for peer in parties]
    turns = rounds(10_000, 200)
    calls = [
        peer.later(access_patterns.ring, handle, place, 3, turns)
        for place, (peer, handle) in enumerate(zip(parties, theirs, strict=True))
    ]
    assert [call.result(1200) for call in calls] == [turns] * 3
    reported = surface.mutex.statistics()
    assert reported.key == 0
    assert reported.value >= 3 * turns
    surface.acquire(0, 0)
    access_patterns._check_step(surface, 3 * turns - 1)


@pytest.mark.rule("K19", "K17")
def test_work_submitted_by_many_threads_of_one_owner_all_runs_before_the_hand_over(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(16, 16)
    other = opened(surface, two)
    for turn in range(5):
        surface.acquire(0, 5)
        threads = [
            threading.Thread(target=access_patterns.fill_column, args=(surface, column, turn * 16 + column + 1))
            for column in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        surface.release(0)
        other.acquire(0, 5)
        pixels = other.read()
        other.release(0)
        assert (pixels[:, :8, 0] == np.arange(turn * 16 + 1, turn * 16 + 9)).all()
