"""A client's requests on their way to its rendering thread and back (native/server/work_ring.h)."""

from __future__ import annotations

import itertools
from typing import Any

from vkshare.util import library_calls
from vkshare.util.event_queue import EventQueue, pointer_of
from vkshare.util.library_calls import LibraryObject, check, ffi, lib

_TICKET = ffi.typeof("void *")


class WorkRing(LibraryObject):
    """A ring of requests. The C core passes tickets on; the requests and their results stay here.

    The loop calls give(), collect(), drop() and close(), the rendering thread take(), done() and
    leave().
    """

    def __init__(self, event_queue: EventQueue, token: int) -> None:
        events, token = pointer_of(event_queue), library_calls.u64("token", token)
        self._make("vks_work_ring", "WorkRing", lib.vks_work_ring_create, events, token)
        self._tickets = itertools.count(1)
        self._requests: dict[int, Any] = {}  # by ticket
        self._results: dict[int, Any] = {}
        self._collected = ffi.new("uintptr_t[2]")  # a vks_command
        self._command = ffi.cast("vks_command *", self._collected)
        self._taken = ffi.new("uintptr_t *")  # the rendering thread's ticket
        self._request = ffi.cast("void **", self._taken)

    # ---- the loop ------------------------------------------------------------------------------------------------

    def give(self, request: object) -> None:
        """Add a request for the rendering thread. VkshareError: the ring is full. ClosedError."""
        pointer, ticket = self._pointer, next(self._tickets)
        self._requests[ticket] = request
        try:
            check(lib.vks_work_ring_give(pointer, ffi.cast(_TICKET, ticket)), "WorkRing.give")
        except Exception:
            del self._requests[ticket]
            raise

    def collect(self) -> tuple[Any, Any] | None:
        """Return (request, result) of the next completed request, or None."""
        if not lib.vks_work_ring_collect(self._pointer, self._command):
            return None
        ticket = self._collected[0]
        return self._requests.pop(ticket), self._results.pop(ticket)

    def drop(self) -> Any:
        """After close() and leave(), return the next request that is not completed, or None."""
        if not lib.vks_work_ring_drop(self._pointer, ffi.cast("void **", self._collected)):
            return None
        return self._requests.pop(self._collected[0])

    def close(self) -> None:
        """The rendering thread takes no further request. Idempotent."""
        lib.vks_work_ring_close(self._pointer)

    @property
    def has_left(self) -> bool:
        """Whether the rendering thread has called leave()."""
        return bool(lib.vks_work_ring_has_left(self._pointer))

    # ---- the rendering thread ------------------------------------------------------------------------------------

    def take(self) -> Any:
        """Wait for the next request, and return it. None: the ring is closed."""
        while status := lib.vks_work_ring_take(self._pointer, self._request):
            if status == lib.VKS_CLOSED:
                return None
            if status != lib.VKS_INTERRUPTED:
                check(status, "WorkRing.take")
        return self._requests[self._taken[0]]

    def done(self, result: object) -> None:
        """Complete the request that was taken, and put the token into the event queue."""
        self._results[self._taken[0]] = result
        lib.vks_work_ring_done(self._pointer, ffi.NULL)

    def leave(self) -> None:
        """Announce the thread's exit, and put the token into the event queue."""
        lib.vks_work_ring_leave(self._pointer)
