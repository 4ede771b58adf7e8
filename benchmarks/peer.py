"""A second process that plays the other side of a match.

Both sides of a match know it by its name; each is a function that does n turns. The process is started once and plays
any number of matches, on the CPUs that it is given.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

from benchmarks import child, placement
from benchmarks.measure import Timed
from benchmarks.placement import Placement
from benchmarks.plan import Plan
from vkshare.util.closing import Scoped


class Peer(Scoped):
    """The other process. ``module:function(*arguments)`` is called there and returns its sides by name."""

    def __init__(self, module: str, function: str, *arguments: Any) -> None:
        with ExitStack() as stack:
            self._child = stack.enter_context(child.started(_serve, module, function, arguments))
            self._child.heard()  # it has set everything up
            self._stack = stack.pop_all()

    def places(self, plan: Plan) -> Iterator[Placement]:
        """Where the two processes run; they are there until the next."""
        for place in placement.pairs(plan.pinned_only):
            self._child.pipe.send(("pin", place.peer))
            self._child.heard()
            with placement.placed(place):
                yield place

    def play(self, match: str, n: int, mine: Timed) -> tuple[float, float]:
        """Has it play its side while `mine` plays ours. The seconds that each took."""
        self._child.pipe.send((match, n))
        return mine(n), self._child.heard()

    def matches(self, sides: dict[str, Timed], *, by_ours: bool = False) -> dict[str, Timed]:
        """Matches by the other process's clock, or by ours."""

        def match(name: str, mine: Timed) -> Timed:
            return lambda n: self.play(name, n, mine)[not by_ours]

        return {name: match(name, mine) for name, mine in sides.items()}

    def close(self) -> None:
        """Ends the process. Idempotent."""
        self._stack.close()


def _serve(link: Connection, module: str, function: str, arguments: tuple[Any, ...]) -> None:
    """Main loop of the peer process, until the link is closed."""
    sides: dict[str, Timed] = getattr(importlib.import_module(module), function)(*arguments)
    link.send(0.0)
    while True:
        match, value = link.recv()
        if match == "pin":
            placement.pin(value)
            link.send(None)
        else:
            link.send(sides[match](value))
