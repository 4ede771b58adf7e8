"""File descriptors from strangers: what they are, before anything is mapped (rule X15)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable, Sequence

from vkshare.errors import DescriptorError

# The pages cannot shrink under a mapping (SIGBUS) nor grow past what was checked.
_NEEDED_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def close_all(fds: Iterable[int]) -> None:
    """Closes them; an fd that is none is left out."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def duplicate(fd: int) -> int:
    """A CLOEXEC duplicate."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def duplicate_all(fds: Sequence[int]) -> tuple[int, ...]:
    """CLOEXEC duplicates of all, or none: nothing leaks when it fails half-way."""
    made: list[int] = []
    try:
        for fd in fds:
            made.append(duplicate(fd))
    except BaseException:
        close_all(made)
        raise
    return tuple(made)


def close_unless_driver_did(duplicate: int, original: int) -> None:
    """Closes the duplicate of a refused fd. lavapipe 25 has done so; it may be another thread's file by now."""
    with contextlib.suppress(OSError):
        if os.path.sameopenfile(duplicate, original):
            os.close(duplicate)


def check_open(what: str, fd: int) -> os.stat_result:
    """DescriptorError unless `fd` is open."""
    try:
        return os.fstat(fd)
    except OSError as error:
        raise DescriptorError(f"the {what}'s fd cannot be used: {error.strerror}") from None


def check_page(fd: int) -> None:
    """A control page must be a memfd that cannot change its size. What is in it, the C core checks."""
    _check_seals("shared page", fd, check_open("shared page", fd))


def check_memory(fd: int, kind: str, size: int) -> None:
    """An image's memory: a sealed memfd, or ("opaque_fd") what a driver gave, but nothing that cannot be memory."""
    status = check_open("image memory", fd)
    if kind == "memfd":
        _check_seals("image memory", fd, status)
    if stat.S_ISREG(status.st_mode):
        _seals("image memory", fd)
        if status.st_size < size:
            raise DescriptorError(f"the image memory has {status.st_size} bytes; the descriptor says {size}")
    elif not stat.S_ISCHR(status.st_mode) and stat.S_IFMT(status.st_mode) != 0:  # 0: an anonymous inode (dma-buf)
        raise DescriptorError("the image memory's fd is a socket, pipe, folder or block device")


def _check_seals(what: str, fd: int, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise DescriptorError(f"the {what}'s fd is not a memfd")
    if _seals(what, fd) & _NEEDED_SEALS != _NEEDED_SEALS:
        raise DescriptorError(f"the {what}'s memfd is not sealed against shrinking and growing")


def _seals(what: str, fd: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise DescriptorError(f"the {what}'s fd is a file on disk, not a memfd") from None
