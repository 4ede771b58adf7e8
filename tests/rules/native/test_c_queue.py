"""Queues and pipes in the C library alone: Python is the other party."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.c_library import LINEAR, Library, image_info, view
from support.fd_counts import open_fds

import vkshare as vks
from vkshare.backends.base import BufferSpec, ImageSpec
from vkshare.errors import DescriptorError
from vkshare.ipc.queue_descriptor import QueueDescriptor

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")

PRODUCER, CONSUMER = 0, 1  # vks_end
WAIT = 0  # vks_enqueue_mode
COUNT, METADATA = 3, 16
WIDTH, HEIGHT = 20, 12
NBYTES = 5000


class Ends:
    """What C has open, closed in the end."""

    def __init__(self, library: Library, here: Any) -> None:
        self.library, self.here = library, here
        self.queues: list[Any] = []
        self.surfaces: list[Any] = []

    def open(self, page: int, end: int) -> Any:
        handles = self.library.ffi.new("vks_surface *[]", self.surfaces)
        made = self.library.make("queue_open", "vks_queue *", self.here, page, end, handles, len(self.surfaces))
        self.queues.append(made)
        return made

    def dequeue(self, queue: Any) -> tuple[Any, bytes]:
        ffi = self.library.ffi
        index, metadata, length = ffi.new("uint32_t *"), ffi.new("char[16]"), ffi.new("size_t *")
        status = self.library.queue_dequeue(queue, self.library.deadline(), index, metadata, length)
        assert status == "OK", f"{status} {self.library.error}"
        return self.surfaces[index[0]], bytes(ffi.buffer(metadata, length[0]))

    def enqueue(self, queue: Any, surface: Any, metadata: bytes = b"") -> None:
        committed = self.library.ffi.new("bool *")
        status = self.library.queue_enqueue(
            queue, surface, metadata, len(metadata), WAIT, self.library.deadline(), committed
        )
        assert (status, committed[0]) == ("OK", True), self.library.error

    def close(self) -> None:
        for queue in self.queues:
            self.library.queue_close(queue)
            self.library.queue_unref(queue)
        for surface in self.surfaces:
            self.library.surface_close(surface)
            self.library.surface_unref(surface)


@pytest.fixture
def ends(library: Library, here: Any) -> Iterator[Ends]:
    made = Ends(library, here)
    yield made
    made.close()


def received(library: Library, pair: tuple[socket.socket, socket.socket], descriptor: QueueDescriptor) -> Any:
    with descriptor:
        descriptor.send(pair[0])
    got = library.ffi.new("vks_queue_descriptor *")
    assert library.queue_descriptor_recv(pair[1].fileno(), library.deadline(), got) == "OK", library.error
    return got


@pytest.mark.rule("C4", "Q2")
def test_c_is_the_receiver_of_a_pipe_of_python(
    device: vks.Device, library: Library, here: Any, ends: Ends, pair: tuple[socket.socket, socket.socket]
) -> None:
    sender, descriptor = vks.pipe(device, WIDTH, HEIGHT, count=COUNT, metadata_size=METADATA)
    got = received(library, pair, descriptor)
    assert (got.n_queues, got.n_surfaces) == (2, COUNT)
    surfaces = library.ffi.new("vks_surface *[]", COUNT)
    assert library.queue_open_surfaces(here, got, surfaces) == "OK", library.error
    ends.surfaces += [surfaces[number] for number in range(COUNT)]
    there, back = ends.open(got.page_fds[0], CONSUMER), ends.open(got.page_fds[1], PRODUCER)
    library.queue_descriptor_close(got)
    with sender:
        for number in range(2 * COUNT):  # more than there are surfaces: they come back
            with sender.frame(timeout=10) as frame:
                device.submit(device.record().clear(frame.surface, (number / 255, 0, 0, 1)))
                frame.metadata = bytes([number])
            surface, metadata = ends.dequeue(there)
            assert metadata == bytes([number])
            if library.surface_pixels(surface, library.ffi.new("void **"), library.ffi.new("size_t *")) == "OK":
                assert (view(library, surface, HEIGHT, WIDTH) == (number, 0, 0, 255)).all()
            ends.enqueue(back, surface)


class PipeOfC:
    """A pipe that C makes, of surfaces or buffers, and what Python receives of it."""

    def __init__(
        self,
        ends: Ends,
        pair: tuple[socket.socket, socket.socket],
        size: dict[str, int],
        make: Callable[[], Any],
    ) -> None:
        library, ffi = ends.library, ends.library.ffi
        pages = ffi.new("int[2]")  # the way there, and back
        shared = {**size, "count": COUNT, "early": True}
        assert library.queue_page_make(ffi.new("vks_queue_info *", shared | {"full": True}), pages + 1) == "OK"
        network = library.make("queue_page_read", "vks_queue_info", pages[1]).network
        clone = ffi.new("vks_queue_info *", shared | {"metadata_size": METADATA, "network": network})
        assert library.queue_page_make(clone, pages) == "OK"
        for number in range(COUNT):
            ends.surfaces.append(make())
            assert library.surface_join(ends.surfaces[-1], network, number) == "OK"
        handles = ffi.new("vks_surface *[]", ends.surfaces)
        sent = library.make("queue_export_descriptor", "vks_queue_descriptor", pages, 2, handles, COUNT)
        self.there, self.back = ends.open(pages[0], PRODUCER), ends.open(pages[1], CONSUMER)
        for page in pages:
            os.close(page)
        assert library.queue_descriptor_send(pair[0].fileno(), library.deadline(), sent) == "OK", library.error
        library.queue_descriptor_close(sent)


@pytest.mark.rule("C4", "Q2")
def test_python_is_the_receiver_of_a_pipe_of_c(
    device: vks.Device, library: Library, here: Any, ends: Ends, pair: tuple[socket.socket, socket.socket]
) -> None:
    info = image_info(library, width=WIDTH, height=HEIGHT, tiling=LINEAR)
    size = {"width": WIDTH, "height": HEIGHT, "format": 3}
    pipe = PipeOfC(ends, pair, size, lambda: library.make("surface_create_image", "vks_surface *", here, info))
    with QueueDescriptor.recv(pair[1], 10) as descriptor, vks.open_receiver(device, descriptor) as receiver:
        assert (descriptor.queue_count, descriptor.surface_count) == (2, COUNT)
        assert isinstance(descriptor.spec, ImageSpec)
        assert descriptor.spec.width == WIDTH
        for number in range(2 * COUNT):
            surface, _ = ends.dequeue(pipe.back)
            view(library, surface, HEIGHT, WIDTH)[:] = number
            ends.enqueue(pipe.there, surface, bytes([number]))
            with receiver.frame(timeout=10) as frame:
                assert frame.metadata == bytes([number])
                assert (frame.surface.read() == number).all()


@pytest.mark.rule("C4", "E5")
def test_c_is_the_receiver_of_a_pipe_of_buffers(
    device: vks.Device, library: Library, here: Any, ends: Ends, pair: tuple[socket.socket, socket.socket]
) -> None:
    sender, descriptor = vks.buffer_pipe(device, NBYTES, COUNT, METADATA)
    got = received(library, pair, descriptor)
    surfaces = library.ffi.new("vks_surface *[]", COUNT)
    assert library.queue_open_surfaces(here, got, surfaces) == "OK", library.error
    ends.surfaces += [surfaces[number] for number in range(COUNT)]
    there, back = ends.open(got.page_fds[0], CONSUMER), ends.open(got.page_fds[1], PRODUCER)
    library.queue_descriptor_close(got)
    with sender:
        for number in range(2 * COUNT):
            with sender.frame(bytes([number]), timeout=10) as frame:
                frame.surface.write(bytes([number] * NBYTES))
            buffer, metadata = ends.dequeue(there)
            assert metadata == bytes([number])
            assert bytes(contents(library, buffer)) == bytes([number] * NBYTES)
            ends.enqueue(back, buffer)


@pytest.mark.rule("C4", "E5")
def test_python_is_the_receiver_of_a_pipe_of_buffers(
    device: vks.Device, library: Library, here: Any, ends: Ends, pair: tuple[socket.socket, socket.socket]
) -> None:
    info = library.ffi.new("vks_buffer_info *", {"nbytes": NBYTES})
    pipe = PipeOfC(ends, pair, {"width": NBYTES}, lambda: library.make("buffer_create", "vks_surface *", here, info))
    with QueueDescriptor.recv(pair[1], 10) as descriptor, vks.open_receiver(device, descriptor) as receiver:
        assert descriptor.spec == BufferSpec(NBYTES, frozenset({"copy", "storage"}))
        for number in range(2 * COUNT):
            buffer, _ = ends.dequeue(pipe.back)
            contents(library, buffer)[:] = bytes([number] * NBYTES)
            ends.enqueue(pipe.there, buffer, bytes([number]))
            with receiver.frame(timeout=10) as (mine, metadata):
                assert metadata == bytes([number])
                assert bytes(mine.read()) == bytes([number] * NBYTES)


def contents(library: Library, buffer: Any) -> Any:
    """The bytes of an owned buffer, where the CPU sees them."""
    assert library.surface_cpu_access(buffer, library.deadline()) == "OK", library.error
    pixels = library.ffi.new("void **")
    if library.surface_pixels(buffer, pixels, library.ffi.new("size_t *")) != "OK":
        pytest.skip("the GPU's memory is not the CPU's")
    return library.ffi.buffer(pixels[0], NBYTES)


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C4", "X13")
def test_mutated_descriptors_are_taken_or_refused_as_python_does_and_nothing_leaks(
    device: vks.Device, library: Library
) -> None:
    sender, descriptor = vks.pipe(device, WIDTH, HEIGHT, count=2)
    with sender, descriptor:
        data, fds = descriptor.to_bytes(), descriptor._fds
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        dice, before, taken = random.Random(seed), open_fds(), 0
        got = library.ffi.new("vks_queue_descriptor *")
        for turn in range(1000):
            mutated = bytearray(data)
            for _ in range(dice.choice((0, 1, 1, 2)) if turn else 0):
                at = dice.randrange(60) if dice.random() < 0.5 else dice.randrange(len(mutated))
                mutated[at] = dice.choice((0, 1, 2, 3, 127, 255, dice.randrange(256)))
            given = fds if dice.random() < 0.9 else fds[: dice.randrange(len(fds))]
            one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with one, two:
                socket.send_fds(one, [bytes(mutated)], given)
                status = library.queue_descriptor_recv(two.fileno(), library.deadline(), got)
            if status == "OK":
                library.queue_descriptor_close(got)
            try:
                QueueDescriptor.from_bytes(bytes(mutated), [os.dup(fd) for fd in given]).close()
                mine = "OK"
            except DescriptorError:
                mine = "BAD_PAGE"
            assert status == mine, f"C says {status} ({library.error!r}) of {bytes(mutated).hex()}, {len(given)} fds"
            taken += status == "OK"
        assert taken
        assert open_fds() == before


@pytest.mark.rule("C4")
def test_a_descriptor_that_does_not_fit_its_pages_opens_no_surface(
    device: vks.Device, library: Library, here: Any, pair: tuple[socket.socket, socket.socket]
) -> None:
    sender, descriptor = vks.pipe(device, WIDTH, HEIGHT, count=COUNT)
    with sender:
        got = received(library, pair, descriptor)
        before = open_fds()
        surfaces = library.ffi.new("vks_surface *[]", COUNT)
        got.n_surfaces = COUNT - 1
        assert library.queue_open_surfaces(here, got, surfaces) == "BAD_PAGE"
        assert library.error == f"descriptor: {COUNT - 1} surfaces, and the queue's page says {COUNT}"
        got.n_surfaces = COUNT
        got.surfaces[COUNT - 1].body[28] ^= 64  # memory_offset
        assert library.queue_open_surfaces(here, got, surfaces) == "BAD_PAGE"
        assert open_fds() == before
        got.n_queues = 3
        assert library.queue_descriptor_send(pair[0].fileno(), library.deadline(), got) == "BAD_VALUE"
        library.queue_descriptor_close(got)
