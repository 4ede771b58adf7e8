"""What a render server does about one client: a pure state machine, without socket, thread or clock.

What happens goes in (a request arrived, the worker completed one, the client went, time passed); what is to be done
comes out, one decision at a time. The model is the multi-rendering X server: a client whose work is out is ignored,
and attended to again once it is done; a request that can fail is pushed back, and dispatched once more with its result;
one that cannot is queued, and an error of it is told later (rules R4 to R7, R12, R14, R15).
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

MOST_QUEUED = 64  # requests that cannot fail and are with the worker (rule R6)
MOST_OUTPUT = 1 << 20  # bytes that a client has not read (rule R12)
PATIENCE = 2.0  # seconds that a worker may take for one request (rule R15)
HELLO_TIMEOUT = 10.0  # seconds within which a client must have said who it is
MESSAGE_TIMEOUT = 10.0  # seconds within which a message with file descriptors must be whole (rule R20)
MOST_OUTPUT_FDS = 256  # of replies that a client has not read, where the owner does not say
CONGESTION_TIMEOUT = 10.0  # seconds in which more fds of this user are under way than the kernel allows
RETRY_INTERVAL = 0.05  # seconds between two tries to send then

NO_GENERATION = 0xFFFFFFFF  # the device generation that a hello names: it is about no device


class Route(enum.Enum):
    """Who answers a request."""

    INLINE = "inline"  # the loop itself, at once
    CAN_FAIL = "can fail"  # the worker; pushed back until it has
    CANNOT_FAIL = "cannot fail"  # the worker, while the client goes on


class QueuedRequest(Protocol):
    """What the machine must know of a request."""

    @property
    def sequence(self) -> int: ...
    @property
    def generation(self) -> int: ...  # of the device that it is for, as the client knows it
    @property
    def route(self) -> Route: ...
    @property
    def is_hello(self) -> bool: ...


R = TypeVar("R", bound=QueuedRequest)


class Action(enum.Enum):
    """What the owner of the machine has to do."""

    ANSWER = "answer"  # dispatch it in the loop, and reply
    START_WORKER = "start worker"  # get a worker, and call hired() when it is there (rule R1)
    DISPATCH = "dispatch"  # give it to the worker
    FINISH = "finish"  # dispatch it once more, with its outcome, and reply
    REFUSE = "refuse"  # reply that the device is lost, with the new generation
    DEFER = "defer"  # tell the error of a request that has no reply
    SEND = "send"  # what found no room may find some now
    CUT_OFF = "cut off"  # close the connection; the worker is well
    ABANDON = "abandon"  # close the connection; the worker is not


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """One thing to do. `outcome` is the worker's; `why` is told to the client."""

    action: Action
    request: R | None = None
    outcome: object = None
    why: str = ""


@dataclass(slots=True)
class Counts:
    """What a client did, for statistics()."""

    requests: int = 0
    dispatched: int = 0
    deferred: int = 0
    refused: int = 0


class SessionState(Generic[R]):
    """One client's state. `number` is its generation: no two clients of a server ever have the same (rule R14)."""

    def __init__(
        self,
        number: int,
        device_generation: int,
        now: float,
        *,
        patience: float = PATIENCE,
        most_output_fds: int = MOST_OUTPUT_FDS,
    ) -> None:
        self.number = number
        self.counts = Counts()
        self.is_open = True
        self._device_generation = device_generation
        self._patience = patience
        self._buffered: deque[R] = deque()  # arrived, not dispatched
        self._in_flight: deque[R] = (
            deque()
        )  # with the worker, in order; the last one may be the one that is pushed back
        self._pushed_back: R | None = None
        self._finished: tuple[object] | None = None  # the outcome of what was pushed back
        self._waits_without_worker = False  # what was pushed back waits for a fence, not for the worker
        self._has_hello = False
        self._is_held = False  # there is no device now
        self._has_worker = self._is_starting = False
        self._since = now  # of the last progress
        self._output = 0  # bytes
        self._output_fds = 0
        self._most_output_fds = most_output_fds
        self._incomplete_since: float | None = None
        self._was_accepting = True
        self._congested_since: float | None = None
        self._retry_at: float | None = None

    # ---- what the owner asks ------------------------------------------------------------------------------------

    @property
    def accepts_requests(self) -> bool:
        """Whether its connection is to be read (rule R4)."""
        return self.is_open and not self._buffered and self._pushed_back is None and len(self._in_flight) < MOST_QUEUED

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is anywhere: a no-op can be answered at once."""
        return self._has_hello and self.accepts_requests and not self._in_flight and not self._output

    @property
    def is_congested(self) -> bool:
        """Whether output waits for check_deadlines(), however much room the connection has."""
        return self._retry_at is not None

    @property
    def has_hello(self) -> bool:
        return self._has_hello

    @property
    def device_generation(self) -> int:
        """Of the device that the client's requests are for."""
        return self._device_generation

    @property
    def in_flight(self) -> int:
        """Requests that the worker has."""
        return len(self._in_flight)

    @property
    def deadline(self) -> float | None:
        """When check_deadlines() is to be called."""
        if not self.is_open:
            return None
        found = [self._worker_deadline, self._incomplete_deadline, self._retry_at]
        return min((deadline for deadline in found if deadline is not None), default=None)

    @property
    def _worker_deadline(self) -> float | None:
        if not self._has_hello:
            return self._since + HELLO_TIMEOUT
        return self._since + self._patience if self._in_flight and not self._waits_without_worker else None

    @property
    def _incomplete_deadline(self) -> float | None:
        if self._incomplete_since is None or not self._was_accepting:
            return None
        return self._incomplete_since + MESSAGE_TIMEOUT

    @property
    def incomplete_since(self) -> float | None:
        """When a message with file descriptors began that is not whole yet."""
        return self._incomplete_since

    # ---- what the client did ------------------------------------------------------------------------------------

    def arrived(self, request: R) -> None:
        """It was read, behind what was read before."""
        self._buffered.append(request)
        self.counts.requests += 1

    def note_incomplete(self, has_fds: bool, now: float) -> None:
        """After each step(): whether there are file descriptors of a message that is not whole (rule R20).

        Its time does not count while the connection is not read.
        """
        accepts_requests = self.accepts_requests
        if not has_fds:
            self._incomplete_since = None
        elif self._incomplete_since is None or not (accepts_requests and self._was_accepting):
            self._incomplete_since = now
        self._was_accepting = accepts_requests

    def step(self, now: float) -> Decision[R] | None:
        """What to do about the oldest request that was not dispatched; None: nothing now."""
        if not self.is_open:
            return None
        if self._pushed_back is not None:
            return self._finish()
        if not self._buffered:
            return None
        head = self._buffered[0]
        if head.is_hello is self._has_hello:
            return self._cut_off("a connection begins with one hello, and has no other")
        if head.generation != self._device_generation and not head.is_hello:
            return self._refuse(head)
        if head.route is Route.INLINE:
            return self._answer(head)
        return self._dispatch(head, now)

    def _answer(self, head: R) -> Decision[R] | None:
        if self._in_flight:
            return None  # rule R7: those before it first
        self._has_hello = True
        return Decision(Action.ANSWER, self._buffered.popleft())

    def _dispatch(self, head: R, now: float) -> Decision[R] | None:
        if self._is_held or self._is_starting or len(self._in_flight) >= MOST_QUEUED:
            return None
        if not self._has_worker:
            if self._in_flight:
                return None  # the one before has these to finish
            self._is_starting = True
            return Decision(Action.START_WORKER, head)
        self._buffered.popleft()
        if head.route is Route.CAN_FAIL:
            self._pushed_back = head
        if not self._in_flight:
            self._since = now
        self._in_flight.append(head)
        self.counts.dispatched += 1
        return Decision(Action.DISPATCH, head)

    def _finish(self) -> Decision[R] | None:
        if self._finished is None:
            return None
        (outcome,) = self._finished
        request, self._pushed_back, self._finished = self._pushed_back, None, None
        assert request is not None
        if request.generation != self._device_generation:  # what it made is of a device that is lost
            self.counts.refused += 1
            return Decision(Action.REFUSE, request, outcome)
        return Decision(Action.FINISH, request, outcome)

    def _refuse(self, head: R) -> Decision[R] | None:
        if self._in_flight:
            return None
        self.counts.refused += 1
        return Decision(Action.REFUSE, self._buffered.popleft())

    # ---- what the worker did ------------------------------------------------------------------------------------

    def worker_started(self) -> None:
        """There is a worker from now on."""
        self._has_worker, self._is_starting = True, False

    def worker_failed(self) -> R:
        """There can be none now: the request that wanted one, to be answered with why."""
        self._is_starting = False
        return self._buffered.popleft()

    def expects(self, request: R) -> bool:
        """Whether it is the oldest one that is out, and somebody waits for it."""
        return self.is_open and bool(self._in_flight) and self._in_flight[0] is request

    def completed(self, request: R, outcome: object, now: float, *, failed: bool) -> Decision[R] | None:
        """The oldest request that is out is done. What nobody waits for is dropped (rule R14)."""
        if not self.is_open:
            return None
        if not self.expects(request):
            raise ValueError(f"request {request.sequence} was completed, which is not the oldest one that is out")
        self._in_flight.popleft()
        self._since = now
        if request is self._pushed_back:
            self._waits_without_worker = False
            self._finished = (outcome,)
            return None
        return self.failed_late(request, outcome) if failed else None

    def waits_without_worker(self, request: R) -> None:
        """The worker is through with what was pushed back, which waits for a fence now: no fault of the worker's."""
        if request is self._pushed_back:
            self._waits_without_worker = True

    def failed_late(self, request: R, error: object) -> Decision[R] | None:
        """An error of a request that could not fail, told under its own number (rule R6)."""
        if not self.is_open:
            return None
        self.counts.deferred += 1
        return Decision(Action.DEFER, request, error)

    # ---- what else happens --------------------------------------------------------------------------------------

    def check_deadlines(self, now: float) -> Decision[R] | None:
        """It is `now`: a client that does not say who it is goes, and so does one whose worker hangs (rule R15)."""
        deadline = self.deadline
        if deadline is None or now < deadline:
            return None
        if self._incomplete_deadline is not None and now >= self._incomplete_deadline:
            return self._cut_off(f"a message with file descriptors was not whole within {MESSAGE_TIMEOUT:g} s")
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = now + RETRY_INTERVAL
            return Decision(Action.SEND)
        if not self._has_hello:
            return self._cut_off(f"no hello came within {HELLO_TIMEOUT:g} s")
        self.is_open = False
        request = self._in_flight[0]
        return Decision(
            Action.ABANDON, request, None, f"request {request.sequence} has kept its worker for {self._patience:g} s"
        )

    def queued(self, nbytes: int, n_fds: int = 0) -> Decision[R] | None:
        """So much output found no room in the connection (rule R12)."""
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
        """So much of the output found room after all."""
        self._output -= nbytes
        self._output_fds -= n_fds

    def congested(self, is_congested: bool, now: float) -> Decision[R] | None:
        """Whether a try to send met too many fds of this user that are under way, which may be any process's fault."""
        if not is_congested:
            self._congested_since = self._retry_at = None
            return None
        self._retry_at = now + RETRY_INTERVAL
        if self._congested_since is None:
            self._congested_since = now
        if now < self._congested_since + CONGESTION_TIMEOUT:
            return None
        return self._cut_off(f"a reply's file descriptors could not be sent within {CONGESTION_TIMEOUT:g} s")

    def device_lost(self, generation: int, *, with_worker: bool = False) -> None:
        """Requests for the device before are refused from now on; others wait for device_opened() (rule R16).

        with_worker: it goes with the device, once it is through with what is out.
        """
        self._device_generation = generation
        self._is_held = True
        if with_worker:
            self._has_worker = self._is_starting = False

    def device_opened(self) -> None:
        """There is a device of the current generation."""
        self._is_held = False

    def close(self) -> tuple[list[R], object]:
        """The connection is gone, or is to go. What was not dispatched, and an outcome, are the caller's to drop."""
        self.is_open = False
        left, outcome = list(self._buffered), self._finished and self._finished[0]
        self._buffered.clear()
        self._finished = None
        return left, outcome

    def _cut_off(self, why: str) -> Decision[R]:
        self.is_open = False
        return Decision(Action.CUT_OFF, None, None, why)
