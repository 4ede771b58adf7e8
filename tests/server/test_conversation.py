"""What is done about one client, decided without sockets, threads or clock. Rules R1, R4 to R7, R12, R14 to R16."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from vkshare.server.conversation import (
    CONGESTION,
    GREETING,
    GREETINGS,
    MOST_OUTPUT,
    MOST_OUTPUT_FDS,
    MOST_QUEUED,
    RETRY,
    UNFINISHED,
    Conversation,
    Decision,
    Do,
    Route,
)

CAN_FAIL, CANNOT_FAIL, INLINE = Route.CAN_FAIL, Route.CANNOT_FAIL, Route.INLINE


@dataclass(frozen=True, eq=False)
class Asked:
    sequence: int
    route: Route
    generation: int = 1
    is_greeting: bool = False


class Talk:
    """A conversation that has begun and has a worker, and the requests of it by number."""

    def __init__(self, *routes: Route, patience: float = 2.0, with_worker: bool = True) -> None:
        self.it: Conversation[Asked] = Conversation(7, 1, 100.0, patience=patience)
        self.it.arrived(Asked(0, INLINE, GREETINGS, is_greeting=True))
        assert self.step() == (Do.ANSWER, 0)
        self.asked: list[Asked] = []
        if with_worker:
            self.it.hired()
        self.ask(*routes)

    def ask(self, *routes: Route, generation: int = 1) -> None:
        for route in routes:
            self.asked.append(Asked(len(self.asked) + 1, route, generation))
            self.it.arrived(self.asked[-1])

    def step(self, now: float = 100.0) -> tuple[Do, int] | None:
        return self.told(self.it.step(now))

    def steps(self) -> list[tuple[Do, int]]:
        found = []
        while (told := self.step()) is not None and len(found) < 1000:
            found.append(told)
        return found

    def done(self, number: int, outcome: object = None, now: float = 100.0) -> tuple[Do, int] | None:
        return self.told(self.it.completed(self.asked[number - 1], outcome, now, failed=isinstance(outcome, Exception)))

    @staticmethod
    def told(decision: Decision[Asked] | None) -> tuple[Do, int] | None:
        if decision is None:
            return None
        return decision.do, -1 if decision.request is None else decision.request.sequence


@pytest.mark.rule("R1")
def test_the_first_render_request_hires_a_worker_and_no_other_does() -> None:
    talk = Talk(INLINE, CANNOT_FAIL, CANNOT_FAIL, with_worker=False)
    assert talk.steps() == [(Do.ANSWER, 1), (Do.HIRE, 2)]
    assert not talk.it.is_attended
    talk.it.hired()
    assert talk.steps() == [(Do.HAND, 2), (Do.HAND, 3)]


@pytest.mark.rule("R4")
def test_a_client_whose_work_is_out_is_ignored_and_what_it_had_sent_is_dispatched_afterwards() -> None:
    talk = Talk(CAN_FAIL, CAN_FAIL, INLINE)
    assert talk.steps() == [(Do.HAND, 1)]
    assert not talk.it.is_attended
    assert talk.done(1) is None
    assert talk.steps() == [(Do.FINISH, 1), (Do.HAND, 2)]
    assert talk.done(2) is None
    assert talk.steps() == [(Do.FINISH, 2), (Do.ANSWER, 3)]
    assert talk.it.is_attended


@pytest.mark.rule("R5")
def test_what_can_fail_is_dispatched_once_more_with_its_outcome_and_nothing_later_has_run() -> None:
    talk = Talk(CAN_FAIL, CANNOT_FAIL, CAN_FAIL)
    error = ValueError("no")
    assert talk.steps() == [(Do.HAND, 1)]
    assert talk.it.completed(talk.asked[0], error, 100.0, failed=True) is None
    decision = talk.it.step(100.0)
    assert decision is not None
    assert (decision.do, decision.request, decision.outcome) == (Do.FINISH, talk.asked[0], error)
    assert talk.steps() == [(Do.HAND, 2), (Do.HAND, 3)]


@pytest.mark.rule("R6")
def test_64_requests_that_cannot_fail_are_queued_and_the_65th_waits() -> None:
    talk = Talk(*[CANNOT_FAIL] * (MOST_QUEUED + 2))
    assert talk.steps() == [(Do.HAND, n) for n in range(1, MOST_QUEUED + 1)]
    assert talk.it.out == MOST_QUEUED == 64
    assert not talk.it.is_attended
    assert talk.done(1) is None
    assert talk.steps() == [(Do.HAND, MOST_QUEUED + 1)]


@pytest.mark.rule("R6")
def test_a_late_failure_is_told_under_the_number_of_what_failed() -> None:
    talk = Talk(CANNOT_FAIL, CANNOT_FAIL, CANNOT_FAIL)
    talk.steps()
    assert talk.done(1) is None
    assert talk.done(2, ValueError("no")) == (Do.DEFER, 2)
    assert talk.told(talk.it.failed_late(talk.asked[0], ValueError("later still"))) == (Do.DEFER, 1)
    assert talk.it.counts.deferred == 2


@pytest.mark.rule("R7")
def test_an_inline_request_waits_for_those_before_it() -> None:
    talk = Talk(CANNOT_FAIL, INLINE, CANNOT_FAIL)
    assert talk.steps() == [(Do.HAND, 1)]
    assert not talk.it.is_idle
    assert talk.done(1) is None
    assert talk.steps() == [(Do.ANSWER, 2), (Do.HAND, 3)]


@pytest.mark.rule("R7")
def test_only_the_oldest_request_that_is_out_can_be_completed() -> None:
    talk = Talk(CANNOT_FAIL, CANNOT_FAIL)
    talk.steps()
    with pytest.raises(ValueError, match="request 2 was completed"):
        talk.done(2)


@pytest.mark.rule("R12")
def test_a_client_that_reads_nothing_is_cut_off_past_1_mib_and_not_before() -> None:
    talk = Talk()
    assert talk.it.queued(MOST_OUTPUT) is None
    assert not talk.it.is_idle
    talk.it.wrote(1)
    assert talk.it.queued(1) is None
    assert talk.told(talk.it.queued(1)) == (Do.CUT_OFF, -1)
    assert MOST_OUTPUT == 1 << 20
    assert not talk.it.is_open


@pytest.mark.rule("R14")
def test_what_was_out_when_the_client_went_is_dropped() -> None:
    talk = Talk(CAN_FAIL, INLINE)
    talk.steps()
    left, outcome = talk.it.close()
    assert ([request.sequence for request in left], outcome) == ([2], None)
    assert talk.done(1, ValueError("late")) is None
    assert talk.it.failed_late(talk.asked[0], ValueError()) is None
    assert talk.steps() == []
    assert talk.it.deadline is None


@pytest.mark.rule("R14")
def test_an_outcome_that_was_not_told_yet_is_given_back_when_the_client_goes() -> None:
    talk = Talk(CAN_FAIL)
    talk.steps()
    talk.done(1, "made")
    assert talk.it.close() == ([], "made")
    assert talk.it.close() == ([], None)


@pytest.mark.rule("R15")
def test_a_worker_that_keeps_a_request_for_2_s_loses_its_client() -> None:
    talk = Talk(CANNOT_FAIL, CANNOT_FAIL)
    assert talk.it.deadline is None
    talk.steps()
    assert talk.it.deadline == 102.0
    assert talk.it.due(101.999) is None
    assert talk.done(1, now=101.5) is None
    assert talk.it.deadline == 103.5  # there was progress
    assert talk.it.due(103.4) is None
    decision = talk.it.due(103.5)
    assert talk.told(decision) == (Do.LOSE, 2)
    assert decision is not None
    assert "request 2 has kept its worker for 2 s" in decision.why
    assert talk.it.due(200.0) is None


@pytest.mark.rule("R15")
def test_a_request_that_waits_for_a_fence_is_no_fault_of_the_worker() -> None:
    talk = Talk(CAN_FAIL)
    talk.steps()
    talk.it.waits_elsewhere(talk.asked[0])
    assert talk.it.deadline is None
    assert not talk.it.is_attended
    assert talk.done(1) is None
    talk.ask(CAN_FAIL)
    assert talk.steps() == [(Do.FINISH, 1), (Do.HAND, 2)]
    assert talk.it.deadline == 102.0


@pytest.mark.rule("R13")
def test_a_client_that_says_nothing_or_does_not_say_hello_first_is_cut_off() -> None:
    silent: Conversation[Asked] = Conversation(1, 1, 5.0)
    assert silent.deadline == 5.0 + GREETING
    assert Talk.told(silent.due(5.0 + GREETING)) == (Do.CUT_OFF, -1)
    rude: Conversation[Asked] = Conversation(2, 1, 5.0)
    rude.arrived(Asked(1, INLINE))
    assert Talk.told(rude.step(5.0)) == (Do.CUT_OFF, -1)
    talk = Talk()
    talk.it.arrived(Asked(1, INLINE, GREETINGS, is_greeting=True))
    assert talk.step() == (Do.CUT_OFF, -1)


@pytest.mark.rule("R20")
def test_a_message_with_fds_must_be_whole_in_time_and_the_time_runs_while_it_is_read_only() -> None:
    talk = Talk()
    talk.it.unfinished(True, 100.0)
    assert talk.it.deadline == 100.0 + UNFINISHED
    assert talk.it.unfinished_since == 100.0
    talk.it.unfinished(False, 101.0)
    assert talk.it.deadline is None
    talk.it.unfinished(True, 102.0)
    talk.ask(CAN_FAIL)
    talk.steps()  # what came before has the worker: the rest is not read
    talk.it.waits_elsewhere(talk.asked[0])
    talk.it.unfinished(True, 103.0)
    assert talk.it.deadline is None
    assert talk.it.due(500.0) is None
    talk.done(1, now=500.0)
    talk.steps()
    talk.it.unfinished(True, 500.0)
    assert talk.it.deadline == 500.0 + UNFINISHED
    talk.it.unfinished(True, 501.0)  # it goes on, byte by byte
    assert talk.it.due(499.9 + UNFINISHED) is None
    assert talk.told(talk.it.due(500.0 + UNFINISHED)) == (Do.CUT_OFF, -1)


@pytest.mark.rule("R20", "R12")
def test_a_client_that_does_not_read_replies_with_fds_is_cut_off_past_so_many() -> None:
    talk = Talk()
    assert talk.it.queued(100, MOST_OUTPUT_FDS) is None
    talk.it.wrote(100, 1)
    assert talk.it.queued(1, 1) is None
    assert talk.told(talk.it.queued(1, 1)) == (Do.CUT_OFF, -1)


@pytest.mark.rule("R20")
def test_output_that_the_kernel_refuses_for_its_fds_is_tried_again_for_a_while() -> None:
    talk = Talk()
    assert talk.it.congested(True, 100.0) is None
    assert talk.it.is_congested
    assert talk.it.deadline == 100.0 + RETRY
    assert talk.it.due(100.0) is None
    assert talk.told(talk.it.due(100.0 + RETRY)) == (Do.SEND, -1)
    assert talk.it.congested(False, 100.1) is None
    assert not talk.it.is_congested
    assert talk.it.deadline is None
    talk.it.congested(True, 200.0)
    assert talk.it.congested(True, 199.9 + CONGESTION) is None
    assert talk.told(talk.it.congested(True, 200.0 + CONGESTION)) == (Do.CUT_OFF, -1)


@pytest.mark.rule("R20", "R1")
def test_a_request_for_which_no_worker_can_be_had_is_given_back_and_the_next_tries_again() -> None:
    talk = Talk(CAN_FAIL, CAN_FAIL, with_worker=False)
    assert talk.steps() == [(Do.HIRE, 1)]
    assert talk.it.not_hired() is talk.asked[0]
    assert talk.steps() == [(Do.HIRE, 2)]


@pytest.mark.rule("R16")
def test_requests_for_a_lost_device_are_refused_at_once_and_new_ones_wait_for_the_next() -> None:
    talk = Talk(CANNOT_FAIL, CAN_FAIL)
    talk.steps()
    talk.ask(CAN_FAIL, INLINE, CANNOT_FAIL)
    talk.it.device_lost(2)
    talk.ask(INLINE, CAN_FAIL, generation=2)
    assert talk.done(1, ValueError("lost")) == (Do.DEFER, 1)
    assert talk.done(2, "made on the lost one") is None
    assert talk.steps() == [(Do.REFUSE, 2), (Do.REFUSE, 3), (Do.REFUSE, 4), (Do.REFUSE, 5), (Do.ANSWER, 6)]
    assert not talk.it.is_attended
    talk.it.device_opened()
    assert talk.steps() == [(Do.HAND, 7)]


@pytest.mark.rule("R16")
def test_a_worker_that_goes_with_its_device_finishes_what_it_has_before_another_is_hired() -> None:
    talk = Talk(CANNOT_FAIL, CANNOT_FAIL)
    talk.steps()
    talk.it.device_lost(2, with_worker=True)
    talk.it.device_opened()
    talk.ask(CAN_FAIL, generation=2)
    assert talk.done(1, ValueError("lost")) == (Do.DEFER, 1)
    assert talk.steps() == []
    assert talk.done(2, ValueError("lost")) == (Do.DEFER, 2)
    assert talk.steps() == [(Do.HIRE, 3)]
