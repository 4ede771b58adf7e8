"""A client's handles of surfaces and fences in a server.

Each has a handle of the client's own device if the client has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkshare.core.fence import Fence
from vkshare.core.surface import Surface
from vkshare.errors import ClosedError
from vkshare.ipc.descriptors import FenceDescriptor, SurfaceDescriptor
from vkshare.server import messages as m
from vkshare.util.closing import Scoped

if TYPE_CHECKING:
    from vkshare.server.client import Client


class ServedHandle(Scoped):
    """A surface or fence that the server has for this client."""

    def __init__(self, client: Client, number: int) -> None:
        self._client = client
        self.id = number
        self.is_closed = False

    def _checked_id(self, client: Client) -> int:
        client._lock.check()
        if self._client is not client:
            raise ValueError(f"{self!r} belongs to another client: export it there, and open it here")
        if self.is_closed:
            raise ClosedError(f"{self!r} is closed")
        return self.id

    def close(self) -> None:
        raise NotImplementedError

    def _close_both(self, opcode: m.Op, *own: Surface | Fence | SurfaceDescriptor | FenceDescriptor | None) -> None:
        """Closes the object in the server and `own`, the local objects, here. Once."""
        self._client._lock.check()
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self._client._closed(opcode, self)
        finally:  # also after Ctrl-C
            for thing in own:
                if thing is not None:
                    thing.close()


class ServedSurface(ServedHandle):
    """A surface with a handle in the server and another in this process.

    Attributes
    ----------
    id, width, height, format
        Its id in the server, its size in pixels and its format.
    surface
        The handle of the client's own device; None if the client has none.
    descriptor
        For opening the surface elsewhere, if there is no `surface`; else None.
    """

    def __init__(
        self, client: Client, number: int, spec: Any, surface: Surface | None, descriptor: SurfaceDescriptor | None
    ) -> None:
        super().__init__(client, number)
        self.width: int = spec.width
        self.height: int = spec.height
        self.format: str = spec.format.name
        self.surface = surface
        self.descriptor = descriptor
        self._owns_surface = surface is not None

    def close(self) -> None:
        """Closes the surface here and in the server.

        Idempotent. A surface passed to open_surface() stays its caller's.
        """
        self._close_both(m.Op.CLOSE_SURFACE, self.surface if self._owns_surface else None, self.descriptor)

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        return f"<vkshare.ServedSurface {self.id}, {self.width}x{self.height} {self.format}{state}>"


class ServedFence(ServedHandle):
    """A fence of the server's device. `fence` is the handle of the client's own device, or None; see ServedSurface."""

    def __init__(
        self, client: Client, number: int, fence: Fence | None, descriptor: FenceDescriptor | None, *, owns: bool
    ) -> None:
        super().__init__(client, number)
        self.fence = fence
        self.descriptor = descriptor
        self._owns_fence = owns

    def close(self) -> None:
        """Closes the fence here and in the server: its waiters get AbandonedError. Idempotent."""
        self._close_both(m.Op.CLOSE_FENCE, self.fence if self._owns_fence else None, self.descriptor)

    def wait(self, value: int, timeout: float | None = None) -> None:
        """Waits, in the order of this client's requests in the server, until the fence has reached the value.

        Raises
        ------
        InvalidCallError
            Only a later request of this client could signal the value, or a client that waits for
            this one (rule R9).
        AbandonedError
            The fence's signaller is gone (rule R10).
        TimeoutError
            The value was not reached in time. The server goes on waiting, with this client's later
            requests behind.
        """
        self._client.call(m.Op.WAIT, m.Wait(self._checked_id(self._client), value), timeout=timeout)

    def __repr__(self) -> str:
        return f"<vkshare.ServedFence {self.id}{', closed' if self.is_closed else ''}>"
