"""Decisions about one client, without sockets, threads or clock. Rules R1, R4 to R7, R12, R14 to R16."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from vkshare.server.session_state import (
    CONGESTION_TIMEOUT,
    HELLO_TIMEOUT,
    MESSAGE_TIMEOUT,
    MOST_OUTPUT,
    MOST_OUTPUT_FDS,
    MOST_QUEUED,
    NO_GENERATION,
    RETRY_INTERVAL,
    Action,
    Decision,
    Route,
    SessionState,
)

pytestmark = pytest.mark.no_driver

CAN_FAIL, CANNOT_FAIL, INLINE = Route.CAN_FAIL, Route.CANNOT_FAIL, Route.INLINE


@dataclass(frozen=True, eq=False)
class FakeRequest:
    sequence: int
    route: Route
    generation: int = 1
    is_hello: bool = False


class StartedSession:
    """A session state after hello, with a worker, and its requests by number."""

    def __init__(self, *routes: Route, patience: float = 2.0, with_worker: bool = True) -> None:
        self.state: SessionState[FakeRequest] = SessionState(1, 100.0, patience=patience)
        self.state.arrived(FakeRequest(0, INLINE, NO_GENERATION, is_hello=True))
        assert self.step() == (Action.ANSWER, 0)
        self.requests: list[FakeRequest] = []
        if with_worker:
            self.state.worker_started()
        self.send(*routes)

    def send(self, *routes: Route, generation: int = 1) -> None:
        for route in routes:
            self.requests.append(FakeRequest(len(self.requests) + 1, route, generation))
            self.state.arrived(self.requests[-1])

    def step(self, now: float = 100.0) -> tuple[Action, int] | None:
        return self.summary(self.state.step(now))

    def steps(self) -> list[tuple[Action, int]]:
        found = []
        while (found_step := self.step()) is not None and len(found) < 1000:
            found.append(found_step)
        return found

    def complete(self, number: int, outcome: object = None, now: float = 100.0) -> tuple[Action, int] | None:
        return self.summary(
            self.state.completed(self.requests[number - 1], outcome, now, failed=isinstance(outcome, Exception))
        )

    @staticmethod
    def summary(decision: Decision[FakeRequest] | None) -> tuple[Action, int] | None:
        if decision is None:
            return None
        return decision.action, -1 if decision.request is None else decision.request.sequence


@pytest.mark.rule("R1")
def test_only_the_first_render_request_starts_a_worker() -> None:
    session = StartedSession(INLINE, CANNOT_FAIL, CANNOT_FAIL, with_worker=False)
    assert session.steps() == [(Action.ANSWER, 1), (Action.START_WORKER, 2)]
    assert not session.state.accepts_requests
    session.state.worker_started()
    assert session.steps() == [(Action.DISPATCH, 2), (Action.DISPATCH, 3)]


@pytest.mark.rule("R4")
def test_a_client_with_work_in_flight_is_not_read_and_its_buffered_requests_run_afterwards() -> None:
    session = StartedSession(CAN_FAIL, CAN_FAIL, INLINE)
    assert session.steps() == [(Action.DISPATCH, 1)]
    assert not session.state.accepts_requests
    assert session.complete(1) is None
    assert session.steps() == [(Action.FINISH, 1), (Action.DISPATCH, 2)]
    assert session.complete(2) is None
    assert session.steps() == [(Action.FINISH, 2), (Action.ANSWER, 3)]
    assert session.state.accepts_requests


@pytest.mark.rule("R5")
def test_a_request_that_can_fail_is_dispatched_again_with_its_outcome_before_later_ones() -> None:
    session = StartedSession(CAN_FAIL, CANNOT_FAIL, CAN_FAIL)
    error = ValueError("no")
    assert session.steps() == [(Action.DISPATCH, 1)]
    assert session.state.completed(session.requests[0], error, 100.0, failed=True) is None
    decision = session.state.step(100.0)
    assert decision is not None
    assert (decision.action, decision.request, decision.outcome) == (Action.FINISH, session.requests[0], error)
    assert session.steps() == [(Action.DISPATCH, 2), (Action.DISPATCH, 3)]


@pytest.mark.rule("R6")
def test_64_requests_that_cannot_fail_are_queued_and_the_65th_waits() -> None:
    session = StartedSession(*[CANNOT_FAIL] * (MOST_QUEUED + 2))
    assert session.steps() == [(Action.DISPATCH, n) for n in range(1, MOST_QUEUED + 1)]
    assert len(session.state._in_flight) == MOST_QUEUED == 64
    assert not session.state.accepts_requests
    assert session.complete(1) is None
    assert session.steps() == [(Action.DISPATCH, MOST_QUEUED + 1)]


@pytest.mark.rule("R6")
def test_a_late_failure_has_the_number_of_the_request_that_failed() -> None:
    session = StartedSession(CANNOT_FAIL, CANNOT_FAIL, CANNOT_FAIL)
    session.steps()
    assert session.complete(1) is None
    assert session.complete(2, ValueError("no")) == (Action.DEFER, 2)
    assert session.summary(session.state.failed_late(session.requests[0], ValueError("later still"))) == (
        Action.DEFER,
        1,
    )


@pytest.mark.rule("R7")
def test_an_inline_request_waits_for_earlier_requests() -> None:
    session = StartedSession(CANNOT_FAIL, INLINE, CANNOT_FAIL)
    assert session.steps() == [(Action.DISPATCH, 1)]
    assert not session.state.is_idle
    assert session.complete(1) is None
    assert session.steps() == [(Action.ANSWER, 2), (Action.DISPATCH, 3)]


@pytest.mark.rule("R7")
def test_only_the_oldest_request_in_flight_can_be_completed() -> None:
    session = StartedSession(CANNOT_FAIL, CANNOT_FAIL)
    session.steps()
    with pytest.raises(ValueError, match="request 2 was completed"):
        session.complete(2)


@pytest.mark.rule("R12")
def test_a_client_that_reads_nothing_is_cut_off_past_1_mib_and_not_before() -> None:
    session = StartedSession()
    assert session.state.queued(MOST_OUTPUT) is None
    assert not session.state.is_idle
    session.state.wrote(1)
    assert session.state.queued(1) is None
    assert session.summary(session.state.queued(1)) == (Action.CUT_OFF, -1)
    assert MOST_OUTPUT == 1 << 20
    assert not session.state.is_open


@pytest.mark.rule("R14")
def test_requests_in_flight_at_a_disconnect_are_dropped() -> None:
    session = StartedSession(CAN_FAIL, INLINE)
    session.steps()
    left, outcome = session.state.close()
    assert ([request.sequence for request in left], outcome) == ([2], None)
    assert session.complete(1, ValueError("late")) is None
    assert session.state.failed_late(session.requests[0], ValueError()) is None
    assert session.steps() == []
    assert session.state.deadline == math.inf


@pytest.mark.rule("R14")
def test_close_returns_an_outcome_that_was_not_sent_yet() -> None:
    session = StartedSession(CAN_FAIL)
    session.steps()
    session.complete(1, "made")
    assert session.state.close() == ([], "made")
    assert session.state.close() == ([], None)


@pytest.mark.rule("R15")
def test_a_worker_that_blocks_for_2_s_ends_its_client() -> None:
    session = StartedSession(CANNOT_FAIL, CANNOT_FAIL)
    assert session.state.deadline == math.inf
    session.steps()
    assert session.state.deadline == 102.0
    assert session.state.check_deadlines(101.999) is None
    assert session.complete(1, now=101.5) is None
    assert session.state.deadline == 103.5  # there was progress
    assert session.state.check_deadlines(103.4) is None
    decision = session.state.check_deadlines(103.5)
    assert session.summary(decision) == (Action.ABANDON, 2)
    assert decision is not None
    assert "request 2 has blocked its worker for 2 s" in decision.why
    assert session.state.check_deadlines(200.0) is None


@pytest.mark.rule("R15")
def test_a_request_that_waits_for_a_fence_is_no_fault_of_the_worker() -> None:
    session = StartedSession(CAN_FAIL)
    session.steps()
    session.state.waits_without_worker(session.requests[0])
    assert session.state.deadline == math.inf
    assert not session.state.accepts_requests
    assert session.complete(1) is None
    session.send(CAN_FAIL)
    assert session.steps() == [(Action.FINISH, 1), (Action.DISPATCH, 2)]
    assert session.state.deadline == 102.0


@pytest.mark.rule("R13")
def test_a_client_without_hello_or_with_another_first_request_is_cut_off() -> None:
    no_hello: SessionState[FakeRequest] = SessionState(1, 5.0)
    assert no_hello.deadline == 5.0 + HELLO_TIMEOUT
    assert StartedSession.summary(no_hello.check_deadlines(5.0 + HELLO_TIMEOUT)) == (Action.CUT_OFF, -1)
    wrong_order: SessionState[FakeRequest] = SessionState(1, 5.0)
    wrong_order.arrived(FakeRequest(1, INLINE))
    assert StartedSession.summary(wrong_order.step(5.0)) == (Action.CUT_OFF, -1)
    session = StartedSession()
    session.state.arrived(FakeRequest(1, INLINE, NO_GENERATION, is_hello=True))
    assert session.step() == (Action.CUT_OFF, -1)


@pytest.mark.rule("R20")
def test_a_message_with_fds_has_a_timeout_that_runs_only_while_it_is_read() -> None:
    session = StartedSession()
    session.state.note_incomplete(True, 100.0)
    assert session.state.deadline == 100.0 + MESSAGE_TIMEOUT
    assert session.state.incomplete_since == 100.0
    session.state.note_incomplete(False, 101.0)
    assert session.state.deadline == math.inf
    session.state.note_incomplete(True, 102.0)
    session.send(CAN_FAIL)
    session.steps()  # what came before has the worker: the rest is not read
    session.state.waits_without_worker(session.requests[0])
    session.state.note_incomplete(True, 103.0)
    assert session.state.deadline == math.inf
    assert session.state.check_deadlines(500.0) is None
    session.complete(1, now=500.0)
    session.steps()
    session.state.note_incomplete(True, 500.0)
    assert session.state.deadline == 500.0 + MESSAGE_TIMEOUT
    session.state.note_incomplete(True, 501.0)  # it goes on, byte by byte
    assert session.state.check_deadlines(499.9 + MESSAGE_TIMEOUT) is None
    assert session.summary(session.state.check_deadlines(500.0 + MESSAGE_TIMEOUT)) == (Action.CUT_OFF, -1)


@pytest.mark.rule("R20", "R12")
def test_a_client_that_does_not_read_replies_with_fds_is_cut_off_past_so_many() -> None:
    session = StartedSession()
    assert session.state.queued(100, MOST_OUTPUT_FDS) is None
    session.state.wrote(100, 1)
    assert session.state.queued(1, 1) is None
    assert session.summary(session.state.queued(1, 1)) == (Action.CUT_OFF, -1)


@pytest.mark.rule("R20")
def test_output_that_the_kernel_refuses_for_its_fds_is_tried_again_for_a_while() -> None:
    session = StartedSession()
    assert session.state.congested(True, 100.0) is None
    assert session.state.is_congested
    assert session.state.deadline == 100.0 + RETRY_INTERVAL
    assert session.state.check_deadlines(100.0) is None
    assert session.summary(session.state.check_deadlines(100.0 + RETRY_INTERVAL)) == (Action.SEND, -1)
    assert session.state.congested(False, 100.1) is None
    assert not session.state.is_congested
    assert session.state.deadline == math.inf
    session.state.congested(True, 200.0)
    assert session.state.congested(True, 199.9 + CONGESTION_TIMEOUT) is None
    assert session.summary(session.state.congested(True, 200.0 + CONGESTION_TIMEOUT)) == (Action.CUT_OFF, -1)


@pytest.mark.rule("R20", "R1")
def test_a_request_without_a_worker_is_returned_and_the_next_one_tries_again() -> None:
    session = StartedSession(CAN_FAIL, CAN_FAIL, with_worker=False)
    assert session.steps() == [(Action.START_WORKER, 1)]
    assert session.state.worker_failed() is session.requests[0]
    assert session.steps() == [(Action.START_WORKER, 2)]


@pytest.mark.rule("R16")
def test_requests_for_a_lost_device_are_refused_at_once_and_new_ones_wait_for_the_next() -> None:
    session = StartedSession(CANNOT_FAIL, CAN_FAIL)
    session.steps()
    session.send(CAN_FAIL, INLINE, CANNOT_FAIL)
    session.state.device_lost(2)
    session.send(INLINE, CAN_FAIL, generation=2)
    assert session.complete(1, ValueError("lost")) == (Action.DEFER, 1)
    assert session.complete(2, "made on the lost one") is None
    assert session.steps() == [
        (Action.REFUSE, 2),
        (Action.REFUSE, 3),
        (Action.REFUSE, 4),
        (Action.REFUSE, 5),
        (Action.ANSWER, 6),
    ]
    assert not session.state.accepts_requests
    session.state.device_opened()
    assert session.steps() == [(Action.DISPATCH, 7)]


@pytest.mark.rule("R16")
def test_a_worker_of_a_lost_device_completes_its_requests_before_another_is_started() -> None:
    session = StartedSession(CANNOT_FAIL, CANNOT_FAIL)
    session.steps()
    session.state.device_lost(2, with_worker=True)
    session.state.device_opened()
    session.send(CAN_FAIL, generation=2)
    assert session.complete(1, ValueError("lost")) == (Action.DEFER, 1)
    assert session.steps() == []
    assert session.complete(2, ValueError("lost")) == (Action.DEFER, 2)
    assert session.steps() == [(Action.START_WORKER, 3)]
