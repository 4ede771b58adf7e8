"""What belongs to the process that made it: its use in a forked child is refused (rule X11)."""

from __future__ import annotations

import os
import threading

from vkshare.errors import InvalidCallError


class OwnLock:
    """The reentrant lock of a thing that a forked child may not use: there it raises and is not waited for, since a
    thread that the child does not have may hold it.

    Raises
    ------
    InvalidCallError
        In a forked child, by check() and by ``with``.
    """

    __slots__ = ("_kind", "_lock", "_pid")
    _here = staticmethod(os.getpid)  # not by the module's name, which may be gone when destructors run at exit

    def __init__(self, owner: object) -> None:
        self._kind = type(owner).__name__
        self._lock = threading.RLock()
        self._pid = self._here()

    @property
    def is_here(self) -> bool:
        """Whether this is the process that made it."""
        return self._pid == self._here()

    def check(self) -> None:
        if self._pid != self._here():
            raise InvalidCallError(
                f"this {self._kind} was made by process {self._pid}, before os.fork(): use and close it there; make "
                'another here, or start processes with multiprocessing.get_context("spawn")'
            )

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()
