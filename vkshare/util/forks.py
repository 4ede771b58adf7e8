"""Objects that belong to the process that made them: their use in a forked child is refused (rule X11)."""

from __future__ import annotations

import os
import threading

from vkshare.errors import InvalidCallError


class OwnLock:
    """The reentrant lock of an object that a forked child may not use.

    In the child the lock raises instead of waiting, because a thread of the parent may hold it.

    Raises
    ------
    InvalidCallError
        In a forked child, by check() and by ``with``.
    """

    __slots__ = ("_kind", "_lock", "_pid")
    _here = staticmethod(os.getpid)  # a reference: the module's globals may be cleared before destructors run at exit

    def __init__(self, owner: object) -> None:
        self._kind = type(owner).__name__
        self._lock = threading.RLock()
        self._pid = self._here()

    @property
    def is_here(self) -> bool:
        """Whether this process made the object."""
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
