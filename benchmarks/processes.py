"""Functions that run in processes of their own: with another environment, with nothing else in
their memory, or as the other side of a match.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Timed, warmed_up
from benchmarks.plan import Placement, Plan, pairs, pin

SPAWN = multiprocessing.get_context("spawn")
Sides = Mapping[str, Callable[[int], object]]  # by a match's name: does n turns


class ChildFailed(Exception):
    """The process ended, or raised; its text."""


class Child(NamedTuple):
    """A process, and our end of the pipe to it."""

    pipe: Connection
    process: BaseProcess

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    def heard(self, patience: float | None = None) -> Any:
        """Return the process's next message. Raises ChildFailed, also where it says nothing for `patience` seconds."""
        try:
            if not self.pipe.poll(patience):
                raise ChildFailed(f"a process of the benchmark said nothing for {patience:g} s")
            value = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise ChildFailed(f"the process ended by itself, with status {self.process.exitcode}") from None
        if isinstance(value, ChildFailed):
            raise value
        return value


@contextlib.contextmanager
def started(target: Callable[..., None], *arguments: Any, patience: float = 5.0) -> Iterator[Child]:
    """Run ``target(pipe, *arguments)`` in a new process, which inherits no memory.

    After the block the pipe is closed, for the process an EOFError; it is killed when `patience` seconds are over.
    """
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=_run, args=(there, target, arguments), name="benchmark", daemon=True)
    process.start()
    there.close()
    try:
        yield Child(here, process)
    finally:
        here.close()
        process.join(patience)
        if process.is_alive():
            process.kill()
            process.join()


def _run(pipe: Connection, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        try:
            target(pipe, *arguments)
        except EOFError:
            raise
        except Exception as error:
            pipe.send(ChildFailed(f"{type(error).__name__}: {error}"))


def call(function: Callable[..., Any], *arguments: Any, environment: Mapping[str, str] | None = None) -> Any:
    """Call ``function(*arguments)`` in a new process. Raises ChildFailed."""
    with started(_call, dict(environment or {})) as child:
        child.pipe.send((function, arguments))  # its module is imported in that environment
        return child.heard()


def _call(pipe: Connection, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    function, arguments = pipe.recv()
    pipe.send(function(*arguments))


def sleeps(pid: int, seconds: float, *, but: int = 0) -> int:
    """How often in that time the threads of a process go to sleep by themselves, and so were woken; one's left out."""
    before = _sleeps(pid, but)
    time.sleep(seconds)
    return _sleeps(pid, but) - before


def _sleeps(pid: int, but: int) -> int:
    statuses = [each for each in Path(f"/proc/{pid}/task").glob("*/status") if each.parent.name != str(but)]
    counts = (re.search(r"^voluntary_ctxt_switches:\s*(\d+)", each.read_text(), re.MULTILINE) for each in statuses)
    return sum(int(count[1]) for count in counts if count)


@contextlib.contextmanager
def peer(sides: Callable[..., Sides], *arguments: Any, warm_up: int = 0) -> Iterator[Peer]:
    """Start a process for the other side of matches. ``sides(*arguments)`` is called there and
    returns its sides by the matches' names: functions that do n turns. So many turns go before the
    clock starts: both must have woken.
    """
    with started(_serve, sides, arguments, warm_up) as child:
        child.heard()  # it has set everything up
        yield Peer(child, warm_up)


class Peer(NamedTuple):
    """A process that plays the other side of any number of matches, on the CPUs that it is given."""

    child: Child
    warm_up: int

    def places(self, plan: Plan) -> Iterator[Placement]:
        """Where the two processes run; they are there until the next."""
        for place in pairs(plan.pinned_only):
            pin(place.peer, self.child.pid)
            with plan.at(place):
                yield place

    def play(self, match: str, n: int, mine: Timed) -> tuple[float, float]:
        """Has it play its side while `mine` plays ours. The seconds that each took."""
        self.child.pipe.send((match, n))
        return mine(n), self.child.heard()

    def matches(self, sides: Sides, *, by_ours: bool = False) -> dict[str, Timed]:
        """Matches by the other process's clock, or by ours."""

        def match(name: str, mine: Timed) -> Timed:
            return lambda n: self.play(name, n, mine)[not by_ours]

        return {name: match(name, mine) for name, mine in _warmed_up(sides, self.warm_up).items()}


def _warmed_up(sides: Sides, turns: int) -> dict[str, Timed]:
    return {name: warmed_up(side, turns) for name, side in sides.items()}


def _serve(link: Connection, sides: Callable[..., Sides], arguments: tuple[Any, ...], warm_up: int) -> None:
    """Main loop of the peer process, until the link is closed."""
    ours = _warmed_up(sides(*arguments), warm_up)
    link.send("ready")
    while True:
        match, n = link.recv()
        link.send(ours[match](n))
