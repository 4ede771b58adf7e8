"""File descriptors from other processes: checks of their kind before anything is mapped (rule X15)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from collections.abc import Iterable, Sequence

from vkshare.errors import DescriptorError
from vkshare.util import shared_memory

NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC)  # a later call may succeed
_ROOM_FDS = 16
_ROOM_BYTES = 1 << 26


def check_room() -> None:
    """Raises OSError if too few file descriptors or too little memory are left, which may be a failure's cause.

    For errors of drivers, whose codes do not name that cause.
    """
    with contextlib.ExitStack() as made:
        for _ in range(_ROOM_FDS // 2):
            made.callback(close_all, os.pipe())
        made.enter_context(mmap.mmap(-1, _ROOM_BYTES))


def close_all(fds: Iterable[int]) -> None:
    """Closes the fds. Invalid file descriptors are ignored."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def close_all_of(fds: list[int]) -> None:
    """Closes the fds and empties the list. After an interruption the list has the fds that are still open.

    Python handles signals after calls and at the end of a loop's turn: not between pop() and close().
    """
    while fds:
        fd = fds[-1]
        del fds[-1]
        try:
            os.close(fd)
        except OSError:
            pass


def duplicate(fd: int) -> int:
    """A CLOEXEC duplicate."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def duplicate_all(fds: Sequence[int]) -> tuple[int, ...]:
    """Duplicates all fds with CLOEXEC, or none: an error half-way leaks nothing."""
    made: list[int] = []
    try:
        for fd in fds:
            made.append(duplicate(fd))
    except BaseException:
        close_all(made)
        raise
    return tuple(made)


def close_unless_driver_did(duplicate: int, original: int) -> None:
    """Closes the duplicate of a refused fd.

    Except where lavapipe 25 has closed it and another thread has reused its number.
    """
    with contextlib.suppress(OSError):
        if os.path.sameopenfile(duplicate, original):
            os.close(duplicate)


def check_open(what: str, fd: int) -> os.stat_result:
    """DescriptorError unless `fd` is open."""
    try:
        return os.fstat(fd)
    except OSError as error:
        raise DescriptorError(f"the {what}'s fd cannot be used: {error.strerror}") from None


def check_page(fd: int, *, writable: bool) -> None:
    """A control page must be a memfd that cannot change its size. The C core checks the page's contents."""
    shared_memory.memfd_check(fd, "shared page", writable=writable, size=0)


def check_memory(fd: int, kind: str, size: int) -> None:
    """Refuses an image's memory that is neither a sealed memfd nor a file of the allowed kind.

    The latter is an fd that a driver exported ("opaque_fd").
    """
    shared_memory.memory_check(fd, is_memfd=kind == "memfd", size=size)
