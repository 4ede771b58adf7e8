"""Queues and pipes of buffers: rules Q for bytes (rule E5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import access_patterns, queue_ends
from support.peer_processes import Peer, later
from support.queue_ends import Loop, send_at_last
from support.run_volumes import rounds
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.backends.base import BufferSpec
from vkshare.cli import ps
from vkshare.compositor.frame_sources import Keys, open_source
from vkshare.errors import (
    AcquireTimeout,
    ClosedError,
    DescriptorError,
    InvalidCallError,
    NotOwnerError,
    UnsupportedError,
)

# Things that a test leaves open, its device's fixture closes.
pytest_plugins = ["support.peer_processes"]
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.wheel,
    pytest.mark.rule("E5"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]
NBYTES = 5000


class BufferLoop(Loop):
    """Its maker fills buffers, and its viewer finds them with their numbers."""

    def __init__(self, maker: Any, viewer: Any, count: int = 3) -> None:
        super().__init__(maker, viewer, nbytes=NBYTES, count=count, usage=("copy", "storage", "vertex"))

    def send(self, number: int, wait: bool | str = True) -> None:
        buffer, _ = self.free.dequeue(30)
        access_patterns.fill(buffer, number)
        self.out.enqueue(buffer, b"%d" % number, wait)

    def look(self) -> int:
        """Takes a buffer, checks it against its metadata, and gives it back."""
        buffer, metadata = self.seen.dequeue(30)
        number = int(metadata)
        assert access_patterns.is_filling(buffer, number), number
        self.back.enqueue(buffer, wait="gpu")
        return number


@pytest.fixture
def loop(vks_open: Open) -> Iterator[BufferLoop]:
    with BufferLoop(vks_open(name="maker"), vks_open(name="viewer")) as loop:
        yield loop


# ---- queues --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q2")
def test_a_new_queue_of_buffers_is_full_of_them(device: vks.Device) -> None:
    with vks.SurfaceQueue.of_buffers(device, 77, count=2, usage=("copy", "index")) as queue:
        producer, consumer = queue.open_producer(device), queue.open_consumer(device)
        for _ in range(2):
            buffer, metadata = consumer.dequeue(0)
            assert isinstance(buffer, vks.Buffer)
            assert (buffer.nbytes, buffer.usage, metadata) == (77, {"copy", "index"}, b"")
            assert not buffer.read().any()
        with pytest.raises(AcquireTimeout):
            consumer.dequeue(0)
        assert not producer.is_closed


@pytest.mark.rule("Q9")
@pytest.mark.rule("Q21")
@pytest.mark.parametrize("wait", [True, "gpu"])
def test_bytes_and_metadata_travel_together_and_in_order(loop: BufferLoop, wait: bool | str) -> None:
    frames = rounds(5_000, 60)
    works = later(lambda: [loop.send(number, wait) for number in range(frames)])
    assert [loop.look() for _ in range(frames)] == list(range(frames))
    works.result(10)


@pytest.mark.rule("Q21")
def test_another_process_looks_at_the_bytes(vks_open: Open, peers: Peers) -> None:
    peer = peers()
    loop = BufferLoop(vks_open(), peer.device)
    frames = rounds(2_000, 40)
    looks = peer.later(look_at_all, loop.seen, loop.back, frames)
    for number in range(frames):
        loop.send(number)
    assert looks.result(60) == frames
    loop.clone.close()


def look_at_all(seen: Any, back: Any, frames: int) -> int:
    right = 0
    for _ in range(frames):
        buffer, metadata = seen.dequeue(30)
        right += access_patterns.is_filling(buffer, int(metadata))
        back.enqueue(buffer)
    return right


@pytest.mark.rule("Q22")
@pytest.mark.rule("Q25")
def test_only_the_queue_passes_a_buffer_on(loop: BufferLoop, device: vks.Device) -> None:
    buffer: Any = loop.free.dequeue(0)[0]
    for refused in (buffer.acquire, buffer.release, buffer.close, buffer.export):
        with pytest.raises(InvalidCallError):
            refused()
    for where in (device, buffer.device):
        with pytest.raises(InvalidCallError, match="this buffer belongs to"):
            where.open_buffer(buffer)
    loop.out.enqueue(buffer)
    with pytest.raises(NotOwnerError):
        buffer.read()


@pytest.mark.rule("Q6")
def test_a_queue_refuses_what_is_not_of_its_network(loop: BufferLoop) -> None:
    stranger = loop.free.device.create_buffer(NBYTES)
    stranger.acquire()
    surface = loop.free.device.create_surface(8, 8)
    surface.acquire()
    for each in (stranger, surface):
        with pytest.raises(InvalidCallError):
            loop.out.enqueue(each)  # type: ignore[arg-type]


@pytest.mark.rule("Q1")
@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"nbytes": 0}, "nbytes"),
        ({"count": 65}, "count"),
        ({"metadata_size": 65_537}, "metadata_size"),
        ({"usage": ("picture",)}, "usage"),
    ],
)
def test_a_wrong_argument_is_named_and_leaves_nothing(device: vks.Device, arguments: Any, what: str) -> None:
    fds = access_patterns.open_fds()
    with pytest.raises(ValueError, match=what):
        vks.SurfaceQueue.of_buffers(device, **{"nbytes": 16, **arguments})
    assert access_patterns.open_fds() == fds


@pytest.mark.rule("Q16")
def test_the_gpu_copies_out_of_a_buffer_that_came_through_a_queue(loop: BufferLoop) -> None:
    """wait="gpu": the order is the GPU's, and the maker's copy may still run when the viewer dequeues."""
    maker, viewer = loop.free.device, loop.seen.device
    source, target = maker.create_buffer(NBYTES), viewer.create_buffer(NBYTES)
    for number in range(20):
        with source.access():
            access_patterns.fill(source, number)
            buffer, _ = loop.free.dequeue(5)
            maker.submit(maker.record().copy(source, buffer))
        loop.out.enqueue(buffer, b"%d" % number, "gpu")
        with loop.seen.frame(5, into=loop.back) as frame, target.access():
            assert type(frame.view) is vks.BufferView
            viewer.submit(viewer.record().copy(frame.surface, target))
            assert access_patterns.is_filling(target, number)


@pytest.mark.rule("Q18")
def test_the_bytes_of_a_killed_owner_are_recovered(vks_open: Open, peers: Peers) -> None:
    peer = peers(validation=False)
    loop = BufferLoop(vks_open(), peer.device, count=2)
    loop.send(1)
    assert peer.run(take, loop.seen) == b"1"
    peer.kill()
    wait_until(lambda: not loop.clone.statistics().consumer_pid)
    recovered = loop.free.recover(5)
    assert [type(each) for each in recovered] == [vks.Buffer]
    for each in recovered:
        access_patterns.fill(each, 2)
        assert access_patterns.is_filling(each, 2)
    peer.end()


def take(seen: Any) -> bytes:
    metadata: bytes = seen.dequeue(30)[1]
    return metadata


@pytest.mark.rule("K33")
def test_ps_shows_a_queue_of_buffers(loop: BufferLoop) -> None:
    found = [each for each in ps.collect()["queues"] if each["format"] == "buffer"]
    assert NBYTES in [each["nbytes"] for each in found]
    assert f"3 of {NBYTES} bytes" in ps._text(ps.collect())


# ---- descriptors ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("X13")
def test_a_descriptor_of_buffers_has_their_bytes_and_no_surface_among_them(device: vks.Device) -> None:
    with vks.SurfaceQueue.of_buffers(device, NBYTES, 2) as queue, queue.export() as descriptor:
        assert descriptor.spec == BufferSpec(NBYTES, frozenset({"copy", "storage"}))
        assert (descriptor.queue_count, descriptor.surface_count) == (1, 2)
        page = descriptor._open_pages()
        opened = [each._give_away() for each in descriptor._open_surfaces()]
        mixed = [vks.BufferDescriptor(*opened[0]), _surface_in_place_of(device, opened[1])]
        made = type(descriptor)._made(page, mixed)
        data, fds = made._give_away()
        with pytest.raises(DescriptorError, match="one size, format, tiling, usage and colour"):
            type(descriptor).from_bytes(data, fds)


def _surface_in_place_of(device: vks.Device, given: tuple[bytes, tuple[int, ...]]) -> Any:
    vks.BufferDescriptor(*given).close()
    with device.create_surface(8, 8) as surface:
        return surface.export()


# ---- pipes ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q26")
def test_a_pipe_of_buffers_is_three_lines_at_each_end(vks_open: Open) -> None:
    sender, descriptor = vks.buffer_pipe(vks_open(), 64, metadata_size=8, usage=("copy",))
    with descriptor:
        receiver = vks.open_receiver(vks_open(), descriptor)
    for number in range(10):
        with sender.frame(b"%d" % number) as frame:
            assert isinstance(frame.surface, vks.Buffer)
            access_patterns.fill(frame.surface, number)
        with receiver.frame(5) as (buffer, metadata):
            assert metadata == b"%d" % number
            assert access_patterns.is_filling(buffer, number)
    sender.close()
    with pytest.raises(ClosedError):
        receiver.frame().__enter__()


@pytest.mark.rule("Q26")
def test_frames_of_buffers_come_in_asyncio(vks_open: Open) -> None:
    sender, descriptor = vks.buffer_pipe(vks_open(), 64)
    with descriptor:
        receiver = vks.open_receiver(vks_open(), descriptor)

    async def send() -> None:
        for number in range(20):
            async with sender.frame_async(timeout=10) as frame:
                access_patterns.fill(frame.surface, number)

    async def receive() -> None:
        for number in range(20):
            async with receiver.frame_async(10) as frame:
                assert access_patterns.is_filling(frame.surface, number)

    async def both() -> None:
        await asyncio.gather(send(), receive())

    asyncio.run(both())


@pytest.mark.rule("Q27")
def test_a_killed_receiver_takes_no_buffer_with_it(vks_open: Open, peers: Peers) -> None:
    sender, descriptor = vks.buffer_pipe(vks_open(), 64, count=2, metadata_size=8)
    with descriptor:
        for turn in range(4):
            peer = peers(validation=False)
            receiver = peer.run(queue_ends.open_receiver, peer.device, descriptor)
            send_at_last(sender, turn, access_patterns.fill)
            assert peer.run(take_frame, receiver) == b"%d" % turn
            peer.kill()
            peer.end()
        last = vks.open_receiver(vks_open(), descriptor)
        send_at_last(sender, 99, access_patterns.fill)
        with last.frame(10) as (buffer, metadata):
            assert metadata == b"99"
            assert access_patterns.is_filling(buffer, 99)


_frames: list[Any] = []


def take_frame(receiver: Any) -> bytes:
    """Where the receiver lives, which keeps the frame."""
    _frames.append(receiver.frame(10))
    metadata: bytes = _frames[-1].__enter__().metadata
    return metadata


def test_a_pipe_of_buffers_is_no_window(device: vks.Device) -> None:
    sender, descriptor = vks.buffer_pipe(device, 64)
    with sender, descriptor, vks.compositor.Compositor(device, vks.Headless(8, 8)) as compositor:
        with pytest.raises(TypeError, match="a pipe of buffers"):
            compositor.open_window(descriptor)
        with pytest.raises(UnsupportedError, match="a window of buffers"):
            open_source(device, descriptor, Keys(0, 0))
