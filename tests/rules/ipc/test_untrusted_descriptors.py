"""Descriptors that were forged, cut short or sent in too large numbers."""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import random
import resource
import socket
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from support import access_patterns
from support.child_processes import in_child
from support.fd_counts import no_fd_left, open_fds

import vkshare as vks
from vkshare import formats
from vkshare.errors import DescriptorError, DeviceMismatchError, UnsupportedError
from vkshare.ipc import descriptors, transport
from vkshare.util.library_calls import lib

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

Open = Callable[..., vks.Device]


@pytest.fixture(params=[socket.SOCK_STREAM, socket.SOCK_SEQPACKET], ids=["stream", "seqpacket"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair(socket.AF_UNIX, request.param)
    yield one, two
    one.close()
    two.close()


@pytest.fixture
def surface(device: vks.Device) -> vks.Surface:
    return device.create_surface(24, 10)


@pytest.fixture
def packed(surface: vks.Surface) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """A good descriptor's bytes and fds, to be damaged."""
    with surface.export() as descriptor:
        yield descriptor.to_bytes(), descriptor._fds


SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def memfd(size: int, seals: int = SEALS) -> int:
    fd = os.memfd_create("foreign", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def duplicates(fds: tuple[int, ...]) -> list[int]:
    return [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in fds]


# ---- untrusted peers ------------------------------------------------------------------------------------------------

HEADER_SIZE = descriptors.HEADER_SIZE


def damaged(data: bytes, offset: int, form: str, value: object) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, offset, value)
    return bytes(changed)


B = HEADER_SIZE  # where the surface's fields begin


@pytest.mark.parametrize(
    ("offset", "form", "value", "text"),
    [
        (0, "<8s", b"notvks!\0", "not a descriptor of vkshare"),
        (8, "<I", 2, "not a SurfaceDescriptor"),
        (20, "<I", 9999, "says 9999 bytes"),
        (24, "<I", 7, "says it carries 7 fds"),
        (B, "<I", 0, "width is 0"),
        (B, "<I", 2**32 - 1, "width is 4294967295"),
        (B + 4, "<I", 0, "height is 0"),
        (B + 4, "<I", 1 << 20, "do not fit"),
        (B + 8, "<I", 0, "unknown format"),
        (B + 8, "<I", len(formats.FORMATS) + 1, "unknown format"),
        (B + 8, "<I", 9, "descriptor"),
        (B + 12, "<B", 3, "unknown tiling"),
        (B + 13, "<B", 0, "unknown usage"),
        (B + 13, "<B", 16, "unknown usage"),
        (B + 14, "<B", 2, "unknown memory kind"),
        (B + 15, "<B", 2, "unknown dedicated flag"),
        (B + 16, "<Q", 8, "do not fit"),
        (B + 16, "<Q", 2**64 - 1, "do not fit"),
        (B + 24, "<Q", 2**64 - 1, "do not fit"),
        (B + 32, "<Q", 2**63, "stride"),
        (B + 88, "<B", 0xFF, "not UTF-8"),
    ],
)
@pytest.mark.rule("X15", "X16")
def test_a_forged_field_is_refused_before_anything_is_mapped(
    packed: tuple[bytes, tuple[int, ...]], offset: int, form: str, value: object, text: str
) -> None:
    data, fds = packed
    before = open_fds()
    with pytest.raises(DescriptorError, match=text):
        vks.SurfaceDescriptor.from_bytes(damaged(data, offset, form, value), duplicates(fds))
    assert open_fds() == before


@pytest.mark.rule("K32")
@pytest.mark.parametrize(
    ("offset", "what", "ours"),
    [(12, "descriptors", lib.VKS_DESCRIPTOR_VERSION), (16, "shared pages", lib.VKS_LAYOUT_VERSION)],
    ids=["descriptors", "pages"],
)
def test_another_version_is_refused_and_both_are_named(
    packed: tuple[bytes, tuple[int, ...]], offset: int, what: str, ours: int
) -> None:
    data, fds = packed
    with pytest.raises(DescriptorError, match=f"{what} have layout version 4711, this vkshare's have {ours}"):
        vks.SurfaceDescriptor.from_bytes(damaged(data, offset, "<I", 4711), duplicates(fds))


@pytest.mark.parametrize("length", [0, 1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 1])
def test_truncated_bytes_are_refused(packed: tuple[bytes, tuple[int, ...]], length: int) -> None:
    data, fds = packed
    with pytest.raises(DescriptorError):
        vks.SurfaceDescriptor.from_bytes(data[:length], duplicates(fds))
    with pytest.raises(DescriptorError):
        vks.SurfaceDescriptor.from_bytes(data + b"x", duplicates(fds))


@pytest.mark.rule("X15")
def test_a_page_that_is_no_sealed_memfd_is_refused(
    packed: tuple[bytes, tuple[int, ...]], tmp_path: os.PathLike[str]
) -> None:
    data, fds = packed
    unsealed = memfd(4096, 0)
    half = memfd(4096, SEALS & ~fcntl.F_SEAL_GROW)
    open_ended = memfd(4096, SEALS & ~fcntl.F_SEAL_SEAL)
    on_disk = os.open(os.path.join(tmp_path, "file"), os.O_RDWR | os.O_CREAT)
    pipe, end = os.pipe()
    for bad, text in (
        (unsealed, "not sealed"),
        (half, "not sealed"),
        (open_ended, "not sealed"),
        (on_disk, "not a|on disk"),
        (pipe, "not a memfd"),
    ):
        memory, _, *rest = duplicates(fds)
        os.close(_)
        with pytest.raises(DescriptorError, match=text):
            vks.SurfaceDescriptor.from_bytes(data, [memory, os.dup(bad), *rest])
    for fd in (unsealed, half, open_ended, on_disk, pipe, end):
        os.close(fd)


@pytest.mark.rule("X15")
def test_a_sealed_memfd_that_holds_no_page_is_refused_when_opened(
    packed: tuple[bytes, tuple[int, ...]], device: vks.Device
) -> None:
    data, fds = packed
    for size in (0, 1, 4096, 1 << 20):
        page = memfd(size)
        memory, old, *rest = duplicates(fds)
        os.close(old)
        before = open_fds()
        with vks.SurfaceDescriptor.from_bytes(data, [memory, page, *rest]) as forged, pytest.raises(DescriptorError):
            device.open_surface(forged)
        assert open_fds() == before - {memory, page, *rest}


def test_memory_that_is_too_small_or_no_memory_is_refused(packed: tuple[bytes, tuple[int, ...]]) -> None:
    data, fds = packed
    small = memfd(8)
    pipe, end = os.pipe()
    for bad, text in ((small, "has 8 bytes"), (pipe, "not a memfd|socket, pipe")):
        old, *rest = duplicates(fds)
        os.close(old)
        with pytest.raises(DescriptorError, match=text):
            vks.SurfaceDescriptor.from_bytes(data, [os.dup(bad), *rest])
    for fd in (small, pipe, end):
        os.close(fd)


def replaced(fds: tuple[int, ...], index: int, fd: int) -> list[int]:
    """Duplicates of the fds, and `fd` itself in the place of one."""
    given = duplicates(fds)
    os.close(given[index])
    given[index] = fd
    return given


def is_file(fd: int) -> bool:
    return stat.S_ISREG(os.fstat(fd).st_mode)


def copy_of(fd: int, seals: int) -> int:
    """A memfd of the same size and content with other seals."""
    copy = memfd(os.fstat(fd).st_size, 0)
    os.pwrite(copy, os.pread(fd, 1 << 16, 0), 0)
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
    return copy


@pytest.mark.rule("X15")
@pytest.mark.parametrize("index", [0, 1], ids=["memory", "page"])
@pytest.mark.parametrize("how", ["read-only", "write-only", "sealed", "sealed for the future"])
def test_memory_that_cannot_be_written_is_refused_with_what_to_do(
    packed: tuple[bytes, tuple[int, ...]], device: vks.Device, index: int, how: str
) -> None:
    data, fds = packed
    if not is_file(fds[index]):
        pytest.skip("of memory in files: a GPU's is none")
    if how in ("read-only", "write-only"):
        mode = os.O_RDONLY if how == "read-only" else os.O_WRONLY
        bad, text = os.open(f"/proc/self/fd/{fds[index]}", mode | os.O_CLOEXEC), "open for .*ing only.*O_RDWR"
    else:
        bad = copy_of(fds[index], SEALS | (fcntl.F_SEAL_WRITE if how == "sealed" else 0x10))
        text = "sealed against writing.*without F_SEAL_WRITE"
    before = open_fds()
    with pytest.raises(DescriptorError, match=text):
        vks.SurfaceDescriptor.from_bytes(data, replaced(fds, index, bad))
    assert open_fds() == before - {bad}


@pytest.mark.rule("X15")
def test_no_party_can_change_the_size_or_the_seals_of_what_it_was_sent(
    surface: vks.Surface, packed: tuple[bytes, tuple[int, ...]], device: vks.Device
) -> None:
    with device.create_fence().export() as fence, vks.SurfaceQueue(device, 8, 8).export() as queue:
        files = [fd for fd in (*packed[1], *fence._fds, *queue._fds) if is_file(fd)]
        assert files
        for fd in files:
            size = os.fstat(fd).st_size
            for change in (0, size - 1, size + 1):
                with pytest.raises(PermissionError):
                    os.ftruncate(fd, change)
            for seal in (fcntl.F_SEAL_WRITE, 0x10):
                with pytest.raises(PermissionError):
                    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seal)
    with surface.access():
        assert not surface.read().any()


@pytest.mark.rule("X16")
def test_a_small_surface_with_a_large_memory_is_refused_and_takes_no_page_of_it(
    packed: tuple[bytes, tuple[int, ...]], device: vks.Device
) -> None:
    data, fds = packed
    if not is_file(fds[0]):
        pytest.skip("of memory in files: a GPU's is none")
    size = 1 << 36
    memory = memfd(size)

    def open_it(declared: bytes) -> None:
        with vks.SurfaceDescriptor.from_bytes(declared, replaced(fds, 0, os.dup(memory))) as descriptor:
            device.open_surface(descriptor)

    for declared in (data, damaged(data, B + 16, "<Q", size)):
        with pytest.raises(DescriptorError, match=r"exactly|must be"):
            open_it(declared)
    assert os.fstat(memory).st_blocks == 0
    os.close(memory)


@pytest.mark.rule("X16")
def test_opening_takes_no_page_of_a_memory_with_holes(
    packed: tuple[bytes, tuple[int, ...]], device: vks.Device
) -> None:
    data, fds = packed
    if not is_file(fds[0]):
        pytest.skip("of memory in files: a GPU's is none")
    memory = memfd(os.fstat(fds[0]).st_size)
    watched = os.dup(memory)
    with vks.SurfaceDescriptor.from_bytes(data, replaced(fds, 0, memory)) as descriptor:
        opened = device.open_surface(descriptor)
    assert os.fstat(watched).st_blocks == 0
    with opened.access():
        assert not opened.read().any()
    opened.close()
    os.close(watched)


@pytest.mark.rule("X16")
@pytest.mark.parametrize("stride", [95, 97, 129, 192, 1 << 20])
def test_rows_of_a_cpu_surface_are_tight_or_padded_to_64_bytes(
    packed: tuple[bytes, tuple[int, ...]], device: vks.Device, stride: int
) -> None:
    if device.backend != "cpu":
        pytest.skip("of the CPU backend's memory")
    data, fds = packed
    size = -(-stride * 10 // 4096) * 4096
    forged = damaged(damaged(data, B + 32, "<Q", stride), B + 16, "<Q", size)
    with pytest.raises(DescriptorError, match="stride"):
        vks.SurfaceDescriptor.from_bytes(forged, replaced(fds, 0, memfd(size)))
    tight = vks.SurfaceDescriptor.from_bytes(damaged(data, B + 32, "<Q", 24 * 4), duplicates(fds))
    with tight, device.open_surface(tight) as opened:
        assert opened.stride == 96


@pytest.mark.rule("X15")
def test_huge_pages_are_refused(packed: tuple[bytes, tuple[int, ...]], device: vks.Device) -> None:
    data, fds = packed
    try:
        huge = os.memfd_create("huge", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | os.MFD_HUGETLB)
    except OSError as error:
        pytest.skip(f"no huge pages: {error}")
    fcntl.fcntl(huge, fcntl.F_ADD_SEALS, SEALS)
    with pytest.raises(DescriptorError, match="MFD_HUGETLB"):
        vks.SurfaceDescriptor.from_bytes(data, replaced(fds, 1, huge))


def test_an_fd_that_is_not_open_is_refused(packed: tuple[bytes, tuple[int, ...]]) -> None:
    data, fds = packed
    with pytest.raises(DescriptorError, match="cannot be used"):
        vks.SurfaceDescriptor.from_bytes(data, [999_999] * len(fds))


def test_a_hundred_thousand_mutations_are_opened_or_refused_and_nothing_leaks(
    packed: tuple[bytes, tuple[int, ...]], device: vks.Device
) -> None:
    data, fds = packed
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    before = len(open_fds())
    opened = 0
    for _ in range(100_000):
        mutated = bytearray(data)
        for _ in range(generator.choice((1, 1, 1, 2, 5))):
            mutated[generator.randrange(len(mutated))] = generator.choice(
                (0, 1, 2, 127, 128, 255, generator.randrange(256))
            )
        if generator.random() < 0.05:
            del mutated[generator.randrange(len(mutated)) :]
        count = len(fds) if generator.random() < 0.95 else generator.randrange(len(fds) + 2)
        given = duplicates((fds * 2)[:count])
        with contextlib.suppress(vks.VkshareError), vks.SurfaceDescriptor.from_bytes(bytes(mutated), given) as survivor:
            if opened < 300:  # opening is slow; reading is what is fuzzed
                opened += 1
                device.open_surface(survivor).close()
    device.record()
    assert opened
    assert len(open_fds()) == before


# ---- over a socket: rules X13, X14, X19 ----------------------------------------------------------------------------


def send_raw(sock: socket.socket, data: bytes, fds: list[int] | tuple[int, ...]) -> None:
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])


@pytest.mark.rule("X13")
@pytest.mark.parametrize("count", [0, 1, 5, 8, 30])
def test_a_wrong_number_of_fds_closes_all_of_them_and_drops_the_connection(
    pair: tuple[socket.socket, socket.socket], packed: tuple[bytes, tuple[int, ...]], count: int
) -> None:
    data, fds = packed
    before = open_fds()
    send_raw(pair[0], data, (fds * 20)[:count])
    with pytest.raises(DescriptorError):
        vks.SurfaceDescriptor.recv(pair[1], 5)
    assert pair[1].fileno() == -1
    assert len(open_fds()) == len(before) - 1
    with pytest.raises(OSError, match=r"Broken pipe|not connected|reset"):
        pair[0].send(b"x", socket.MSG_NOSIGNAL)


@pytest.mark.rule("X13")
def test_a_truncated_message_closes_its_fds_and_drops_the_connection(
    pair: tuple[socket.socket, socket.socket], packed: tuple[bytes, tuple[int, ...]]
) -> None:
    data, fds = packed
    before = open_fds()
    send_raw(pair[0], data[:50], fds)
    pair[0].close()
    with pytest.raises(DescriptorError):
        vks.SurfaceDescriptor.recv(pair[1], 5)
    assert len(open_fds()) == len(before) - 2


@pytest.mark.rule("X13")
def test_a_receiver_without_a_free_fd_does_not_blame_the_message(
    pair: tuple[socket.socket, socket.socket], surface: vks.Surface
) -> None:
    with surface.export() as descriptor:
        descriptor.send(pair[0])
    before = open_fds()
    with no_fd_left(), pytest.raises(DescriptorError, match="this process has no file descriptor free"):
        vks.SurfaceDescriptor.recv(pair[1], 5)
    assert len(open_fds()) == len(before) - 1


def test_a_closed_connection_is_an_end_of_file(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()
    with pytest.raises(EOFError):
        vks.SurfaceDescriptor.recv(pair[1], 5)


def test_receiving_times_out_and_leaves_the_connection_usable(
    pair: tuple[socket.socket, socket.socket], surface: vks.Surface
) -> None:
    for timeout in (0, 0.02):
        with pytest.raises(TimeoutError):
            vks.SurfaceDescriptor.recv(pair[1], timeout)
    with surface.export() as descriptor:
        descriptor.send(pair[0])
    vks.SurfaceDescriptor.recv(pair[1], 5).close()


@pytest.mark.parametrize("timeout", [1e9, 10**400])
def test_a_huge_timeout_waits_for_what_comes(
    pair: tuple[socket.socket, socket.socket], surface: vks.Surface, timeout: float
) -> None:
    with surface.export() as descriptor:
        sender = threading.Timer(0.05, descriptor.send, (pair[0], timeout))
        sender.start()
        vks.SurfaceDescriptor.recv(pair[1], timeout).close()
        sender.join()


def test_a_wait_longer_than_one_poll_goes_on(
    pair: tuple[socket.socket, socket.socket], surface: vks.Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_LONGEST_POLL", 1)
    with surface.export() as descriptor:
        sender = threading.Timer(0.05, descriptor.send, (pair[0],))
        sender.start()
        vks.SurfaceDescriptor.recv(pair[1], 5).close()
        sender.join()
    with pytest.raises(TimeoutError):
        vks.SurfaceDescriptor.recv(pair[1], 0.02)


def test_bytes_and_fds_of_another_type_are_type_errors_and_the_fds_are_closed(
    packed: tuple[bytes, tuple[int, ...]],
) -> None:
    data, fds = packed
    before = len(open_fds())
    for strange in (None, data.decode("latin-1"), 5, [1]):
        with pytest.raises(TypeError, match="data must be bytes, not"):
            vks.SurfaceDescriptor.from_bytes(strange, duplicates(fds))  # type: ignore[arg-type]
    for one in ("a", None, 1.0):
        with pytest.raises(TypeError, match=r"fds\[2\] must be an integer"):
            vks.SurfaceDescriptor.from_bytes(data, [*duplicates(fds[:2]), one])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="fds must be a sequence of file descriptors, not NoneType"):
        vks.SurfaceDescriptor.from_bytes(data, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"fds\[0\] is -1; allowed is 0 to"):
        vks.SurfaceDescriptor.from_bytes(data, [-1])
    assert len(open_fds()) == before


@pytest.mark.rule("X14")
def test_a_flood_of_fds_meets_a_quota_and_the_connection_is_dropped(
    pair: tuple[socket.socket, socket.socket], device: vks.Device
) -> None:
    fence = device.create_fence()
    fence.export().close()  # its page exists from the first export on
    before = len(open_fds())
    kept: list[vks.FenceDescriptor] = []
    with fence.export() as descriptor, pytest.raises(DescriptorError, match="that a peer may have"):  # noqa: PT012
        while len(kept) < 10_000:
            descriptor.send(pair[0], 5)
            kept.append(vks.FenceDescriptor.recv(pair[1], 5))
    assert transport.quota() // 4 <= sum(d.fd_count for d in kept) <= transport.quota()
    for each in kept:
        each.close()
    assert len(open_fds()) == before - 1
    one, two = socket.socketpair()
    with one, two, fence.export() as descriptor:
        descriptor.send(one)
        vks.FenceDescriptor.recv(two, 5).close()


@pytest.mark.rule("X14")
def test_a_sender_waits_while_the_receivers_queue_is_full(device: vks.Device) -> None:
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, two, device.create_fence().export() as descriptor:
        sent = 0
        with pytest.raises(TimeoutError):  # noqa: PT012
            while sent < 100_000:
                descriptor.send(one, 0)
                sent += 1
        assert sent
        receiver = threading.Thread(
            target=lambda: [vks.FenceDescriptor.recv(two, 5).close() for _ in range(sent + 1)], daemon=True
        )
        receiver.start()
        descriptor.send(one, 5)
        receiver.join(10)
        assert not receiver.is_alive()


@pytest.mark.rule("X14")
def test_a_sender_with_too_many_fds_in_flight_waits_until_some_are_received(device: vks.Device) -> None:
    # ETOOMANYREFS is for processes without CAP_SYS_RESOURCE and CAP_SYS_ADMIN: said here by a socket of our own.
    class Crowded(socket.socket):
        refusals = 3

        def sendmsg(self, *args: object) -> int:
            if self.refusals:
                self.refusals -= 1
                raise OSError(109, "Too many references: cannot splice")
            return super().sendmsg(*args)  # type: ignore[arg-type]

    one, two = socket.socketpair()
    with two, Crowded(fileno=one.detach()) as crowded, device.create_fence().export() as descriptor:
        descriptor.send(crowded, 5)
        vks.FenceDescriptor.recv(two, 5).close()
        crowded.refusals = 10**6
        with pytest.raises(TimeoutError, match="in flight"):
            descriptor.send(crowded, 0.05)


@pytest.mark.rule("X19")
def test_a_peer_of_another_user_is_refused(
    pair: tuple[socket.socket, socket.socket], surface: vks.Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    with surface.export() as descriptor:
        descriptor.send(pair[0])
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(DescriptorError, match=f"the peer is user {os.getuid()}, this process user 54321"):
        vks.SurfaceDescriptor.recv(pair[1], 5)
    assert pair[1].fileno() == -1


def test_other_sockets_are_refused(surface: vks.Surface) -> None:
    with surface.export() as descriptor, socket.socket(socket.AF_INET) as inet:
        with pytest.raises(ValueError, match="AF_UNIX"):
            descriptor.send(inet)
        with pytest.raises(TypeError, match=r"socket\.socket, not int"):
            descriptor.send(3)  # type: ignore[arg-type]


def test_receiving_works_at_the_fd_limit_by_refusing(surface: vks.Surface) -> None:
    def child() -> None:
        one, two = socket.socketpair()
        descriptor = surface_descriptor
        descriptor.send(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        with contextlib.suppress(OSError):
            while True:
                os.dup(0)
        with pytest.raises(DescriptorError):
            vks.SurfaceDescriptor.recv(two, 5)
        assert two.fileno() == -1

    with surface.export() as surface_descriptor:
        in_child(child)


@pytest.mark.rule("X20")
def test_a_fence_page_cannot_be_written_or_resized_by_a_holder_of_its_fd(device: vks.Device) -> None:
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
    page = memfd(0, 0)
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
        start = HEADER_SIZE
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


@pytest.mark.rule("X17")
def test_memory_of_another_driver_is_refused_and_both_sides_are_named(device: vks.Device) -> None:
    surface = device.create_surface(16, 16)
    with surface.export() as descriptor:
        data, start = descriptor.to_bytes(), HEADER_SIZE
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
