"""A client's handles of surfaces and fences in a server.

Each has a handle of the client's own device if the client has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from vkshare.color import Color
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

    _closing: ClassVar[m.Op]  # the request that closes it in the server

    def __init__(
        self, client: Client, number: int, *own: Surface | Fence | SurfaceDescriptor | FenceDescriptor | None
    ) -> None:
        """`own`: objects of this process that close() closes."""
        self._client = client
        self.id = number
        self.is_closed = False
        self._own = own

    def _checked_id(self, client: Client) -> int:
        client._lock.check()
        if self._client is not client:
            raise ValueError(f"{self!r} belongs to another client: export it there, and open it here")
        if self.is_closed:
            raise ClosedError(f"{self!r} is closed")
        return self.id

    def close(self) -> None:
        """Closes it here and in the server: a fence's waiters get AbandonedError.

        Idempotent. A surface or fence that was passed to the Client stays its caller's.
        """
        self._client._lock.check()
        if self.is_closed:
            return
        self.is_closed = True
        try:
            self._client._closed(self._closing, self)
        finally:  # also after Ctrl-C
            for thing in self._own:
                if thing is not None:
                    thing.close()


class ServedSurface(ServedHandle):
    """A surface with a handle in the server and another in this process.

    Attributes
    ----------
    id, width, height, format, color
        Its id in the server, its size in pixels, its format and the meaning of its codes.
    surface
        The handle of the client's own device; None if the client has none.
    descriptor
        For opening the surface elsewhere, if there is no `surface`; else None.
    """

    _closing = m.Op.CLOSE_SURFACE

    def __init__(
        self,
        client: Client,
        number: int,
        spec: Any,
        surface: Surface | None,
        descriptor: SurfaceDescriptor | None,
        *,
        owns: bool,
    ) -> None:
        super().__init__(client, number, surface if owns else None, descriptor)
        self.width: int = spec.width
        self.height: int = spec.height
        self.format: str = spec.format.name
        self.color: Color = spec.color
        self.surface = surface
        self.descriptor = descriptor

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        return f"<vkshare.ServedSurface {self.id}, {self.width}x{self.height} {self.format}{state}>"


class ServedFence(ServedHandle):
    """A fence of the server's device. `fence` is the handle of the client's own device, or None; see ServedSurface."""

    _closing = m.Op.CLOSE_FENCE

    def __init__(
        self, client: Client, number: int, fence: Fence | None, descriptor: FenceDescriptor | None, *, owns: bool
    ) -> None:
        super().__init__(client, number, fence if owns else None, descriptor)
        self.fence = fence
        self.descriptor = descriptor

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
