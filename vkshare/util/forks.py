"""Objects that belong to the process that made them (rule X11).

Their use in a forked child is refused, and the child closes its copies of connections and listening sockets.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from _thread import RLock  # the type: threading.RLock may be a function
from typing import Protocol, Self, TypeVar

from vkshare.errors import InvalidCallError


class OwnLock(RLock):  # type: ignore[misc]  # CPython lets it be a base, its stub does not
    """The reentrant lock of an object that a forked child may not use.

    In the child the lock raises instead of waiting, because a thread of the parent may hold it.

    ``with`` runs the methods of the C type. One in Python that ends with acquire() would leave the lock held if a
    KeyboardInterrupt came between the two.

    Raises
    ------
    InvalidCallError
        In a forked child, by check() and by ``with``.
    """

    __slots__ = ("_kind", "_pid")
    _here = staticmethod(os.getpid)  # a reference: the module's globals may be cleared before destructors run at exit

    def __new__(cls, _: object) -> Self:
        return super().__new__(cls)

    def __init__(self, owner: object) -> None:
        self._kind = type(owner).__name__
        self._pid = self._here()
        _locks.add(self)

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


class _ParentLock(OwnLock):  # type: ignore[misc]
    """The class of an OwnLock in a forked child."""

    __slots__ = ()

    def __enter__(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.check()
        return False


class _Closable(Protocol):
    def close(self) -> object: ...


_ClosableT = TypeVar("_ClosableT", bound=_Closable)

_locks: weakref.WeakSet[OwnLock] = weakref.WeakSet()
_connections: weakref.WeakSet[_Closable] = weakref.WeakSet()


def close_in_child(connection: _ClosableT) -> _ClosableT:
    """Has forked children close their copies of a socket, or of an object that has one. Returns it.

    A peer sees the end of a connection, and a port is free, only once no process has the socket.
    """
    _connections.add(connection)
    return connection


def _leave_to_parent() -> None:
    for lock in list(_locks):
        lock.__class__ = _ParentLock
    for connection in list(_connections):
        with contextlib.suppress(OSError):
            connection.close()
    _connections.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
