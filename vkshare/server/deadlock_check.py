"""Deadlock check between clients: a wait that could never end is refused when it begins (rule R9)."""

from __future__ import annotations

import os
import threading

from vkshare.errors import InvalidCallError

Identity = tuple[int, int]  # device and inode of a fence's page: the same in every process


def identity(page_fd: int) -> Identity:
    """Returns the identity of the page that an fd refers to."""
    status = os.fstat(page_fd)
    return status.st_dev, status.st_ino


class WaitGraph:
    """Wait-for graph of the clients, and the client that signals each fence. Thread-safe.

    A client's requests run in order: requests behind a wait do not run. So a client must not wait
    for a value that its own later request would signal, nor for a client that waits for it,
    directly or through others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._signallers: dict[Identity, int] = {}
        self._waits: dict[int, int] = {}  # client -> the client that it waits for

    def add_fence(self, client: int, fence: Identity) -> None:
        """Records that the client's requests signal this fence."""
        with self._lock:
            self._signallers[fence] = client

    def remove_fence(self, fence: Identity) -> None:
        """Forgets a fence that is closed."""
        with self._lock:
            self._signallers.pop(fence, None)

    def signaller(self, fence: Identity) -> int | None:
        """Returns the client whose requests signal the fence; None: no client of this server."""
        with self._lock:
            return self._signallers.get(fence)

    def begin_wait(self, client: int, signaller: int | None) -> None:
        """Records that `client` waits for a value that `signaller` has not announced. InvalidCallError: a cycle."""
        if signaller is None:
            return
        with self._lock:
            after: int | None = signaller
            while after is not None:
                if after == client:
                    raise InvalidCallError(_why(client, signaller))
                after = self._waits.get(after)
            self._waits[client] = signaller

    def end_wait(self, client: int) -> None:
        """Removes the client's wait."""
        with self._lock:
            self._waits.pop(client, None)


def _why(client: int, signaller: int) -> str:
    if client == signaller:
        return "only a later request of this client could signal that value: submit the request that signals it first"
    return (
        f"client {signaller}, which must signal that value, waits for this client: submit what that "
        "client waits for first"
    )
