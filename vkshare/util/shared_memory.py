"""Shared memory as the backends need it: memfds of fixed size, and checks of other processes' (native/shm/memory.h)."""

from __future__ import annotations

import mmap

from vkshare.util.library_calls import check, ffi, lib, take_fd

_CHUNK = 64 << 20  # bytes reserved between two moments at which Ctrl-C is handled


def memfd_create(name: str, size: int) -> int:
    """Return the fd of a new memfd whose size and seals are final, the caller's. OSError, UnsupportedError."""
    return take_fd(lambda cell: lib.vks_memfd_create(name.encode(), size, False, cell, ffi.NULL), "shared memory")


def memfd_check(fd: int, what: str, *, writable: bool, size: int) -> None:
    """DescriptorError unless another process's fd is a memfd of at least `size` bytes that can be mapped safely."""
    use = lib.VKS_MEMFD_WRITE if writable else lib.VKS_MEMFD_READ
    check(lib.vks_memfd_check(fd, what.encode(), use, size), "descriptor")


def memory_check(fd: int, *, is_memfd: bool, size: int) -> None:
    """DescriptorError unless another process's fd can be an image's memory."""
    check(lib.vks_memory_check(fd, is_memfd, size), "descriptor")


def memory_replace(own: int, fd: int, address: int, offset: int) -> int:
    """Map `fd` over a driver's mapping of its file `own`, from `address` to the mapping's end.

    Address 0 means from the file offset `offset`. Returns the file offset of the first replaced
    page.
    """
    first = ffi.new("uint64_t *", offset)
    check(lib.vks_memory_replace(own, fd, ffi.cast("void *", address), first), "image memory")
    replaced: int = first[0]
    return replaced


def memory_cover(own: int, fd: int, address: int) -> None:
    """Map the sealed memfd `fd` from its beginning over a driver's mapping of its file `own`, at `address`."""
    check(lib.vks_memory_cover(own, fd, ffi.cast("void *", address)), "image memory")


def memory_share(own: int, pages: int, offset: int) -> None:
    """Put the memfd `pages` in the place of an engine's memory, whose file is `own`, with its contents and for good.

    `offset` is where in both files the memory begins.
    """
    check(lib.vks_memory_share(own, pages, offset), "the memory of an engine's image")


def memory_find_shared(own: int) -> tuple[int, int]:
    """A new fd of the memfd that memory_share() put there, or -1, and where in it the memory begins."""
    offset = ffi.new("uint64_t *")
    pages = take_fd(lambda cell: lib.vks_memory_find_shared(own, cell, offset), "image memory")
    return pages, int(offset[0])


def memory_drop_unmapped() -> None:
    """Forget memory that engines have freed."""
    lib.vks_memory_drop_unmapped()


def memory_reserve(mapping: mmap.mmap, fd: int) -> None:
    """Allocate all pages of a mapping of `fd` now. OSError."""
    with ffi.from_buffer(mapping, require_writable=True) as pages:
        for at in range(0, len(pages), _CHUNK):
            size = min(_CHUNK, len(pages) - at)
            check(lib.vks_memory_reserve(fd, pages + at, size, at), "shared memory")
