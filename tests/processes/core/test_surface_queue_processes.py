"""Surface queues between processes: descriptors, ends in other processes, and what is left when one is killed."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns, queue_ends
from support.peer_processes import Peer, later
from support.queue_ends import Loop, look, send
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import wait_until
from support.time_limits import Measured

import vkshare as vks
from vkshare.errors import (
    AbandonedError,
    AcquireTimeout,
    ClosedError,
    DescriptorError,
    InvalidCallError,
)
from vkshare.ipc.queue_descriptor import QueueDescriptor

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [unhurried, pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]
LIMIT = 0.2  # seconds from a death until who waits is told (rule Q18)


# ---- descriptors -----------------------------------------------------------------------------------------------------


def opened_from(data: bytes, fds: list[int], device: vks.Device) -> vks.SurfaceQueue:
    with QueueDescriptor.from_bytes(data, fds) as descriptor:
        return vks.SurfaceQueue.open(device, descriptor)


@pytest.mark.rule("Q3", "Q7")
def test_a_descriptor_opened_in_the_same_process_means_the_same_surfaces(vks_open: Open) -> None:
    maker, viewer = vks_open(), vks_open()
    with vks.SurfaceQueue(maker, 8, 8) as root, root.clone(metadata_size=8) as clone:
        with clone.export() as descriptor:
            assert repr(descriptor) == "<vkshare.QueueDescriptor 3 surfaces>"
            theirs = vks.SurfaceQueue.open(viewer, descriptor)
        out, free = theirs.open_producer(maker), root.open_consumer(maker)
        seen, back = clone.open_consumer(viewer), root.open_producer(viewer)
        surface, _ = free.dequeue(0)
        access_patterns.clear(surface, 5)
        out.enqueue(surface, b"x")
        surface, metadata = seen.dequeue(0)
        assert metadata == b"x"
        assert look(surface, 5)
        back.enqueue(surface)
        theirs.close()
        assert not surface.is_closed


def test_a_descriptor_is_plain_data_and_refused_where_it_is_wrong(vks_open: Open) -> None:
    device = vks_open()
    with vks.SurfaceQueue(device, 8, 8, count=2) as root, root.export() as descriptor:
        data, fds = descriptor.to_bytes(), descriptor._unused_fds()
        opened = access_patterns.open_fds()

        def made(data: bytes, fds: tuple[int, ...]) -> None:
            QueueDescriptor.from_bytes(data, [os.dup(fd) for fd in fds]).close()

        made(data, fds)
        wrong: list[tuple[bytes, tuple[int, ...]]] = [
            (data[:-1], fds),
            (data + b"\0", fds),
            (data, fds[:-1]),
            (data, (*fds, fds[0])),
            (b"x" + data[1:], fds),
        ]
        for place in range(28, 40):  # queues, surfaces, fds of each
            wrong.append((data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :], fds))
        for bad_data, bad_fds in wrong:
            with pytest.raises(DescriptorError):
                made(bad_data, bad_fds)
        with pytest.raises(DescriptorError):  # what is in the pages is looked at when they are opened
            opened_from(data, [os.dup(fd) for fd in (*fds[1:], fds[0])], device)
        assert access_patterns.open_fds() == opened
        for thing in (root, data, None):
            with pytest.raises(TypeError, match="QueueDescriptor"):
                vks.SurfaceQueue.open(device, thing)  # type: ignore[arg-type]


def test_mutated_descriptors_are_opened_or_refused_and_nothing_leaks(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    dice = seeded()
    with vks.SurfaceQueue(device, 8, 8, count=2, metadata_size=8) as root, root.export() as descriptor:
        data, fds = descriptor.to_bytes(), descriptor._unused_fds()
        vks.SurfaceQueue.open(other, descriptor).close()
        other._reap()
        gc.collect()
        opened = access_patterns.open_fds()
        for _ in range(rounds(100_000, 150)):
            changed = bytearray(data)
            for _ in range(dice.randrange(1, 4)):
                changed[dice.randrange(len(changed))] = dice.randrange(256)
            order = list(fds)
            if dice.random() < 0.3:
                one, two = dice.randrange(len(order)), dice.randrange(len(order))
                order[one], order[two] = order[two], order[one]
            try:
                with QueueDescriptor.from_bytes(bytes(changed), [os.dup(fd) for fd in order]) as mutated:
                    vks.SurfaceQueue.open(other, mutated).close()
            except (DescriptorError, vks.DeviceMismatchError, vks.UnsupportedError, InvalidCallError, vks.VulkanError):
                pass
        other.wait_idle(10)
        other._reap()
        gc.collect()
        assert access_patterns.open_fds() <= opened


@pytest.mark.rule("Q6")
def test_a_page_that_somebody_wrote_over_is_refused_and_crashes_nobody(vks_open: Open) -> None:
    import mmap

    dice = seeded()
    devices = vks_open(), vks_open()
    for _ in range(rounds(10_000, 60)):
        with Loop(*devices, count=3, clone_metadata=16) as loop:
            with loop.clone.export() as descriptor:
                page = descriptor._open_pages()[0]
            with mmap.mmap(page, 4096) as memory:
                send(loop, 1, b"x")
                for _ in range(dice.randrange(1, 30)):
                    memory[dice.randrange(128, 640)] = dice.randrange(256)
                for _ in range(5):
                    try:
                        surface, _ = loop.seen.dequeue(0)
                        loop.back.enqueue(surface)
                    except (DescriptorError, AcquireTimeout, InvalidCallError, AbandonedError, ClosedError):
                        pass
                    try:
                        surface, _ = loop.free.dequeue(0)
                        loop.out.enqueue(surface, b"x" * 16, wait=bool(dice.randrange(2)))
                        loop.out.flush(wait=False)
                    except (DescriptorError, AcquireTimeout, InvalidCallError, ClosedError, vks.StillDrawingError):
                        pass
                    repr(loop.out), loop.clone.statistics()
            os.close(page)


@pytest.mark.rule("Q6")
def test_a_value_that_nobody_promised_is_refused_and_not_waited_for(vks_open: Open) -> None:
    import mmap

    devices, reported = (vks_open(), vks_open()), []
    for word in range(128, 640, 8):  # one of them is the value that the pending pair's surface comes with
        gate = devices[0].create_fence()
        with Loop(*devices, count=3, clone_metadata=16) as loop:
            surface, _ = loop.free.dequeue(0)
            access_patterns.clear(surface, 1, waits=(gate, 1))
            loop.out.enqueue(surface, wait=False)
            with loop.clone.export() as descriptor:
                page = descriptor._open_pages()[0]
            with mmap.mmap(page, 4096) as memory:
                memory[word : word + 8] = (1 << 40).to_bytes(8, "little")
            os.close(page)
            gate.signal(1)
            try:
                loop.out.flush()
            except (DescriptorError, InvalidCallError, ClosedError) as error:
                reported.append(str(error))
        gate.close()
    assert [text for text in reported if "is its newest" in text]


# ---- ends in other processes -----------------------------------------------------------------------------------------


@pytest.mark.rule("Q4", "Q7")
def test_an_end_is_open_once_over_all_processes(vks_open: Open, peers: Peers) -> None:
    peer = peers()
    with Loop(vks_open(), peer.device) as loop:
        theirs = queue_ends.queue_at(peer.device, loop.clone)
        with pytest.raises(InvalidCallError, match="open already"):
            theirs.open_producer(peer.device)
        with pytest.raises(InvalidCallError, match="open already"):
            loop.clone.open_consumer(loop.free.device)
        send(loop, 3, b"three")
        surface, metadata = loop.seen.dequeue(5)
        assert metadata == b"three"
        assert peer.run(look, surface, 3)
        loop.seen.close()
        here = loop.clone.open_consumer(loop.free.device)
        send(loop, 4)
        assert look(here.dequeue(5)[0], 4)


@pytest.mark.rule("Q21", "Q9")
@pytest.mark.parametrize("processes", [2, 3, 4])
def test_a_process_each_in_a_loop(vks_open: Open, peers: Peers, processes: int) -> None:
    """The first draws, each one looks and draws over it, and the first looks at what comes back."""
    frames = rounds(10_000, 40)
    others = [peers() for _ in range(processes - 1)]
    devices = [vks_open(), *(peer.device for peer in others)]
    root = vks.SurfaceQueue(devices[0], 16, 12, metadata_size=24)
    between = [root.clone(24) for _ in range(processes)]  # from device i to the next; the last comes back
    free, first = root.open_consumer(devices[0]), between[0].open_producer(devices[0])
    back = root.open_producer(devices[0])
    ends = [
        (queue_ends.consumer_of(between[i], devices[i + 1]), queue_ends.producer_of(between[i + 1], devices[i + 1]))
        for i in range(processes - 1)
    ]
    last = between[-1].open_consumer(devices[0])
    works = [
        peer.later(_relay, peer.device, source, target, place, frames, processes)
        for place, (peer, (source, target)) in enumerate(zip(others, ends, strict=True))
    ]

    def draw() -> None:
        for number in range(frames):
            surface, _ = free.dequeue(60)
            access_patterns.clear(surface, number * processes)
            first.enqueue(surface, b"frame %d" % number, "gpu")

    draws = later(draw)
    for number in range(frames):
        surface, metadata = last.dequeue(60)
        assert metadata == b"frame %d" % number
        assert look(surface, number * processes + processes - 1)
        back.enqueue(surface, wait="gpu")
    draws.result(60)
    assert [work.result(60) for work in works] == [frames] * (processes - 1)
    root.close()
    for queue in between:
        queue.close()


def _relay(device: Any, source: Any, target: Any, place: int, frames: int, processes: int) -> int:
    """Looks, draws over it, passes on; how many were right."""
    right = 0
    for number in range(frames):
        surface, metadata = source.dequeue(60)
        right += metadata == b"frame %d" % number and look(surface, number * processes + place)
        access_patterns.clear(surface, number * processes + place + 1)
        target.enqueue(surface, metadata, (True, "gpu")[number % 2])
    return right


# ---- deaths ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q18", "Q4")
@pytest.mark.serial
def test_a_dead_producer_wakes_the_consumer_within_200_ms(vks_open: Open, peers: Peers, measured: Measured) -> None:
    def kill() -> float:
        peer = peers()
        with vks.SurfaceQueue(vks_open(), 8, 8) as root, root.clone() as clone:
            device = root.device
            out = queue_ends.producer_of(clone, peer.device)
            seen = clone.open_consumer(device)
            assert not out.is_closed
            dequeues = later(seen.dequeue)
            assert not dequeues.done(0.02)
            start = peer.kill()
            with pytest.raises(ClosedError):
                dequeues.result(5)
            took = time.monotonic() - start
            again = clone.open_producer(device)  # a dead process's end counts as closed
            assert not again.is_closed
        peer.end()
        return took

    for _ in range(rounds(200, 5)):
        measured(kill, LIMIT)


@pytest.mark.rule("Q18")
def test_what_a_dead_consumer_held_comes_back_and_another_takes_its_place(vks_open: Open, peers: Peers) -> None:
    peer, next_one = peers(), peers()
    with Loop(vks_open(), peer.device) as loop:
        for number in range(3):
            send(loop, number, b"%d" % number)
        loop.seen.dequeue(5)
        loop.seen.dequeue(5)
        peer.kill()
        wait_until(lambda: loop.clone.statistics().consumer_pid == 0)
        with pytest.raises(ClosedError):
            loop.free.dequeue(1)
        recovered = loop.free.recover(5)
        assert len(recovered) == 2
        with pytest.raises(ClosedError, match="consumer is gone"):
            loop.out.enqueue(recovered[0])
        seen, back = (
            queue_ends.consumer_of(loop.clone, next_one.device),
            queue_ends.producer_of(loop.root, next_one.device),
        )
        surface, metadata = seen.dequeue(5)  # what was in the queue is there still
        assert metadata == b"2"
        assert next_one.run(look, surface, 2)
        back.enqueue(surface)
        for number, mine in enumerate(recovered):
            access_patterns.clear(mine, 50 + number)
            loop.out.enqueue(mine)
            surface, _ = seen.dequeue(5)
            assert next_one.run(look, surface, 50 + number)


@pytest.mark.rule("Q18", "Q16")
@pytest.mark.parametrize("role", ["maker", "relay", "viewer"])
def test_a_process_killed_at_a_random_moment_loses_no_surface(vks_open: Open, peers: Peers, role: str) -> None:
    """Whoever dies in whatever call, the survivors have all surfaces afterwards, and only whole frames."""
    dice = seeded()
    device = vks_open()
    for _ in range(rounds(200, 3)):
        victim = peers(validation=False)
        with vks.SurfaceQueue(device, 8, 8, count=4, metadata_size=24) as root, root.clone(24) as clone:
            if role == "maker":
                free, out = queue_ends.consumer_of(root, victim.device), queue_ends.producer_of(clone, victim.device)
                back, seen = root.open_producer(device), clone.open_consumer(device)
                victim.later(_make, victim.device, free, out)
            else:
                free, out = root.open_consumer(device), clone.open_producer(device)
                back, seen = queue_ends.producer_of(root, victim.device), queue_ends.consumer_of(clone, victim.device)
                victim.later(_view, seen, back, role == "relay")
            stop = later(_until_gone, device, *((seen, back) if role == "maker" else (free, out)), role == "maker")
            time.sleep(dice.uniform(0.01, 0.06))
            victim.kill()
            stop.result(30)
            taken = _all_surfaces(device, root, clone, seen if role == "maker" else free, role)
            assert len(taken) == 4
        victim.end()


def _make(device: Any, free: Any, out: Any) -> None:
    for number in range(1 << 30):
        surface, _ = free.dequeue(30)
        access_patterns.clear(surface, number)
        out.enqueue(surface, b"%d" % number, (True, False, "gpu")[number % 3])
        if number % 3 == 1:
            out.flush()


def _view(seen: Any, back: Any, draws: bool) -> None:
    while True:
        surface, _ = seen.dequeue(30)
        if draws:
            access_patterns.clear(surface, 1)
        back.enqueue(surface, b"", (True, "gpu")[draws])


def _until_gone(device: Any, source: Any, target: Any, looks: bool) -> None:
    """Passes surfaces on until the other end's process is gone."""
    try:
        for number in range(1 << 30):
            surface, metadata = source.dequeue(30)
            if looks and metadata:
                assert look(surface, int(metadata))
            if not looks:
                access_patterns.clear(surface, number)
            target.enqueue(surface, b"" if looks else b"%d" % number)
    except (ClosedError, AbandonedError):  # the second: its work was to run after the pair was committed
        return


def _all_surfaces(device: Any, root: Any, clone: Any, end: Any, role: str) -> set[int]:
    """Every surface of the network, taken by this device by whatever means there are."""
    spare = []
    for queue in (root, clone):
        for open_end in (queue.open_producer, queue.open_consumer):
            try:
                spare.append(open_end(device))
            except InvalidCallError:
                pass  # it is open here
    consumers = [e for e in (*root._ends, *clone._ends) if isinstance(e, vks.Consumer) and not e.is_closed]
    assert len(consumers) == 2
    deadline = time.monotonic() + 10
    while sum(s.is_owned for s in end.surfaces) < 4 and time.monotonic() < deadline:
        for consumer in consumers:
            try:
                consumer.dequeue(0)
            except (AcquireTimeout, ClosedError, AbandonedError):
                pass
        end.recover(5)
    return {index for index, surface in enumerate(end.surfaces) if surface.is_owned}
