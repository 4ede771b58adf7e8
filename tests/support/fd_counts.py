"""A process's file descriptors, counted."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
from collections.abc import Iterator


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
    """For this process, but so many; its limit is as before afterwards."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_fds()) + 4 + spare, most[1]))
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
