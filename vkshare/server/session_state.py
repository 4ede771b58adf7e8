"""The state of one client's session: a pure state machine, without socket, thread or clock.

Inputs are events (a request arrived, the worker completed one, the client disconnected, time
passed). Outputs are decisions, one at a time. The model is the multi-rendering X server: the
connection of a client with work in flight is not read until the work is complete. A request that
can fail is pushed back, and dispatched a second time with its result. A request that cannot fail is
queued, and its error is reported later (rules R4 to R7, R12, R14, R15).
"""

from __future__ import annotations

import enum
import math
from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

MOST_QUEUED = 64  # requests that cannot fail, in flight (rule R6)
MOST_OUTPUT = 1 << 20  # bytes that a client has not read (rule R12)
PATIENCE = 2.0  # seconds that a worker may take for one request (rule R15)
HELLO_TIMEOUT = 10.0  # seconds until a client must have sent hello
MESSAGE_TIMEOUT = 10.0  # seconds until a message with file descriptors must be complete (rule R20)
MOST_OUTPUT_FDS = 256  # default bound of file descriptors in replies that a client has not read
CONGESTION_TIMEOUT = 10.0  # seconds that too many of this user's fds may be in flight
RETRY_INTERVAL = 0.05  # seconds between two attempts to send meanwhile

NO_GENERATION = 0xFFFFFFFF  # the device generation in a hello, which is for no device


class Route(enum.Enum):
    """How a request is executed."""

    INLINE = "inline"  # the loop answers it at once
    CAN_FAIL = "can fail"  # the worker runs it; it is pushed back until then
    CANNOT_FAIL = "cannot fail"  # the worker runs it; the client's next requests are read meanwhile


class QueuedRequest(Protocol):
    """The attributes of a request that the state machine reads."""

    @property
    def sequence(self) -> int: ...
    @property
    def generation(self) -> int: ...  # the device's, as the client knows it
    @property
    def route(self) -> Route: ...
    @property
    def is_hello(self) -> bool: ...


R = TypeVar("R", bound=QueuedRequest)


class Action(enum.Enum):
    """The action that the owner of the state machine must perform."""

    ANSWER = "answer"  # run the request in the loop, and reply
    # start a worker, and call worker_started() when it is ready (rule R1)
    START_WORKER = "start worker"
    DISPATCH = "dispatch"  # give the request to the worker
    FINISH = "finish"  # dispatch the request a second time, with its outcome, and reply
    REFUSE = "refuse"  # reply that the device is lost, with the new generation
    DEFER = "defer"  # report the error of a request that has no reply
    SEND = "send"  # try again to send queued output
    CUT_OFF = "cut off"  # close the connection; the worker is usable
    ABANDON = "abandon"  # close the connection; the worker hangs


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """One action. `outcome` is the worker's; `why` is sent to the client."""

    action: Action
    request: R | None = None
    outcome: object = None
    why: str = ""


class SessionState(Generic[R]):
    """One client's state. `requests` counts those that have arrived, for statistics()."""

    def __init__(
        self,
        device_generation: int,
        now: float,
        *,
        patience: float = PATIENCE,
        most_output_fds: int = MOST_OUTPUT_FDS,
    ) -> None:
        self.requests = 0
        self.is_open = True
        self.device_generation = device_generation  # of the device that the client's requests are for
        self._patience = patience
        self._buffered: deque[R] = deque()  # arrived, not dispatched
        # given to the worker, in order; the last may be the request that is pushed back
        self._in_flight: deque[R] = deque()
        self._pushed_back: R | None = None
        # the outcome of the request that was pushed back
        self._finished: tuple[object] | None = None
        # the request that was pushed back waits for a fence, not for the worker
        self._waits_without_worker = False
        self._has_hello = False
        self._is_held = False  # no device is open now
        self._has_worker = self._is_starting = False
        self._since = now  # time of the last progress
        self._output = 0  # bytes
        self._output_fds = 0
        self._most_output_fds = most_output_fds
        self.incomplete_since = math.inf  # when an incomplete message with file descriptors began
        self._was_accepting = True
        self._congested_since = self._retry_at = math.inf

    # ---- queries ------------------------------------------------------------------------------------

    @property
    def accepts_requests(self) -> bool:
        """Whether the connection should be read (rule R4)."""
        return self.is_open and not self._buffered and self._pushed_back is None and len(self._in_flight) < MOST_QUEUED

    @property
    def is_idle(self) -> bool:
        """Whether no request and no output is pending: a no-op can be answered at once."""
        return self._has_hello and self.accepts_requests and not self._in_flight and not self._output

    @property
    def is_congested(self) -> bool:
        """Whether output waits for the next attempt in check_deadlines(), even if the socket has room."""
        return self._retry_at < math.inf

    @property
    def deadline(self) -> float:
        """When check_deadlines() must be called; infinity: never, as in all times here."""
        return min(self._worker_deadline, self._incomplete_deadline, self._retry_at) if self.is_open else math.inf

    @property
    def _worker_deadline(self) -> float:
        if not self._has_hello:
            return self._since + HELLO_TIMEOUT
        return self._since + self._patience if self._in_flight and not self._waits_without_worker else math.inf

    @property
    def _incomplete_deadline(self) -> float:
        return self.incomplete_since + MESSAGE_TIMEOUT if self._was_accepting else math.inf

    # ---- events of the client ------------------------------------------------------------------------------------

    def arrived(self, request: R) -> None:
        """Appends a request that was read."""
        self._buffered.append(request)
        self.requests += 1

    def note_incomplete(self, has_fds: bool, now: float) -> None:
        """Notes, after each step(), whether an incomplete message holds file descriptors (rule R20).

        The message's timeout is suspended while the connection is not read.
        """
        accepts_requests = self.accepts_requests
        if not has_fds:
            self.incomplete_since = math.inf
        elif self.incomplete_since == math.inf or not (accepts_requests and self._was_accepting):
            self.incomplete_since = now
        self._was_accepting = accepts_requests

    def step(self, now: float) -> Decision[R] | None:
        """Decides about the oldest request that was not dispatched; None: no action now."""
        if not self.is_open:
            return None
        if self._pushed_back is not None:
            return self._finish()
        if not self._buffered:
            return None
        head = self._buffered[0]
        if head.is_hello is self._has_hello:
            return self._cut_off("a connection begins with one hello, and has no other")
        if head.generation != self.device_generation and not head.is_hello:
            return self._refuse(head)
        if head.route is Route.INLINE:
            return self._answer(head)
        return self._dispatch(head, now)

    def _answer(self, head: R) -> Decision[R] | None:
        if self._in_flight:
            return None  # rule R7: earlier requests first
        self._has_hello = True
        return Decision(Action.ANSWER, self._buffered.popleft())

    def _dispatch(self, head: R, now: float) -> Decision[R] | None:
        if self._is_held or self._is_starting or len(self._in_flight) >= MOST_QUEUED:
            return None
        if not self._has_worker:
            if self._in_flight:
                return None  # the previous worker finishes these first
            self._is_starting = True
            return Decision(Action.START_WORKER, head)
        self._buffered.popleft()
        if head.route is Route.CAN_FAIL:
            self._pushed_back = head
        if not self._in_flight:
            self._since = now
        self._in_flight.append(head)
        return Decision(Action.DISPATCH, head)

    def _finish(self) -> Decision[R] | None:
        if self._finished is None:
            return None
        (outcome,) = self._finished
        request, self._pushed_back, self._finished = self._pushed_back, None, None
        assert request is not None
        # its result belongs to a device that is lost
        if request.generation != self.device_generation:
            return Decision(Action.REFUSE, request, outcome)
        return Decision(Action.FINISH, request, outcome)

    def _refuse(self, head: R) -> Decision[R] | None:
        if self._in_flight:
            return None
        return Decision(Action.REFUSE, self._buffered.popleft())

    # ---- events of the worker ------------------------------------------------------------------------------------

    def worker_started(self) -> None:
        """Notes that the worker is ready."""
        self._has_worker, self._is_starting = True, False

    def worker_failed(self) -> R:
        """Notes that no worker could be started; returns the request to answer with the error."""
        self._is_starting = False
        return self._buffered.popleft()

    def expects(self, request: R) -> bool:
        """Whether it is the oldest request in flight of an open session."""
        return self.is_open and bool(self._in_flight) and self._in_flight[0] is request

    def completed(self, request: R, outcome: object, now: float, *, failed: bool) -> Decision[R] | None:
        """Completes the oldest request in flight. No effect once the session is closed (rule R14)."""
        if not self.is_open:
            return None
        if not self.expects(request):
            raise ValueError(f"request {request.sequence} was completed, and is not the oldest in flight")
        self._in_flight.popleft()
        self._since = now
        if request is self._pushed_back:
            self._waits_without_worker = False
            self._finished = (outcome,)
            return None
        return self.failed_late(request, outcome) if failed else None

    def waits_without_worker(self, request: R) -> None:
        """Suspends the worker's timeout: the request that was pushed back now waits for a fence, without the worker."""
        if request is self._pushed_back:
            self._waits_without_worker = True

    def failed_late(self, request: R, error: object) -> Decision[R] | None:
        """Reports the error of a request without a reply, under its sequence number (rule R6)."""
        return Decision(Action.DEFER, request, error) if self.is_open else None

    # ---- other events --------------------------------------------------------------------------------------

    def check_deadlines(self, now: float) -> Decision[R] | None:
        """Decides about deadlines at `now`: a missing hello, an incomplete message, a worker that hangs (rule R15)."""
        if now < self.deadline:
            return None
        if now >= self._incomplete_deadline:
            return self._cut_off(f"a message with file descriptors was incomplete after {MESSAGE_TIMEOUT:g} s")
        if now >= self._retry_at:
            self._retry_at = now + RETRY_INTERVAL
            return Decision(Action.SEND)
        if not self._has_hello:
            return self._cut_off(f"no hello came within {HELLO_TIMEOUT:g} s")
        self.is_open = False
        request = self._in_flight[0]
        return Decision(
            Action.ABANDON, request, None, f"request {request.sequence} has blocked its worker for {self._patience:g} s"
        )

    def queued(self, nbytes: int, n_fds: int = 0) -> Decision[R] | None:
        """Adds output that the socket did not take (rule R12)."""
        self._output += nbytes
        self._output_fds += n_fds
        if self._output > MOST_OUTPUT:
            return self._cut_off(f"{self._output} bytes of replies were not read; allowed are {MOST_OUTPUT}")
        if self._output_fds > self._most_output_fds:
            return self._cut_off(
                f"{self._output_fds} file descriptors of replies were not read; allowed are {self._most_output_fds}"
            )
        return None

    def wrote(self, nbytes: int, n_fds: int = 0) -> None:
        """Subtracts output that the socket has taken after all."""
        self._output -= nbytes
        self._output_fds -= n_fds

    def congested(self, is_congested: bool, now: float) -> Decision[R] | None:
        """Notes whether sending failed because too many of this user's fds are in flight.

        They may be those of another process.
        """
        if not is_congested:
            self._congested_since = self._retry_at = math.inf
            return None
        self._retry_at = now + RETRY_INTERVAL
        self._congested_since = min(self._congested_since, now)
        if now < self._congested_since + CONGESTION_TIMEOUT:
            return None
        return self._cut_off(f"a reply's file descriptors could not be sent within {CONGESTION_TIMEOUT:g} s")

    def device_lost(self, generation: int, *, with_worker: bool = False) -> None:
        """Refuses requests for the previous device from now on; others wait for device_opened() (rule R16).

        with_worker: the worker exits with the device, once the requests in flight are complete.
        """
        self.device_generation = generation
        self._is_held = True
        if with_worker:
            self._has_worker = self._is_starting = False

    def device_opened(self) -> None:
        """Notes that the device of the current generation is open."""
        self._is_held = False

    def close(self) -> tuple[list[R], object]:
        """Closes the session; returns the requests that were not dispatched, and an outcome, for the caller to drop."""
        self.is_open = False
        left, outcome = list(self._buffered), self._finished and self._finished[0]
        self._buffered.clear()
        self._finished = None
        return left, outcome

    def _cut_off(self, why: str) -> Decision[R]:
        self.is_open = False
        return Decision(Action.CUT_OFF, None, None, why)
