"""What runs a client's render requests on a device: its surfaces, its fences, its submissions.

Nothing here waits for another party: what would, asks the core to tell when it is over (ask()). So a worker that hangs,
hangs in a driver or in somebody's plug-in.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from vkshare import _native, _trace, _transport
from vkshare._closing import common_deadline
from vkshare.device import Device
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.fence import Fence
from vkshare.server import trace_points
from vkshare.server.deadlock_check import Identity, WaitGraph
from vkshare.server.request_types import Answer, Request
from vkshare.surface import Surface

_log = logging.getLogger("vkshare.server")

SURFACE_FDS, FENCE_FDS = 3, 2  # that one holds open, at most
_SERIALS = 1 << 32

Continuation = Callable[[BaseException | None], "list[RequestResult]"]
_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What became of a request: its outcome (an Answer or an exception), or a late failure."""

    request: Request
    outcome: Answer | BaseException
    is_late: bool = False


@dataclass(slots=True)
class HeldSubmission:
    """A submission that waits for others, and what is to be told once it is known how that ended."""

    submission: _native.Submission
    followers: list[Callable[[], list[RequestResult]]]


@dataclass(frozen=True, slots=True)
class ServedFence:
    """A fence that a client has here."""

    fence: Fence
    identity: Identity
    signaller: int | None  # the client whose requests signal it; None: another party's


class Executor:
    """One client's things on one device. run by its worker; happened() and close() by the loop or the worker.

    Attributes
    ----------
    device, client, generation
        What it draws with, whose it is (a number), and which of the server's devices, counted, this is.
    surfaces, fences
        By the ids that the client chose.
    """

    def __init__(
        self,
        device: Device,
        client: int,
        generation: int,
        event_queue: _native.EventQueue,
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
        self.held: dict[Request, HeldSubmission] = {}
        self._event_queue = event_queue
        # One row for all executors of a client: what an earlier one asked for must not be taken for a later one's.
        self._serials = itertools.count(1) if serials is None else serials
        self._pending: dict[int, Continuation] = {}
        self._closing: list[Callable[[], object]] = []
        self.lock = threading.Lock()  # of what both the worker and the loop change
        self._is_closed = False
        self._requester = trace_points.requester(client)

    # ---- running ------------------------------------------------------------------------------------------------

    def run(self, request: Request) -> Any:
        """The outcome of a request: an Answer, an exception, or LATER. ProtocolError passes."""
        try:
            with self._step(request):
                if request.refused is not None:
                    raise request.refused
                request.load()
                return request.kind.run(self, request)
        finally:
            request.close()

    def _step(self, request: Request) -> AbstractContextManager[None]:
        """It is run, in a trace."""
        if not _trace.is_on:
            return _trace.NOTHING
        return trace_points.step("run", request.kind.opcode, self._requester, request.sequence)

    def ask(self, notify: Callable[[_native.EventQueue, int], None], then: Continuation) -> None:
        """then(None, or why it never happens) is called by the loop once what `notify` asks for has happened."""
        serial = next(self._serials) % _SERIALS
        while serial == 0 or serial in self._pending:  # 0 is the hand-off's own
            serial = next(self._serials) % _SERIALS
        self._pending[serial] = then
        try:
            notify(self._event_queue, self.client << 32 | serial)
        except BaseException:
            del self._pending[serial]
            raise

    def event_arrived(self, serial: int, error: BaseException | None) -> list[RequestResult]:
        """By the loop: the hub told of something that was asked for."""
        then = self._pending.pop(serial, None)
        return [] if then is None else then(error)

    # ---- things -------------------------------------------------------------------------------------------------

    def surface(self, number: int) -> Surface:
        """The client's surface of that id. InvalidCallError: it has none."""
        return _found("surface", self.surfaces, number)

    def fence(self, number: int) -> ServedFence:
        """The client's fence of that id. InvalidCallError."""
        return _found("fence", self.fences, number)

    def check_quota(self, what: dict[int, Any], number: int, fds: int) -> None:
        """InvalidCallError: the client has one of that id, or as many things as it may."""
        if self._is_closed:
            raise ClosedError("this client is gone")
        if number in what:
            raise InvalidCallError(f"id {number} is taken: close it, or choose another")
        used = SURFACE_FDS * len(self.surfaces) + FENCE_FDS * len(self.fences)
        if used + fds > _transport.quota():
            raise InvalidCallError(
                f"this client holds {used} file descriptors open in the server; allowed are {_transport.quota()}: "
                "close surfaces and fences that are no longer used, or raise the server's RLIMIT_NOFILE"
            )

    def register(self, what: dict[int, Any], number: int, thing: Any, close: Callable[[], object]) -> None:
        """It is the client's; closed at once if the client went meanwhile."""
        with self.lock:
            gone = self._is_closed
            if not gone:
                what[number] = thing
        if gone:
            close()
            raise ClosedError("this client is gone")

    def on_close(self, call: Callable[[], object]) -> None:
        """For plug-ins: called when the client goes, or its device does."""
        with self.lock:
            if not self._is_closed:
                self._closing.append(call)
                return
        call()

    def drop_fence(self, number: int) -> None:
        """Ends it: those who wait for it hear of that."""
        served = self.fences.pop(number)
        self.wait_graph.remove_fence(served.identity)
        served.fence.close()

    def close(self) -> None:
        """The client is gone, or the device is: ends everything. Idempotent; from any thread."""
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
                    _log.exception("client %d: something of it could not be closed", self.client)
        self._pending.clear()
        self.held.clear()
        self.last = None


def _found(what: str, things: dict[int, _Thing], number: int) -> _Thing:
    with contextlib.suppress(KeyError):
        return things[number]
    raise InvalidCallError(f"this client has no {what} {number}")
