"""Event queues of the C core: one eventfd for any number of outstanding events."""

from __future__ import annotations

from typing import Any

from vkshare.util import arguments, statuses
from vkshare.util.library_calls import LibraryObject, ffi, lib

_AT_ONCE = 64


class EventQueue(LibraryObject):
    """One eventfd for any number of outstanding events. An object's _notify(event_queue, token) asks for one."""

    def __init__(self) -> None:
        self._make("vks_event_queue", "EventQueue", lib.vks_event_queue_create)

    def fileno(self) -> int:
        """Return the eventfd, readable while there are events. The event queue owns it."""
        return int(lib.vks_event_queue_fd(self._pointer))

    def drain(self) -> list[tuple[int, BaseException | None]]:
        """Return (token, None), or (token, why it can never happen), of each event since the last call."""
        events: list[tuple[int, BaseException | None]] = []
        tokens, results = ffi.new("uint64_t[]", _AT_ONCE), ffi.new("vks_status[]", _AT_ONCE)
        count = _AT_ONCE
        while count == _AT_ONCE:
            count = lib.vks_event_queue_drain(self._pointer, tokens, results, _AT_ONCE)
            events += [(tokens[i], _error(results[i])) for i in range(count)]
        return events


def pointer_of(event_queue: EventQueue) -> Any:
    """Return its vks_event_queue; TypeError: it is another object."""
    arguments.instance("event_queue", event_queue, EventQueue)
    return event_queue._pointer


def _error(status: int) -> BaseException | None:
    """The event failed on another thread: this thread's last error is of another call."""
    return None if status == lib.VKS_OK else statuses.exception(status, "event", None, 0)
