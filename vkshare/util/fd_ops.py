"""File descriptors: duplicated and closed, all or none."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from collections.abc import Iterable, Sequence

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

    Python handles signals after calls and at the end of a loop's turn: not between pop() and
    close().
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
