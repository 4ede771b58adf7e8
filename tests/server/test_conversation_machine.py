"""Random walks of a conversation against an oracle that decides from the whole history, anew at each step."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pytest
from support.run_volumes import rounds, seeded, unhurried

from vkshare.server.conversation import GREETINGS, MOST_OUTPUT, MOST_QUEUED, PATIENCE, Conversation, Do, Route

pytestmark = unhurried

ROUTES = [Route.INLINE, Route.CAN_FAIL, Route.CANNOT_FAIL, Route.CANNOT_FAIL, Route.CANNOT_FAIL]


@dataclass(eq=False)
class Asked:
    sequence: int
    route: Route
    generation: int
    is_greeting: bool = False
    handed: float = -1.0  # when
    completed: float = -1.0
    outcome: object = None
    elsewhere: bool = False
    fates: list[Do] = field(default_factory=list)


class Oracle:
    """The rules over the list of all requests, with nothing remembered but what happened to each."""

    def __init__(self) -> None:
        self.all: list[Asked] = []
        self.generation = 1
        self.is_held = self.has_worker = self.is_hiring = False
        self.is_open = True
        self.output = 0

    def out(self) -> list[Asked]:
        return [r for r in self.all if r.handed >= 0 and r.completed < 0]

    def waiting(self) -> list[Asked]:
        """In the order in which they came, those about which nothing was decided."""
        return [r for r in self.all if not r.fates]

    def pushed_back(self) -> Asked | None:
        found = [r for r in self.all if r.route is Route.CAN_FAIL and r.fates == [Do.HAND]]
        assert len(found) <= 1
        return found[0] if found else None

    def decides(self) -> tuple[Do, Asked] | None:
        pushed = self.pushed_back()
        if not self.is_open:
            return None
        if pushed is not None:
            if pushed.completed < 0:
                return None
            return (Do.FINISH if pushed.generation == self.generation else Do.REFUSE), pushed
        if not self.waiting():
            return None
        head = self.waiting()[0]
        before = [r for r in self.all if r.sequence < head.sequence]
        assert all(r.fates for r in before), "somebody was overtaken"
        is_stale = head.generation != self.generation and not head.is_greeting
        if is_stale or head.route is Route.INLINE:
            if self.out():
                return None
            return (Do.REFUSE if is_stale else Do.ANSWER), head
        if self.is_held or self.is_hiring or len(self.out()) >= MOST_QUEUED:
            return None
        if not self.has_worker:
            return None if self.out() else (Do.HIRE, head)
        return Do.HAND, head

    def deadline(self) -> float | None:
        """2 s after the worker last got through with something, or got something to do."""
        out = self.out()
        if not self.is_open or not out or out[-1].elsewhere:
            return None
        return max(out[0].handed, max((r.completed for r in self.all), default=-1.0)) + PATIENCE

    def is_attended(self) -> bool:
        return self.is_open and not self.waiting() and self.pushed_back() is None and len(self.out()) < MOST_QUEUED


class Walk:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 1.0
        self.it: Conversation[Asked] = Conversation(1, 1, self.now)
        self.oracle = Oracle()
        self.arrive(Asked(0, Route.INLINE, GREETINGS, is_greeting=True))
        self.look()

    def arrive(self, asked: Asked) -> None:
        self.oracle.all.append(asked)
        self.it.arrived(asked)

    def look(self) -> None:
        """As many decisions as there are, each as the oracle has it."""
        for _ in range(self.rng.choice([1, 3, 100])):
            expected = self.oracle.decides()
            found = self.it.step(self.now)
            assert (found and (found.do, found.request)) == expected
            if found is None or found.request is None:
                return
            if found.do is Do.HIRE:
                self.oracle.is_hiring = True
                continue
            if found.do is Do.HAND:
                found.request.handed = self.now
            if found.do is Do.FINISH:
                assert found.outcome is found.request.outcome
            found.request.fates.append(found.do)

    def step(self) -> None:
        self.now += self.rng.choice([0.0, 0.001, 0.3])
        action = self.rng.choice([self.send, self.send, self.look, self.look, self.complete, self.complete, self.other])
        action()
        assert self.it.is_attended == self.oracle.is_attended()
        assert self.it.out == len(self.oracle.out())
        if self.it.is_open:
            assert self.it.deadline == self.oracle.deadline()

    def send(self) -> None:
        """Only what is read can arrive; but one read may bring many."""
        if not self.it.is_attended:
            return
        for _ in range(self.rng.choice([1, 1, 4, 100])):
            stale = self.rng.random() < 0.02
            generation = self.oracle.generation - stale
            self.arrive(Asked(len(self.oracle.all), self.rng.choice(ROUTES), generation))

    def complete(self) -> None:
        out = self.oracle.out()
        if not out:
            return
        asked = out[0]
        if asked.route is Route.CAN_FAIL and not asked.elsewhere and self.rng.random() < 0.2:
            self.it.waits_elsewhere(asked)
            asked.elsewhere = True
            return
        failed = self.rng.random() < 0.3
        asked.outcome = ValueError() if failed else object()
        found = self.it.completed(asked, asked.outcome, self.now, failed=failed)
        asked.completed = self.now
        if failed and asked.route is Route.CANNOT_FAIL and self.it.is_open:
            assert found is not None
            assert (found.do, found.request, found.outcome) == (Do.DEFER, asked, asked.outcome)
            asked.fates.append(Do.DEFER)
        else:
            assert found is None

    def other(self) -> None:
        what = self.rng.choice(["hired", "hired", "hired", "lost", "opened", "opened", "due", "output", "read", "read"])
        oracle = self.oracle
        if what == "hired" and oracle.is_hiring:
            self.it.hired()
            oracle.has_worker, oracle.is_hiring = True, False
        elif what == "lost" and self.rng.random() < 0.2:
            with_worker = self.rng.random() < 0.5
            oracle.generation += 1
            oracle.is_held = True
            if with_worker:
                oracle.has_worker = oracle.is_hiring = False
            self.it.device_lost(oracle.generation, with_worker=with_worker)
        elif what == "opened":
            self.it.device_opened()
            oracle.is_held = False
        elif what == "due":
            self.due()
        elif what == "output":
            self.output()
        elif what == "read" and oracle.output:
            part = self.rng.randint(1, oracle.output)
            self.it.wrote(part)
            oracle.output -= part

    def due(self) -> None:
        deadline = self.oracle.deadline()
        late = self.rng.random() < 0.02 and deadline is not None
        when = deadline if late and deadline is not None else self.now
        found = self.it.due(when)
        if deadline is not None and when >= deadline:
            assert found is not None
            assert (found.do, found.request) == (Do.LOSE, self.oracle.out()[0])
            self.oracle.is_open = False
        else:
            assert found is None

    def output(self) -> None:
        size = self.rng.choice([1, 1000, 300_000])
        self.oracle.output += size
        found = self.it.queued(size)
        assert (found is not None) == (self.oracle.output > MOST_OUTPUT)
        if found is not None:
            assert found.do is Do.CUT_OFF
            self.oracle.is_open = False

    def end(self) -> None:
        """What every history must look like, whatever happened."""
        ran = [r for r in self.oracle.all if r.handed >= 0]
        assert [r.sequence for r in ran] == sorted(r.sequence for r in ran)
        for earlier, later in itertools.pairwise(ran):
            if earlier.route is Route.CAN_FAIL:
                assert later.handed >= earlier.completed >= 0, "something later ran before a result was there"
        for asked in self.oracle.all:
            allowed = {
                Route.INLINE: [[], [Do.ANSWER], [Do.REFUSE]],
                Route.CAN_FAIL: [[], [Do.HAND], [Do.HAND, Do.FINISH], [Do.HAND, Do.REFUSE], [Do.REFUSE]],
                Route.CANNOT_FAIL: [[], [Do.HAND], [Do.HAND, Do.DEFER], [Do.REFUSE]],
            }[asked.route]
            assert asked.fates in allowed


@pytest.mark.rule("R4", "R5", "R6", "R7", "R15", "R16")
def test_every_decision_is_the_one_that_the_whole_history_calls_for() -> None:
    rng = seeded()
    steps = 0
    while steps < rounds(3_000_000, 100_000):
        walk = Walk(rng)
        for _ in range(rng.choice([20, 60])):
            walk.step()
            steps += 1
            if not walk.it.is_open:
                break
        walk.end()
