"""fds by which other event loops wait for a key and for a queue, and the frames of asyncio (rule E9)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns, queue_ends
from support.child_processes import in_child
from support.fd_counts import no_fd_left, open_fds
from support.peer_processes import Peer
from support.readable_fds import await_readable, is_readable
from support.shared_handles import opened

import vkshare as vks
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, DeviceLostError, InvalidCallError

pytest_plugins = ["support.peer_processes"]
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.rule("E9"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]


def two_handles(vks_open: Open) -> tuple[vks.Surface, vks.Surface]:
    surface = vks_open().create_surface(8, 8)
    return surface, opened(surface, vks_open())


# ---- keys of surfaces ------------------------------------------------------------------------------------------------


def test_an_fd_is_readable_while_its_key_is_free(vks_open: Open) -> None:
    surface, other = two_handles(vks_open)
    zero, one = other.acquire_fd(0), other.acquire_fd(1)
    assert is_readable(zero)
    assert not is_readable(one)
    surface.acquire(0)
    with pytest.raises(AcquireTimeout):
        other.acquire(0, timeout=0)
    assert not is_readable(zero)
    surface.release(1)
    await_readable(one)
    assert not is_readable(zero)
    other.acquire(1, timeout=0)
    other.release(0)
    await_readable(zero)
    assert not is_readable(one)


def test_an_fd_is_not_readable_while_this_handle_owns_the_surface(vks_open: Open) -> None:
    surface, _ = two_handles(vks_open)
    fd = surface.acquire_fd()
    for _ in range(20):
        await_readable(fd)
        surface.acquire(timeout=0)
        assert not is_readable(fd)  # at once: a loop that comes back before the release must not call again
        surface.release(0)


@pytest.mark.parametrize("way", ["acquire", "gpu", "async"])
def test_each_way_to_acquire_makes_the_fd_unreadable(vks_open: Open, way: str) -> None:
    surface, _ = two_handles(vks_open)
    fd = surface.acquire_fd()
    if way == "async":
        asyncio.run(surface.acquire_async(timeout=5))
    else:
        surface.acquire(mode="gpu" if way == "gpu" else "cpu+gpu")
    assert not is_readable(fd)
    surface.release(0)
    await_readable(fd)


def test_an_fd_whose_key_another_handle_took_is_right_again_after_the_failed_acquire(vks_open: Open) -> None:
    surface, other = two_handles(vks_open)
    fd = other.acquire_fd()
    for timeout in (0, 0.001):
        surface.acquire()
        assert is_readable(fd)  # no process can know: an acquire changes no word that a thread could sleep on
        with pytest.raises(AcquireTimeout):
            other.acquire(timeout=timeout)
        assert not is_readable(fd)
        surface.release(0)
        await_readable(fd)


def test_a_pending_acquire_of_the_same_handle_comes_first(vks_open: Open) -> None:
    _, other = two_handles(vks_open)
    fd = other.acquire_fd()

    async def main() -> None:
        waiting = asyncio.create_task(other.acquire_async(7))
        await asyncio.sleep(0)
        assert not is_readable(fd)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    await_readable(fd)
    other.acquire(timeout=0)


def test_a_queued_release_makes_the_fd_readable_when_it_has_run(vks_open: Open) -> None:
    surface, other = two_handles(vks_open)
    fd = other.acquire_fd(2)
    surface.acquire()
    other.acquire(1, mode="gpu")
    other.release(2)  # behind the acquire, which is not granted yet
    assert not is_readable(fd)
    surface.release(1)
    await_readable(fd)
    other.acquire(2, timeout=0)


def test_the_release_of_another_process_makes_the_fd_readable(vks_open: Open, peers: Peers) -> None:
    surface = vks_open().create_surface(8, 8)
    theirs = opened(surface, peers().device)
    fd = surface.acquire_fd(2)
    surface.acquire()
    for _ in range(20):
        surface.release(1)
        theirs.acquire(1, 30)
        assert not is_readable(fd)
        theirs.release(2)
        await_readable(fd)
        surface.acquire(2, timeout=0)


def test_the_death_of_the_owner_makes_every_fd_readable(vks_open: Open, peers: Peers) -> None:
    surface, peer = vks_open().create_surface(8, 8), peers()
    theirs = opened(surface, peer.device)
    theirs.acquire(0, 30)
    fds = [surface.acquire_fd(key) for key in range(3)]
    assert not any(map(is_readable, fds))
    peer.kill()
    for fd in fds:
        await_readable(fd)
    with pytest.raises(AbandonedError):
        surface.acquire(timeout=0)
    assert all(map(is_readable, fds))  # as long as it is abandoned
    surface.recover(30)
    assert not any(map(is_readable, fds))
    surface.release(2)
    await_readable(fds[2])
    assert not is_readable(fds[0])


def test_a_recovery_by_another_handle_is_reported_once(vks_open: Open) -> None:
    device, witness = vks_open(), vks_open()
    surface = device.create_surface(8, 8)
    ender, other = opened(surface, vks_open()), opened(surface, witness)
    ender.acquire()
    fd = other.acquire_fd(5)
    assert not is_readable(fd)
    ender.close()
    await_readable(fd)
    surface.recover(30)
    assert is_readable(fd)
    with pytest.raises(AbandonedError):
        other.acquire(5, timeout=0)
    assert not is_readable(fd)
    surface.release(5)
    await_readable(fd)
    other.acquire(5, timeout=0)


def test_a_close_wakes_a_thread_that_polls_and_the_fd_stays_open_as_long_as_the_object(vks_open: Open) -> None:
    surface, _ = two_handles(vks_open)
    surface.acquire()
    fd = surface.acquire_fd(1)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(is_readable(fd, 30)))
    thread.start()
    surface.close()
    thread.join(60)
    assert found == [True]
    with pytest.raises(ClosedError):
        surface.acquire(1, timeout=0)
    assert surface.acquire_fd(1) == fd  # for the loop's remove_reader()
    with pytest.raises(ClosedError):
        surface.acquire_fd(2)
    del surface
    assert fd not in open_fds()


def test_a_loss_of_the_device_makes_every_fd_readable(vks_open: Open) -> None:
    device = vks_open()
    surface, free = device.create_surface(8, 8), device.create_surface(8, 8)
    sender, descriptor = vks.pipe(device, 8, 8)
    receiver = vks.open_receiver(device, descriptor)
    surface.acquire()
    fds = [surface.acquire_fd(), free.acquire_fd(3), receiver.fileno()]
    assert not any(map(is_readable, fds))
    device._mark_lost()
    for fd in fds:
        await_readable(fd)
    with pytest.raises(DeviceLostError):
        surface.acquire(timeout=0)
    with pytest.raises(DeviceLostError), receiver.frame(timeout=0):
        pass
    assert all(map(is_readable, fds))
    descriptor.close()
    sender.close()


def test_an_fd_is_the_same_for_a_key_until_it_is_closed(vks_open: Open) -> None:
    surface, other = two_handles(vks_open)
    before = open_fds()
    fds = [surface.acquire_fd(key) for key in (0, 1, 2)]
    assert len(set(fds)) == 3
    assert surface.acquire_fd(1) == fds[1]
    surface.close_acquire_fd(1)
    surface.close_acquire_fd(1)
    surface.close_acquire_fd(9)
    assert open_fds() == before | {fds[0], fds[2]}
    surface.acquire()
    surface.release(2)
    await_readable(fds[2])  # the others are as before
    for key in (0, 2):
        surface.close_acquire_fd(key)
    assert open_fds() == before
    other.acquire(2, timeout=0)


def test_growing_keys_keep_one_fd(vks_open: Open) -> None:
    surface, other = two_handles(vks_open)
    before = open_fds()
    for key in range(1, 200):
        fd = other.acquire_fd(key)
        surface.acquire(key - 1, timeout=30)
        surface.release(key)
        await_readable(fd)
        other.acquire(key, timeout=0)
        other.close_acquire_fd(key)
        other.release(key)
    assert open_fds() == before


def test_many_surfaces_and_keys_wake_their_own_fd(vks_open: Open) -> None:
    """More words than the kernel lets one thread sleep on (127): aliases have no fds of their own."""
    device = vks_open()
    surfaces = [device.create_surface(4, 4) for _ in range(150)]
    others = [device.open_surface(surface) for surface in surfaces]
    before = open_fds()
    fds = [[other.acquire_fd(key) for key in (1, 2)] for other in others]
    assert not any(is_readable(fd) for pair in fds for fd in pair)
    for number, surface in enumerate(surfaces):
        surface.acquire()
        surface.release(1 + number % 2)
    for number, pair in enumerate(fds):
        await_readable(pair[number % 2])
        assert not is_readable(pair[1 - number % 2])
    for other in others:
        other.close()
    del others, other
    assert open_fds() <= before


def test_without_free_descriptors_there_is_an_oserror_and_nothing_else_changes(vks_open: Open) -> None:
    surface, _ = two_handles(vks_open)
    sender, descriptor = vks.pipe(surface.device, 8, 8)
    receiver = vks.open_receiver(surface.device, descriptor)
    with no_fd_left():
        with pytest.raises(OSError, match="eventfd"):
            surface.acquire_fd()
        with pytest.raises(OSError, match="eventfd"):
            receiver.fileno()
    await_readable(surface.acquire_fd())
    assert not is_readable(receiver.fileno())
    descriptor.close()
    sender.close()


def test_surfaces_of_queues_have_no_fd_of_a_key(device: vks.Device) -> None:
    with vks.SurfaceQueue(device, 8, 8) as queue, pytest.raises(InvalidCallError, match="queue"):
        queue.open_consumer(device).surfaces[0].acquire_fd()


@pytest.mark.parametrize("key", [-1, 2**64, "0", 1.5])
def test_a_key_is_a_64_bit_number(device: vks.Device, key: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        device.create_surface(8, 8).acquire_fd(key)


def test_in_a_forked_child_the_fds_are_readable_and_the_parents_are_unchanged(vks_open: Open) -> None:
    surface, other = two_handles(vks_open)
    sender, descriptor = vks.pipe(surface.device, 8, 8)
    receiver = vks.open_receiver(other.device, descriptor)
    surface.acquire()
    fds = [surface.acquire_fd(), other.acquire_fd(4), receiver.fileno()]

    def child() -> None:
        for fd in fds:
            await_readable(fd)
        with pytest.raises(InvalidCallError):
            surface.acquire_fd()
        with pytest.raises(InvalidCallError):
            other.acquire(4, timeout=0)

    in_child(child)
    assert not any(map(is_readable, fds))
    surface.release(4)
    await_readable(fds[1])
    descriptor.close()
    sender.close()


# ---- queues and pipes ------------------------------------------------------------------------------------------------


def joined(device: Any, receiver_device: Any, **options: Any) -> tuple[Any, Any]:
    sender, descriptor = vks.pipe(device, 16, 12, metadata_size=16, **options)
    with descriptor:
        return sender, vks.open_receiver(receiver_device, descriptor)


def send(sender: Any, metadata: bytes = b"") -> None:
    with sender.frame(metadata, 30) as frame:
        access_patterns.clear(frame.surface, len(metadata))


def test_a_receiver_is_readable_while_there_is_a_frame(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    assert receiver.fileno() == receiver.fileno()
    for count in (1, 3, 2):
        assert not is_readable(receiver.fileno())
        for _ in range(count):
            send(sender)
        await_readable(receiver.fileno())
        for left in reversed(range(count)):
            with receiver.frame(timeout=0):
                assert is_readable(receiver.fileno()) == bool(left)
    with pytest.raises(AcquireTimeout), receiver.frame(timeout=0):
        pass
    for number in (b"1", b"2"):
        send(sender, number)
    await_readable(receiver.fileno())
    with receiver.frame(timeout=0, latest=True) as (_, metadata):
        assert metadata == b"2"
        assert not is_readable(receiver.fileno())


def test_the_end_of_a_sender_keeps_the_receiver_readable(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    receiver.fileno()
    send(sender)
    sender.close()
    await_readable(receiver.fileno())
    with receiver.frame(timeout=0):
        pass
    assert is_readable(receiver.fileno())
    with pytest.raises(ClosedError), receiver.frame(timeout=0):
        pass
    assert is_readable(receiver.fileno())


def test_a_killed_sender_makes_the_receiver_readable(vks_open: Open, peers: Peers) -> None:
    peer = peers()
    sender, descriptor = peer.run(make_pipe, peer.device)
    with descriptor:
        receiver = vks.open_receiver(vks_open(), descriptor)
    assert not is_readable(receiver.fileno())
    peer.kill()
    await_readable(receiver.fileno())
    with pytest.raises(ClosedError), receiver.frame(timeout=0):
        pass
    assert sender is not None  # until here the peer kept it open


def test_a_closed_receiver_is_readable_and_keeps_its_fd_until_it_is_gone(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    fd = receiver.fileno()
    receiver.close()
    await_readable(fd)
    assert receiver.fileno() == fd
    sender.close()
    del receiver
    assert fd not in open_fds()


def test_a_receiver_that_is_closed_before_anyone_asked_has_no_fd(vks_open: Open) -> None:
    _, receiver = joined(vks_open(), vks_open())
    receiver.close()
    with pytest.raises(ClosedError):
        receiver.fileno()


def test_a_queue_without_a_producer_is_not_readable(vks_open: Open) -> None:
    device = vks_open()
    with vks.SurfaceQueue(device, 8, 8) as root, root.clone() as shown:
        consumer = shown.open_consumer(device)
        assert not is_readable(consumer.fileno())
        free, producer = root.open_consumer(device), shown.open_producer(device)
        root.open_producer(device)
        await_readable(free.fileno())  # it starts full
        surface, _ = free.dequeue(timeout=0)
        producer.enqueue(surface)
        await_readable(consumer.fileno())
        assert consumer.dequeue(timeout=0)[0] is surface


def test_asyncio_reads_from_two_fds(vks_open: Open) -> None:
    surface, other = two_handles(vks_open)
    sender, receiver = joined(surface.device, other.device)
    seen: list[str] = []

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def see(what: str) -> None:
            seen.append(what)
            if len(seen) == 20:
                done.set()

        def take_turn() -> None:
            other.acquire(1, timeout=0)
            see("turn")
            other.release(0)

        def take_frame() -> None:
            with receiver.frame(timeout=0) as (_, metadata):
                see(metadata.decode())

        loop.add_reader(other.acquire_fd(1), take_turn)
        loop.add_reader(receiver, take_frame)
        for number in range(10):
            await surface.acquire_async(0, timeout=30)
            surface.release(1)
            send(sender, b"%d" % number)
            await asyncio.sleep(0)
        await asyncio.wait_for(done.wait(), 30)
        loop.remove_reader(other.acquire_fd(1))
        loop.remove_reader(receiver)

    asyncio.run(main())
    assert [each for each in seen if each != "turn"] == [str(number) for number in range(10)]
    assert seen.count("turn") == 10


# ---- frames of asyncio -----------------------------------------------------------------------------------------------


def test_frames_are_sent_and_received_by_tasks_of_one_loop(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open(), count=2)
    seen: list[bytes] = []

    async def sending() -> None:
        for number in range(30):
            async with sender.frame_async(b"%d" % number, timeout=30) as frame:
                access_patterns.clear(frame.surface, number)
                await asyncio.sleep(0)
        sender.close()

    async def receive() -> None:
        async with receiver.frame_async(timeout=30) as (_, metadata):
            seen.append(metadata)
            await asyncio.sleep(0)

    async def receiving() -> None:
        for _ in range(30):
            await receive()
        with pytest.raises(ClosedError):
            await receive()

    async def main() -> None:
        await asyncio.gather(sending(), receiving())

    asyncio.run(main())
    assert seen == [b"%d" % number for number in range(30)]


@pytest.mark.parametrize("way", ["cancelled", "timed out"])
def test_a_wait_for_a_frame_that_ends_leaves_the_pipe_as_it_was(vks_open: Open, way: str) -> None:
    sender, receiver = joined(vks_open(), vks_open(), count=1)

    async def wait(frames: Any) -> None:
        async with frames as frame:
            raise AssertionError(f"a frame: {frame}")

    async def end(make: Callable[..., Any]) -> None:
        if way == "timed out":
            with pytest.raises(AcquireTimeout):
                await wait(make(timeout=0.001))
            return
        task = asyncio.create_task(wait(make()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def main() -> None:
        for number in range(3):
            await end(receiver.frame_async)
            async with sender.frame_async(b"%d" % number, timeout=30):
                pass
            await end(sender.frame_async)  # the only surface is on its way
            async with receiver.frame_async(timeout=30, latest=True) as (_, metadata):
                assert metadata == b"%d" % number

    asyncio.run(main())
    assert receiver.statistics().dequeued == 3


def test_a_block_that_is_cancelled_sends_nothing_and_gives_the_surface_back(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open(), count=1)

    async def main() -> None:
        entered = asyncio.Event()

        async def stay(frames: Any) -> None:
            async with frames:
                entered.set()
                await asyncio.Event().wait()

        async def cancel(frames: Any) -> None:
            entered.clear()
            task = asyncio.create_task(stay(frames))
            await asyncio.wait_for(entered.wait(), 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        await cancel(sender.frame_async())
        assert receiver.statistics().enqueued == 0
        async with sender.frame_async(timeout=30):  # has the same surface
            pass
        await cancel(receiver.frame_async())
        async with sender.frame_async(timeout=30):
            pass

    asyncio.run(main())


def test_tasks_draw_one_after_the_other(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    drawing: list[int] = []

    async def draw(number: int) -> None:
        async with sender.frame_async(b"%d" % number, timeout=30):
            drawing.append(number)
            await asyncio.sleep(0)
            assert drawing.pop() == number
            assert not drawing

    async def main() -> None:
        await asyncio.gather(*(draw(number) for number in range(3)))
        for number in range(3):  # in the order in which they asked
            async with receiver.frame_async(timeout=30) as (_, metadata):
                assert metadata == b"%d" % number

    asyncio.run(main())
    assert receiver.statistics().committed == 3


def test_a_task_that_waits_for_its_turn_times_out(vks_open: Open) -> None:
    sender, _ = joined(vks_open(), vks_open())

    async def main() -> None:
        async with sender.frame_async(timeout=30):
            with pytest.raises(AcquireTimeout, match="another task"):
                async with sender.frame_async(timeout=0.001):
                    pass

    asyncio.run(main())


def test_the_death_of_the_receiver_ends_the_wait_of_a_task(vks_open: Open, peers: Peers) -> None:
    sender, descriptor = vks.pipe(vks_open(), 16, 12, count=1)
    peer = peers(validation=False)
    with descriptor:
        receiver = peer.run(queue_ends.open_receiver, peer.device, descriptor)

    async def draw() -> None:
        async with sender.frame_async():
            pass

    async def main() -> None:
        await draw()
        waiting = asyncio.create_task(draw())  # the receiver takes nothing
        await asyncio.sleep(0)
        peer.kill()
        with pytest.raises(ClosedError):
            await asyncio.wait_for(waiting, 30)
        with pytest.raises(ClosedError):  # not "another task": the first one has ended
            await asyncio.wait_for(draw(), 30)

    asyncio.run(main())
    assert receiver is not None  # until here the peer kept it open


def make_pipe(device: Any) -> Any:
    """Where the device lives."""
    return vks.pipe(device, 16, 12, metadata_size=16)
