"""An acquire that waits for ownership without a thread."""

from __future__ import annotations

from typing import Any

from vkshare import _native
from vkshare.util.event_queue import EventQueue, pointer_of
from vkshare.util.library_calls import TIMEOUT, check, keep, lib, u64


class PendingAcquire:
    """An acquire that waits for ownership. Created by Surface._acquire_start()."""

    __slots__ = ("__weakref__", "_kept", "_surface", "_work")

    def __init__(self, surface: _native.Surface, cell: Any) -> None:
        self._surface, self._kept = surface, keep(cell)
        self._work = cell[0]

    def is_done(self) -> bool:
        """Returns whether the surface is owned now; raises if it never can be."""
        status = lib.vks_work_poll(self._work)
        if status != TIMEOUT:
            check(status, "Surface.acquire_async")
        return bool(status != TIMEOUT)

    def cancel(self) -> bool:
        """Returns True: cancelled. False: the surface was acquired already."""
        status = lib.vks_work_cancel(self._work)
        if status == lib.VKS_FORKED:
            check(status, "Surface.acquire_async")
        return bool(status != lib.VKS_OK)

    def _notify(self, event_queue: EventQueue, token: int) -> None:
        """Put the token into the event queue when the acquire is complete or has failed."""
        events = pointer_of(event_queue)
        check(lib.vks_work_notify(self._work, events, u64("token", token)), "PendingAcquire._notify")
