"""Memory of the CPU backend: taken ahead without stopping other threads, and given back where that is interrupted."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from support.fd_counts import open_fds

from vkshare.backends import host_memory
from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.backends.cpu import memory, probe
from vkshare.errors import DescriptorError, UnsupportedError
from vkshare.formats import get
from vkshare.util import shared_memory

pytestmark = pytest.mark.wheel

LARGE = ImageSpec(8192, 8192, get("rgba8unorm"), "linear", frozenset({"copy"}))  # 256 MiB
SMALL = ImageSpec(24, 10, get("rgba8unorm"), "linear", frozenset({"copy"}))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The fds that memory is made with, as they are made."""
    fds: list[int] = []
    make = shared_memory.memfd_create

    def note(name: str, size: int) -> int:
        fds.append(make(name, size))
        return fds[-1]

    monkeypatch.setattr(shared_memory, "memfd_create", note)
    return fds


@contextlib.contextmanager
def watching(look: Callable[[], bool]) -> Iterator[None]:
    """Has another thread call `look` again and again, until it is True or the block ends."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set() and not look():
            pass

    watcher = threading.Thread(target=run)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def blocks(fds: list[int]) -> int:
    return os.fstat(fds[0]).st_blocks if fds else 0


@pytest.mark.rule("X8")
def test_other_threads_run_while_the_pages_of_a_large_surface_are_taken(made: list[int]) -> None:
    seen: set[int] = set()

    def look() -> bool:
        seen.add(blocks(made))
        return False

    with watching(look):
        image = memory.create(LARGE)
    everything = blocks(made)
    assert everything * 512 == LARGE.width * LARGE.height * 4
    assert len(seen - {0, everything}) > 3, "the other thread saw the memory grow"
    image.destroy()


def test_ctrl_c_ends_the_taking_of_pages_and_leaves_no_memory_behind(made: list[int]) -> None:
    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    main, before = threading.main_thread().ident, open_fds()
    assert main is not None

    def look() -> bool:
        if blocks(made):
            signal.pthread_kill(main, signal.SIGUSR1)
            return True
        return False

    old = signal.signal(signal.SIGUSR1, stop)
    try:
        with watching(look), pytest.raises(Stop):
            memory.create(LARGE)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert open_fds() == before


@pytest.mark.rule("X16")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"offset": 4096}, "linear host memory at offset 0"),
        ({"stride": 95}, "stride of 95; allowed is 96 to 128"),
        ({"stride": 129}, "stride of 129; allowed is 96 to 128"),
        ({"size": 8192}, "has 8192 bytes; 10 rows of 128 need exactly 4096"),
        ({"size": 0}, "has 0 bytes"),
        ({"size": 1 << 62}, "need exactly 4096"),
    ],
)
def test_memory_of_another_size_than_its_rows_need_is_refused_and_its_fd_closed(
    changes: dict[str, int], text: str
) -> None:
    before = open_fds()
    fields = {"size": 4096, "offset": 0, "stride": 128, **changes}
    fd = shared_memory.memfd_create("forged", fields["size"] or 4096)
    handle = MemoryHandle("memfd", fd, fields["size"], fields["offset"], fields["stride"], False, b"", b"")
    with pytest.raises(DescriptorError, match=text):
        memory.open_memory(SMALL, handle)
    assert open_fds() == before


def test_memory_of_a_driver_is_unsupported_and_its_fd_closed() -> None:
    before = open_fds()
    handle = MemoryHandle("opaque_fd", os.dup(0), 4096, 0, 128, False, b"", b"")
    with pytest.raises(UnsupportedError, match="belongs to a Vulkan driver"):
        memory.open_memory(SMALL, handle)
    assert open_fds() == before


@pytest.mark.parametrize("name", ["r8unorm", "rgba8unorm", "rgba32float"])
@pytest.mark.parametrize("width", [1, 15, 16, 17, 1000])
def test_rows_are_padded_to_64_bytes_and_memory_to_whole_pages(name: str, width: int) -> None:
    spec = ImageSpec(width, 7, get(name), "linear", frozenset({"copy"}))
    stride, size = host_memory.layout(spec)
    assert stride % host_memory.ROW_ALIGNMENT == 0
    assert 0 <= stride - width * spec.format.bytes_per_pixel < host_memory.ROW_ALIGNMENT
    assert size % mmap.PAGESIZE == 0
    assert 0 <= size - stride * 7 < mmap.PAGESIZE
    image = memory.create(spec)
    handle = image.export()
    assert (handle.stride, handle.size, os.fstat(handle.fd).st_size) == (stride, size, size)
    memory.open_memory(spec, handle).destroy()
    image.destroy()


@pytest.mark.rule("X22")
def test_a_trial_without_room_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(spec: ImageSpec) -> memory.CpuMemory[ImageSpec]:
        raise OSError(errno.EMFILE, "no fd is left")

    probe.adapter.cache_clear()
    with monkeypatch.context() as starved:
        starved.setattr(memory, "create", refuse)
        with pytest.raises(OSError, match="no fd is left"):
            probe.adapter()
    assert probe.adapter().capabilities.tilings == {"linear"}


@pytest.mark.rule("X22")
def test_the_cpu_adapter_claims_nothing_where_its_trial_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedError("memfd", "the kernel refused it")

    monkeypatch.setattr(memory, "open_memory", refuse)
    can = probe.adapter.__wrapped__().capabilities
    assert (can.tilings, can.surface_memory, can.formats, can.host_visible) == (frozenset(),) * 3 + (False,)
    assert "refused" in can.reasons["linear"]
    assert "refused" in can.reasons["memfd"]
