"""Runs a client's render requests on a device: its surfaces, its fences, its submissions.

No request waits for another party here. Instead ask() has the core push an event when the wait is
over. So a worker that hangs is blocked in a driver or in a plug-in.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from vkshare import _native
from vkshare.core.device import Device
from vkshare.core.fence import Fence
from vkshare.core.surface import Surface
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.ipc import transport
from vkshare.server import trace_points
from vkshare.server.deadlock_check import Identity, WaitGraph
from vkshare.server.request_types import Answer, Request
from vkshare.util.closing import common_deadline, on_error
from vkshare.util.event_queue import EventQueue

_log = logging.getLogger("vkshare.server")

SURFACE_FDS, FENCE_FDS = 3, 2  # file descriptors that one surface or fence keeps open, at most
_SERIALS = 1 << 32

Continuation = Callable[[BaseException | None], "list[RequestResult]"]
_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The result of a request: its outcome (an Answer or an exception), or a late failure."""

    request: Request
    outcome: Answer | BaseException
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class ServedFence:
    """A client's fence in the server."""

    fence: Fence
    identity: Identity
    signaller: int | None  # the client whose requests signal it; None: another party


class Executor:
    """One client's objects on one device. The worker calls run(), the loop event_arrived(), either of them close().

    Attributes
    ----------
    device, client, generation
        The device, the client's number, and the device's generation in the server.
    surfaces, fences
        Surfaces and fences by the ids that the client chose.
    """

    def __init__(
        self,
        device: Device,
        client: int,
        generation: int,
        event_queue: EventQueue,
        wait_graph: WaitGraph,
        serials: Iterator[int] | None = None,
    ) -> None:
        self.device = device
        self.client = client
        self.generation = generation
        self.surfaces: dict[int, Surface] = {}
        self.fences: dict[int, ServedFence] = {}
        self.wait_graph = wait_graph
        self.last: _native.Submission | None = None
        # requests whose submissions wait for other parties, and the functions that return results
        # once they have run
        self.held: dict[Request, list[Callable[[], list[RequestResult]]]] = {}
        self._event_queue = event_queue
        # All executors of a client share the counter, because events for an earlier executor may
        # still arrive.
        self._serials = itertools.count(1) if serials is None else serials
        self._pending: dict[int, Continuation] = {}
        self._closing: list[Callable[[], object]] = []
        self.lock = threading.Lock()  # guards state that both the worker and the loop change
        self._is_closed = False
        self._requester = trace_points.requester(client)

    # ---- running ------------------------------------------------------------------------------------------------

    def run(self, request: Request) -> Any:
        """Runs a request; returns an Answer or LATER. Raises the request's error, or ProtocolError."""
        try:
            with trace_points.step("run", request.kind.opcode, self._requester, request.sequence):
                if request.refused is not None:
                    raise request.refused
                request.load()
                return request.kind.run(self, request)
        finally:
            request.close()

    def ask(self, notify: Callable[[EventQueue, int], None], then: Continuation) -> None:
        """Has the loop call then(None) once the event that `notify` requests arrives; then(error) if it never will."""
        serial = next(self._serials) % _SERIALS
        while serial == 0 or serial in self._pending:  # 0 is the work ring's own
            serial = next(self._serials) % _SERIALS
        self._pending[serial] = then
        with on_error(lambda: self._pending.pop(serial)):
            notify(self._event_queue, self.client << 32 | serial)

    def event_arrived(self, serial: int, error: BaseException | None) -> list[RequestResult]:
        """Calls the continuation of an event that has arrived. For the loop."""
        then = self._pending.pop(serial, None)
        return [] if then is None else then(error)

    # ---- things -------------------------------------------------------------------------------------------------

    def surface(self, number: int) -> Surface:
        """Returns the client's surface of that id. InvalidCallError: there is none."""
        return _found("surface", self.surfaces, number)

    def fence(self, number: int) -> ServedFence:
        """Returns the client's fence of that id. InvalidCallError: there is none."""
        return _found("fence", self.fences, number)

    def check_quota(self, things: dict[int, Any], number: int, fds: int) -> None:
        """Raises InvalidCallError if the id is in use, or the client's quota of file descriptors is used up."""
        if self._is_closed:
            raise ClosedError("this client is gone")
        if number in things:
            raise InvalidCallError(f"id {number} is taken: close it, or choose another")
        used = SURFACE_FDS * len(self.surfaces) + FENCE_FDS * len(self.fences)
        if used + fds > transport.quota():
            raise InvalidCallError(
                f"this client holds {used} file descriptors open in the server; allowed are {transport.quota()}: "
                "close surfaces and fences that are no longer used, or raise the server's RLIMIT_NOFILE"
            )

    def register(self, things: dict[int, Any], number: int, thing: Any, close: Callable[[], object]) -> None:
        """Adds an object of the client; closes it at once if the client has gone meanwhile."""
        with self.lock:
            gone = self._is_closed
            if not gone:
                things[number] = thing
        if gone:
            close()
            raise ClosedError("this client is gone")

    def on_close(self, call: Callable[[], object]) -> None:
        """Has call() run when the client goes or its device is lost. For plug-ins."""
        with self.lock:
            if not self._is_closed:
                self._closing.append(call)
                return
        call()

    def close(self) -> None:
        """Closes all objects, because the client or the device is gone. Idempotent; from any thread."""
        with self.lock:
            self._is_closed = True
            fences, self.fences = self.fences, {}
            surfaces, self.surfaces = self.surfaces, {}
            closing, self._closing = self._closing, []
        self.wait_graph.end_wait(self.client)
        for served in fences.values():
            self.wait_graph.remove_fence(served.identity)
        with common_deadline():
            for end in [*closing, *(s.fence.close for s in fences.values()), *(s.close for s in surfaces.values())]:
                try:
                    end()
                except Exception:
                    _log.exception("client %d: an object could not be closed", self.client)
        self._pending.clear()
        self.held.clear()
        self.last = None


def _found(what: str, things: dict[int, _Thing], number: int) -> _Thing:
    with contextlib.suppress(KeyError):
        return things[number]
    raise InvalidCallError(f"this client has no {what} {number}")
