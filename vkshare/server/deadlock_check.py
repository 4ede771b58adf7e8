"""Who waits for whom: waits that could never end are refused when they begin (rule R9)."""

from __future__ import annotations

import os
import threading

from vkshare.errors import InvalidCallError

Identity = tuple[int, int]  # device and inode of a fence's page: the same for whoever has it open


def identity(page_fd: int) -> Identity:
    """Which page an fd is of."""
    status = os.fstat(page_fd)
    return status.st_dev, status.st_ino


class WaitGraph:
    """Which client has which fence, and which client waits for which. Thread-safe.

    A client's requests have one order, and while one waits those behind it do not run. So a client cannot wait for what
    it is to signal itself later; nor for a client that waits, directly or through others, for the one that asks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._signallers: dict[Identity, int] = {}
        self._waits: dict[int, int] = {}  # client -> the client that it waits for

    def add_fence(self, client: int, fence: Identity) -> None:
        """The client's requests signal this fence."""
        with self._lock:
            self._signallers[fence] = client

    def remove_fence(self, fence: Identity) -> None:
        """It is closed."""
        with self._lock:
            self._signallers.pop(fence, None)

    def signaller(self, fence: Identity) -> int | None:
        """The client whose requests signal it; None: nobody's here."""
        with self._lock:
            return self._signallers.get(fence)

    def begin_wait(self, client: int, owner: int | None) -> None:
        """`client` begins to wait for what `owner` has not promised yet. InvalidCallError: that cannot end."""
        if owner is None:
            return
        with self._lock:
            after: int | None = owner
            while after is not None:
                if after == client:
                    raise InvalidCallError(_why(client, owner))
                after = self._waits.get(after)
            self._waits[client] = owner

    def end_wait(self, client: int) -> None:
        """Its wait is over."""
        with self._lock:
            self._waits.pop(client, None)


def _why(client: int, owner: int) -> str:
    if client == owner:
        return "only a later request of this client could signal that value: submit what signals it first"
    return f"client {owner}, who is to signal that value, waits for this client: submit what it waits for first"
