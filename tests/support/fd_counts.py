"""A process's file descriptors, counted."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
from collections.abc import Iterator

MANY = 4096


def open_fds() -> set[int]:
    """This process's fds, but for the one that lists them and those of garbage."""
    gc.collect()
    return {fd for fd in map(int, os.listdir("/proc/self/fd")) if _is_open(fd)}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def no_fd_left(spare: int = 0) -> Iterator[None]:
    """For this process, but so many; its limit is as before afterwards.

    The limit stays far above the fds that are open, because it is one for the fds that all processes of the user have
    in flight, too (unix(7)): a lower one lets a send fail with ETOOMANYREFS.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most[0], MANY), most[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                fillers.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(spare):
            os.close(fillers.pop())
        yield
    finally:
        for filler in fillers:
            os.close(filler)
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
