"""The part of the server's loop without Python, which also answers no-ops (native/server/poll.h)."""

from __future__ import annotations

from vkshare import _native
from vkshare.util.library_calls import LibraryObject, check, ffi, lib

_MAX_EVENTS = 64
_NO_FAILURES = (lib.VKS_OK, lib.VKS_TIMEOUT, lib.VKS_INTERRUPTED)


class ServerPoll(LibraryObject):
    """Waits for events on a server's connections, and answers no-ops. For one thread.

    Interests and events are bits: 1 read, 2 write; and for events 4 closed, 8 protocol error.
    """

    def __init__(self) -> None:
        self._make("vks_server_poll", "ServerPoll", lib.vks_server_poll_create)
        self._events = ffi.new("vks_server_poll_event[]", _MAX_EVENTS)
        self._count = ffi.new("uint32_t *")

    def add(self, fd: int, token: int, interest: int) -> None:
        """Watch the fd, which the caller owns."""
        check(lib.vks_server_poll_add(self._pointer, fd, token, interest), "ServerPoll.add")

    def watch(self, fd: int, interest: int, answers_no_ops: bool) -> None:
        """Set the interest. answers_no_ops: no-ops are answered here and not returned."""
        check(lib.vks_server_poll_watch(self._pointer, fd, interest, answers_no_ops), "ServerPoll.watch")

    def remove(self, fd: int) -> None:
        """Stop watching the fd. Call it before the fd is closed."""
        lib.vks_server_poll_remove(self._pointer, fd)

    def set_generation(self, generation: int) -> None:
        """Set the device generation that a no-op must name to be answered here."""
        lib.vks_server_poll_set_generation(self._pointer, generation)

    def wait(self, timeout: float | None) -> list[tuple[int, int, tuple[int, ...]]]:
        """Return [(token, events, sequence numbers of no-ops that the caller must answer), ...].

        A signal ends the wait early.
        """
        pointer, deadline = self._pointer, _native.deadline(timeout)
        events, count = self._events, self._count
        count[0] = 0
        status = lib.vks_server_poll_wait(pointer, events, _MAX_EVENTS, count, deadline)
        if status not in _NO_FAILURES:
            check(status, "ServerPoll.wait")
        return [(found.token, found.events, tuple(found.unsent[0 : found.n_unsent])) for found in events[0 : count[0]]]

    @property
    def answered(self) -> int:
        """No-ops answered here, in total."""
        return int(lib.vks_server_poll_answered(self._pointer))
