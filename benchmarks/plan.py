"""A run: its options, where its processes are, and the rows that its questions add."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.compiler import CFailed
from benchmarks.measure import Contenders, Samples, Spread, differences, empty, rates, ratios, spreads, take_turns
from benchmarks.report import COUNT, OVER_C, RATE, RATIO, TIME, Must, Row

Value = Spread | float  # a number has no spread
_ALL = frozenset(os.sched_getaffinity(0))


class Placement(NamedTuple):
    """Where a process, and its peer if there is one, run. None: wherever the system puts them."""

    name: str
    here: int | None = None
    peer: int | None = None


UNPINNED = Placement("unpinned")
ONE_CORE = Placement("one core", min(_ALL), min(_ALL))


def pairs(pinned_only: bool) -> list[Placement]:
    """For two processes: both on one core, each on its own, and unpinned."""
    first, *others = sorted(_ALL)
    apart = [Placement("two cores", first, others[0])] if others else []
    return [ONE_CORE, *apart, *[UNPINNED][pinned_only:]]


def pin(core: int | None, process: int | None = None) -> None:
    """Moves every thread of this process, or of that one, to that core; None sets them free.

    Threads made later follow their maker.
    """
    cores = _ALL if core is None else {core}
    for thread in os.listdir(f"/proc/{process or 'self'}/task"):
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), cores)


def _spread(value: Value | None) -> Any:
    return value if value is None or isinstance(value, Spread) else Spread.of([float(value)])


@dataclass(slots=True)
class Plan:
    """Options of the run, and where its questions leave their rows and what the reader must know."""

    seconds: float = 2.0  # a table row's contenders take turns for about that long
    pinned_only: bool = False
    quick: bool = False  # a fiftieth of what rows repeat a fixed number of times
    minutes: float = 0.5  # over which a row looks at memory
    progress: Callable[[str], object] = str  # called with what is being measured
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    place: Placement = UNPINNED  # of this process

    def note(self, text: str) -> None:
        """Shown below the table, once."""
        if text not in self.notes:
            self.notes.append(text)

    @contextlib.contextmanager
    def noting(self, what: str, *errors: type[Exception]) -> Iterator[None]:
        """Notes such an error (CFailed), which ends the block: a row that cannot be had must not cost the others."""
        caught = errors or (CFailed,)
        try:
            yield
        except caught as error:
            self.note(f"{what}: {str(error) or type(error).__name__}")

    def take(self, other: Plan) -> None:
        """Add the rows and the notes of another run."""
        self.rows += other.rows
        for note in other.notes:
            self.note(note)

    # ---- places ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def at(self, place: Placement, *servers: int) -> Iterator[None]:
        """Pins this process inside the block, and with it the processes that serve it."""
        before, self.place = self.place, place
        try:
            for process in (None, *servers):
                pin(place.here, process)
            yield
        finally:
            self.place = before
            for process in (None, *servers):
                pin(None, process)

    def alone(self, *servers: int) -> Iterator[Placement]:
        """For one process: on one core, and unpinned. It is there until the next, and with it those that serve it."""
        for place in (ONE_CORE, *[UNPINNED][self.pinned_only :]):
            with self.at(place, *servers):
                yield place

    # ---- rows --------------------------------------------------------------------------------------------------------

    def turns(self, what: str, contenders: Contenders, turn: float = 1e-3, times: float = 1.0) -> dict[str, Samples]:
        """take_turns() of about `turn` seconds each, for a row's time or some times that."""
        self.progress(f"{what}, {self.place.name}")
        return take_turns(contenders, times * self.seconds, turn)

    def add(
        self, what: str, kind: str, figure: Value | None, ours: Value, theirs: Value | None = None, **more: Any
    ) -> Row:
        """Add a row. Its figure must be at `most` or at `least` so much; `more` has its other fields, too."""
        most, least, place = (more.pop(name, None) for name in ("most", "least", "place"))
        limit = least if most is None else most
        must = None if limit is None else Must(limit, at_least=most is None)
        others = {name: _spread(each) for name, each in more.pop("others", {}).items()}
        sides = _spread(ours), _spread(theirs), kind, _spread(figure)
        self.rows.append(Row(what, place or self.place.name, *sides, must, others=others, **more))
        return self.rows[-1]

    def own(self, what: str, ours: Value, **more: Any) -> None:
        """Add a row of a time of ours: the figure is the measured value itself."""
        self.add(what, TIME, ours, ours, **more)

    def count(self, what: str, number: float, **more: Any) -> None:
        """Add a row of a number of ours."""
        self.add(what, COUNT, number, number, unit="things", **more)

    def rate(self, what: str, samples: Mapping[str, Samples], **more: Any) -> None:
        """Add a row of a rate of ours."""
        found = spreads({name: rates(each) for name, each in samples.items()})
        self.add(what, RATE, found["ours"], found["ours"], found.get("c"), is_rate=True, **more)

    def ratio(self, what: str, figure: Value | None, ours: Value, theirs: Value | None = None, **more: Any) -> None:
        """Add a row of ours in terms of what `against` names."""
        self.add(what, RATIO, figure, ours, theirs, **more)

    def compare(self, what: str, samples: Mapping[str, Samples], *, over_c: bool = False, **more: Any) -> None:
        """Add a row of what take_turns() gave, "ours" in terms of "c" round by round; without "c" there is no figure.

        The figure is a ratio, or the difference; the samples become rates where the row `is_rate`.
        """
        if more.get("is_rate"):
            samples = {name: rates(each) for name, each in samples.items()}
        others = spreads(samples)
        ours, theirs = others.pop("ours"), others.pop("c", None)
        kind, compared = (OVER_C, differences) if over_c else (RATIO, ratios)
        figure = compared(samples["ours"], samples["c"]) if theirs else None
        self.add(what, kind, figure, ours, theirs, others=others, **more)

    def race(self, what: str, contenders: Contenders, *, turn: float = 1e-3, **more: Any) -> None:
        """Add a row of contenders that take turns of so many seconds."""
        self.compare(what, self.turns(what, contenders, turn), **more)

    def calls(self, what: str, contenders: Contenders, *, over_c: bool = False, **more: Any) -> Row:
        """Add a row of calls in loops of Python: ours less an empty loop, alone or less C's."""
        samples = self.turns(what, {"loop": empty, **contenders})
        loop, ours = samples.pop("loop"), samples.pop("ours")
        took = differences(ours, loop)
        kind, figure = (OVER_C, differences(ours, loop, samples["c"])) if over_c else (TIME, took)
        others = spreads(samples)
        return self.add(what, kind, figure, took, others.pop("c", None), others=others, **more)

    def apart(self, what: str, ours: Samples, theirs: Samples, name: str = "") -> None:
        """Add the larger of the two rates over the smaller: all operations over all the time that they took.

        Two processes that chase each other round a ring have two rates, some 1.5 apart, according
        to how far apart they happen to run; a median says which of the two came more often, and
        jumps.
        """
        quotient = fmean(theirs) / fmean(ours)
        figure, others = max(quotient, 1 / quotient), {name: Spread.of(rates(theirs))} if name else {}
        more: dict[str, Any] = {"is_rate": True, "against": "apart", "others": others}
        self.ratio(what, figure, Spread.of(rates(ours)), most=1.1, **more)
