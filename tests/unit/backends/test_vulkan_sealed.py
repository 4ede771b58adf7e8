"""Memory of software drivers: what a peer can write or cut off, no driver believes (backends/vulkan/sealed.py)."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.fd_counts import open_fds
from support.peer_processes import Peer

import vkshare as vks
from vkshare.backends.base import ImageSpec
from vkshare.errors import DescriptorError, UnsupportedError
from vkshare.formats import get
from vkshare.util import shared_memory

pytest_plugins = ["support.peer_processes"]
pytestmark = [pytest.mark.wheel, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

PAGE = os.sysconf("SC_PAGESIZE")
# {size, offset} as lavapipe has them at the start of its file: behind the end of it, and before the start.
HEADERS = {"behind": (1 << 24, 1 << 24), "before": (1 << 24, (1 << 64) - 0x100000), "huge": (1 << 46, PAGE)}


@pytest.fixture(autouse=True)
def _software(vks_adapter: vks.Adapter) -> None:
    if vks_adapter.backend != "vulkan" or vks_adapter.kind != "software":
        pytest.skip("of software Vulkan drivers")


@pytest.fixture
def image(backend: Any) -> Iterator[Any]:
    """An image of a backend, without a device above it."""
    tiling = "optimal" if "optimal" in backend.adapter.capabilities.tilings else "linear"
    made = backend.create_image(ImageSpec(64, 64, get("rgba8unorm"), tiling, frozenset({"render", "copy"})))
    yield made
    made.destroy()


def rewrite_header(fd: int, header: tuple[int, int]) -> None:
    """As a hostile peer does: the fields that lavapipe reads when it imports, and when it frees."""
    os.pwrite(fd, struct.pack("<QQ", *header), 0)
    os.pwrite(fd, struct.pack("<Q", header[1]), PAGE - 8)


def mapping_of(address: int) -> tuple[int, int]:
    """Inode of the file that is mapped there, and the bytes from there to the end of that mapping."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end, _, _, _, _, inode = re.match(r"(\w+)-(\w+) (\S+) (\w+) (\w+):(\w+) (\d+)", line).groups()  # type: ignore[union-attr]
            if int(start, 16) <= address < int(end, 16):
                return int(inode), int(end, 16) - address
    raise AssertionError(f"nothing is mapped at {address:#x}")


def has_header(image: Any) -> bool:
    return bool(image._pages_at)


# ---- what is in the file ---------------------------------------------------------------------------------------------


@pytest.mark.rule("X26")
@pytest.mark.parametrize("header", HEADERS)
def test_the_pixels_lie_in_the_files_own_pages_whatever_its_header_says(image: Any, backend: Any, header: str) -> None:
    memory = image.export()
    status = os.fstat(memory.fd)
    rewrite_header(memory.fd, HEADERS[header])
    opened = backend.open_image(image.spec, memory)
    for each in (image, opened):
        inode, there = mapping_of(each._memory.address)
        assert inode == status.st_ino
        assert there >= memory.size
    opened.destroy()


@pytest.mark.rule("X26")
@pytest.mark.parametrize("when", ["before it is opened", "after it was opened"])
@pytest.mark.parametrize("header", HEADERS)
def test_a_peer_that_rewrites_the_drivers_header_harms_nobody(
    device: vks.Device, peers: Callable[..., Peer], header: str, when: str
) -> None:
    peer = peers(validation=False)
    surface = device.create_surface(64, 64)
    if not has_header(surface._open_image()):
        pytest.skip("this driver's file begins with the pixels")
    with surface.export() as descriptor:
        if when.startswith("before"):
            rewrite_header(descriptor.memory_fd, HEADERS[header])
        theirs = peer.device.open_surface(descriptor)
        if when.startswith("after"):
            rewrite_header(descriptor.memory_fd, HEADERS[header])
    with surface.access(0, 1):
        surface.write(np.full(surface.shape, 7, np.uint8))
    theirs.acquire(1, 10)
    assert (theirs.read() == 7).all()
    theirs.release(0)
    theirs.close()  # the driver frees the memory
    surface.close()
    device._reap()
    again = device.create_surface(64, 64)
    with again.export() as descriptor:
        assert peer.device.open_surface(descriptor).width == 64


@pytest.mark.rule("X12", "X26")
def test_the_drivers_own_file_never_leaves_the_process(image: Any) -> None:
    own = image._driver_fd()
    assert not os.get_inheritable(own)
    with contextlib.closing(os.fdopen(own, "rb")), os.fdopen(image.export().fd, "rb") as shared:
        assert not os.path.sameopenfile(own, shared.fileno())
        assert os.fstat(own).st_size == os.fstat(shared.fileno()).st_size
        offset = image._pages_at
        assert os.pread(own, offset, 0) == os.pread(shared.fileno(), offset, 0)


def test_opening_takes_no_page_of_a_memory_that_has_holes(image: Any, backend: Any) -> None:
    memory = image.export()
    sparse = shared_memory.memfd_create("sparse", os.fstat(memory.fd).st_size)
    os.close(memory.fd)
    status = os.dup(sparse)
    opened = backend.open_image(image.spec, dataclasses.replace(memory, fd=sparse))
    assert os.fstat(status).st_blocks == 0
    opened.destroy()
    os.close(status)


# ---- what the file may be --------------------------------------------------------------------------------------------


@pytest.mark.rule("X15", "X16", "X26")
@pytest.mark.parametrize("change", [-PAGE, -1, 1, PAGE, 1 << 40])
def test_a_file_that_is_not_as_large_as_the_drivers_own_is_refused(image: Any, backend: Any, change: int) -> None:
    before = open_fds()
    memory = image.export()
    size = os.fstat(memory.fd).st_size
    os.close(memory.fd)
    forged = dataclasses.replace(memory, fd=shared_memory.memfd_create("forged", size + change))
    with pytest.raises(DescriptorError, match=f"has {size + change} bytes, and exactly {size} are needed"):
        backend.open_image(image.spec, forged)
    assert open_fds() == before


@pytest.mark.rule("X26")
def test_pages_are_put_over_a_drivers_own_mapping_only(image: Any) -> None:
    own, memory = image._driver_fd(), image.export()
    unmapped = shared_memory.memfd_create("unmapped", os.fstat(own).st_size)
    address = image._memory.address
    array = np.zeros(1 << 20, np.uint8)
    try:
        for where, offset in ((array.ctypes.data, 0), (address, 0)):  # the second is memory.fd's by now
            with pytest.raises(UnsupportedError, match="has not mapped the file"):
                shared_memory.memory_replace(own, memory.fd, where, offset)
        with pytest.raises(UnsupportedError, match="has not mapped the file"):
            shared_memory.memory_replace(unmapped, memory.fd, 0, 0)
        with pytest.raises(UnsupportedError, match="begins within a page"):
            shared_memory.memory_replace(memory.fd, unmapped, address + 8, 0)
        with pytest.raises(OSError, match="driver's fd cannot be used"):
            shared_memory.memory_replace(999_999, memory.fd, 0, 0)
        assert mapping_of(address)[0] == os.fstat(memory.fd).st_ino
        assert not array.any()
    finally:
        for fd in (own, memory.fd, unmapped):
            os.close(fd)


def test_a_driver_whose_memory_the_cpu_cannot_see_is_unsupported(
    backend: Any, image: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_fds()
    monkeypatch.setattr(type(backend.context.physical), "is_mappable", lambda *_: False)
    with pytest.raises(UnsupportedError, match="does not let the CPU see it"):
        backend.create_image(image.spec)
    assert open_fds() == before


@pytest.mark.rule("X15", "X26")
def test_nobody_can_change_the_size_or_the_seals_of_what_is_exported(image: Any) -> None:
    memory = image.export()
    size = os.fstat(memory.fd).st_size
    for change in (0, size - 1, size + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, change)
    with pytest.raises(PermissionError):
        fcntl.fcntl(memory.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    os.close(memory.fd)
