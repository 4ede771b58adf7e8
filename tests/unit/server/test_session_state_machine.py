"""Random walks of a session state against an oracle that decides from the whole history at each step."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field

import pytest
from support.run_volumes import rounds, seeded, unhurried

from vkshare.server.session_state import MOST_OUTPUT, MOST_QUEUED, NO_GENERATION, PATIENCE, Action, Route, SessionState

pytestmark = [pytest.mark.no_driver, unhurried]

ROUTES = [Route.INLINE, Route.CAN_FAIL, Route.CANNOT_FAIL, Route.CANNOT_FAIL, Route.CANNOT_FAIL]


@dataclass(eq=False)
class FakeRequest:
    sequence: int
    route: Route
    generation: int
    is_hello: bool = False
    dispatched: float = -1.0  # when
    completed: float = -1.0
    outcome: object = None
    waits_for_fence: bool = False
    decisions: list[Action] = field(default_factory=list)


class Oracle:
    """The rules over the list of all requests, with nothing remembered but what happened to each."""

    def __init__(self) -> None:
        self.all: list[FakeRequest] = []
        self.generation = 1
        self.is_held = self.has_worker = self.is_starting = False
        self.is_open = True
        self.output = 0

    def out(self) -> list[FakeRequest]:
        return [r for r in self.all if r.dispatched >= 0 and r.completed < 0]

    def waiting(self) -> list[FakeRequest]:
        """Returns the requests without a decision, in the order of arrival."""
        return [r for r in self.all if not r.decisions]

    def pushed_back(self) -> FakeRequest | None:
        found = [r for r in self.all if r.route is Route.CAN_FAIL and r.decisions == [Action.DISPATCH]]
        assert len(found) <= 1
        return found[0] if found else None

    def decides(self) -> tuple[Action, FakeRequest] | None:
        pushed = self.pushed_back()
        if not self.is_open:
            return None
        if pushed is not None:
            if pushed.completed < 0:
                return None
            return (Action.FINISH if pushed.generation == self.generation else Action.REFUSE), pushed
        if not self.waiting():
            return None
        head = self.waiting()[0]
        before = [r for r in self.all if r.sequence < head.sequence]
        assert all(r.decisions for r in before), "a request was overtaken"
        is_stale = head.generation != self.generation and not head.is_hello
        if is_stale or head.route is Route.INLINE:
            if self.out():
                return None
            return (Action.REFUSE if is_stale else Action.ANSWER), head
        if self.is_held or self.is_starting or len(self.out()) >= MOST_QUEUED:
            return None
        if not self.has_worker:
            return None if self.out() else (Action.START_WORKER, head)
        return Action.DISPATCH, head

    def deadline(self) -> float:
        """2 s after the worker last got through with something, or got something to do."""
        out = self.out()
        if not self.is_open or not out or out[-1].waits_for_fence:
            return math.inf
        return max(out[0].dispatched, max((r.completed for r in self.all), default=-1.0)) + PATIENCE

    def accepts_requests(self) -> bool:
        return self.is_open and not self.waiting() and self.pushed_back() is None and len(self.out()) < MOST_QUEUED


class Walk:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 1.0
        self.state: SessionState[FakeRequest] = SessionState(1, self.now)
        self.oracle = Oracle()
        self.arrive(FakeRequest(0, Route.INLINE, NO_GENERATION, is_hello=True))
        self.take_decisions()

    def arrive(self, request: FakeRequest) -> None:
        self.oracle.all.append(request)
        self.state.arrived(request)

    def take_decisions(self) -> None:
        """Takes decisions, and compares each with the oracle's."""
        for _ in range(self.rng.choice([1, 3, 100])):
            expected = self.oracle.decides()
            found = self.state.step(self.now)
            assert (found and (found.action, found.request)) == expected
            if found is None or found.request is None:
                return
            if found.action is Action.START_WORKER:
                self.oracle.is_starting = True
                continue
            if found.action is Action.DISPATCH:
                found.request.dispatched = self.now
            if found.action is Action.FINISH:
                assert found.outcome is found.request.outcome
            found.request.decisions.append(found.action)

    def step(self) -> None:
        self.now += self.rng.choice([0.0, 0.001, 0.3])
        action = self.rng.choice(
            [self.send, self.send, self.take_decisions, self.take_decisions, self.complete, self.complete, self.other]
        )
        action()
        assert self.state.accepts_requests == self.oracle.accepts_requests()
        assert len(self.state._in_flight) == len(self.oracle.out())
        if self.state.is_open:
            assert self.state.deadline == self.oracle.deadline()

    def send(self) -> None:
        """Only what is read can arrive; but one read may bring many."""
        if not self.state.accepts_requests:
            return
        for _ in range(self.rng.choice([1, 1, 4, 100])):
            stale = self.rng.random() < 0.02
            generation = self.oracle.generation - stale
            self.arrive(FakeRequest(len(self.oracle.all), self.rng.choice(ROUTES), generation))

    def complete(self) -> None:
        out = self.oracle.out()
        if not out:
            return
        request = out[0]
        if request.route is Route.CAN_FAIL and not request.waits_for_fence and self.rng.random() < 0.2:
            self.state.waits_without_worker(request)
            request.waits_for_fence = True
            return
        failed = self.rng.random() < 0.3
        request.outcome = ValueError() if failed else object()
        found = self.state.completed(request, request.outcome, self.now, failed=failed)
        request.completed = self.now
        if failed and request.route is Route.CANNOT_FAIL and self.state.is_open:
            assert found is not None
            assert (found.action, found.request, found.outcome) == (Action.DEFER, request, request.outcome)
            request.decisions.append(Action.DEFER)
        else:
            assert found is None

    def other(self) -> None:
        what = self.rng.choice(
            ["started", "started", "started", "lost", "opened", "opened", "due", "output", "read", "read"]
        )
        oracle = self.oracle
        if what == "started" and oracle.is_starting:
            self.state.worker_started()
            oracle.has_worker, oracle.is_starting = True, False
        elif what == "lost" and self.rng.random() < 0.2:
            with_worker = self.rng.random() < 0.5
            oracle.generation += 1
            oracle.is_held = True
            if with_worker:
                oracle.has_worker = oracle.is_starting = False
            self.state.device_lost(oracle.generation, with_worker=with_worker)
        elif what == "opened":
            self.state.device_opened()
            oracle.is_held = False
        elif what == "due":
            self.expire()
        elif what == "output":
            self.output()
        elif what == "read" and oracle.output:
            part = self.rng.randint(1, oracle.output)
            self.state.wrote(part)
            oracle.output -= part

    def expire(self) -> None:
        deadline = self.oracle.deadline()
        late = self.rng.random() < 0.02 and deadline < math.inf
        when = deadline if late else self.now
        found = self.state.check_deadlines(when)
        if when >= deadline:
            assert found is not None
            assert (found.action, found.request) == (Action.ABANDON, self.oracle.out()[0])
            self.oracle.is_open = False
        else:
            assert found is None

    def output(self) -> None:
        size = self.rng.choice([1, 1000, 300_000])
        self.oracle.output += size
        found = self.state.queued(size)
        assert (found is not None) == (self.oracle.output > MOST_OUTPUT)
        if found is not None:
            assert found.action is Action.CUT_OFF
            self.oracle.is_open = False

    def end(self) -> None:
        """Checks the invariants of every history."""
        ran = [r for r in self.oracle.all if r.dispatched >= 0]
        assert [r.sequence for r in ran] == sorted(r.sequence for r in ran)
        for earlier, later in itertools.pairwise(ran):
            if earlier.route is Route.CAN_FAIL:
                assert later.dispatched >= earlier.completed >= 0, "something later ran before a result was there"
        for request in self.oracle.all:
            allowed = {
                Route.INLINE: [[], [Action.ANSWER], [Action.REFUSE]],
                Route.CAN_FAIL: [
                    [],
                    [Action.DISPATCH],
                    [Action.DISPATCH, Action.FINISH],
                    [Action.DISPATCH, Action.REFUSE],
                    [Action.REFUSE],
                ],
                Route.CANNOT_FAIL: [[], [Action.DISPATCH], [Action.DISPATCH, Action.DEFER], [Action.REFUSE]],
            }[request.route]
            assert request.decisions in allowed


@pytest.mark.rule("R4", "R5", "R6", "R7", "R15", "R16")
def test_every_decision_is_the_one_that_the_whole_history_calls_for() -> None:
    rng = seeded()
    steps = 0
    while steps < rounds(3_000_000, 100_000):
        walk = Walk(rng)
        for _ in range(rng.choice([20, 60])):
            walk.step()
            steps += 1
            if not walk.state.is_open:
                break
        walk.end()
