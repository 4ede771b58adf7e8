"""Rows of a result, as a table and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from benchmarks import compiler
from benchmarks.measure import Samples, Spread, differences, rates, ratios
from vkshare import __version__
from vkshare.cli import table

# How a row's figure is made of ours and theirs, and how it is written.
OVER_C = "over C"  # seconds more than C
RATIO = "ratio"  # times C (or what `against` says)
TIME = "time"  # seconds of ours alone
RATE = "a second"  # of ours alone
COUNT = "count"  # of ours alone


@dataclass(frozen=True, slots=True)
class Must:
    """A target: the figure may be at most, or at least, `value`."""

    value: float
    at_least: bool = False

    def is_met(self, figure: Spread) -> bool:
        """By the median."""
        return figure.median >= self.value if self.at_least else figure.median <= self.value


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was measured in one placement. Times are seconds; rates are operations a second.

    With a `unit`, "bytes" or "things", `ours`, `theirs` and `others` are numbers of these.
    """

    what: str
    place: str
    ours: Spread
    theirs: Spread | None
    kind: str
    figure: Spread | None  # None: there is nothing to compare with
    must: Must | None = None
    is_rate: bool = False  # `ours`, `theirs` and `others` are rates
    against: str = "C"
    others: dict[str, Spread] = field(default_factory=dict)
    note: str = ""
    unit: str = ""

    @property
    def verdict(self) -> str:
        """ "met", "not met", or "" without a target."""
        if self.must is None or self.figure is None:
            return ""
        return "met" if self.must.is_met(self.figure) else "not met"


def row(
    what: str, place: str, samples: Mapping[str, Samples], must: Must | None = None, kind: str = RATIO, **more: Any
) -> Row:
    """What take_turns() gave, "ours" in terms of "c" round by round; without "c" there is no figure.

    `kind` is RATIO or OVER_C; `more` has the row's other fields.
    """
    others = spreads(samples)
    ours, theirs = others.pop("ours"), others.pop("c", None)
    compare = ratios if kind == RATIO else differences
    figure = compare(samples["ours"], samples["c"]) if theirs else None
    return Row(what, place, ours, theirs, kind, figure, must, **{"others": others, **more})


def apart(what: str, place: str, ours: Samples, theirs: Samples, name: str = "") -> Row:
    """The larger of the two rates over the smaller: all operations over all the time that they took.

    Two processes that chase each other round a ring have two rates, some 1.5 apart, according to how far apart they
    happen to run; a median says which of the two came more often, and jumps.
    """
    quotient = fmean(theirs) / fmean(ours)
    figure = Spread.of([max(quotient, 1 / quotient)])
    others = {name: Spread.of(rates(theirs))} if name else {}
    more: dict[str, Any] = {"is_rate": True, "against": "apart", "others": others}
    return Row(what, place, Spread.of(rates(ours)), None, RATIO, figure, Must(1.1), **more)


def spreads(samples: Mapping[str, Samples]) -> dict[str, Spread]:
    """Summarise each contender's."""
    return {name: Spread.of(each) for name, each in samples.items()}


def own_row(
    what: str, ours: Spread | float, kind: str, must: Must | None = None, place: str = "unpinned", **more: Any
) -> Row:
    """Ours alone: the figure is the measured value itself. `more`: the row's other fields."""
    more.setdefault("unit", "things" if kind == COUNT else "")
    ours = ours if isinstance(ours, Spread) else Spread.of([float(ours)])
    return Row(what, place, ours, None, kind, ours, must, **more)


def text(rows: Iterable[Row], notes: Iterable[str] = ()) -> str:
    """The table, and the notes below it."""
    rows = list(rows)
    head = ("WHAT", "WHERE", "OURS", "C", "FIGURE", "MIN", "MAX", "MUST", "VERDICT", "OTHERS")
    lines = [table.render(head, [_cells(row) for row in rows], right=head[2:7])] if rows else []
    reported = [f"{row.what}: {row.note}" for row in rows if row.note]
    return "\n".join([*lines, *dict.fromkeys([*reported, *notes])])


def as_dict(row: Row) -> dict[str, Any]:
    """For --json: seconds, or operations a second where is_rate."""
    return {**asdict(row), "verdict": row.verdict}


def machine() -> dict[str, Any]:
    """Return the properties of the machine on which the figures depend."""
    return {
        "vkshare": __version__,
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "compiler": compiler.version(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def headline(machine: dict[str, Any]) -> str:
    """The machine in a line."""
    before, after = machine["load_before"][0], machine["load"][0]
    return (
        f"vkshare {machine['vkshare']}, {machine['cores']} cores of {machine['processor']}, {machine['system']}, "
        f"Python {machine['python']}, {machine['compiler']}; load average {before} before, {after} after"
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _cells(row: Row) -> tuple[str, ...]:
    value = value_text(row)
    theirs = "-" if row.theirs is None else value(row.theirs.median)
    others = ", ".join(f"{name} {value(spread.median)}" for name, spread in row.others.items())
    figure = ("-", "", "") if row.figure is None else [figure_text(row, v) for v in _ends(row.figure)]
    return (row.what, row.place, value(row.ours.median), theirs, *figure, _must(row), row.verdict or "-", others)


def _ends(spread: Spread) -> tuple[float, float, float]:
    return spread.median, spread.least, spread.most


def value_text(row: Row) -> Callable[[float], str]:
    """How its values, ours and theirs, are written."""
    return _UNITS.get(row.unit) or (rate if row.is_rate else duration)


def figure_text(row: Row, value: float) -> str:
    """How its figure is written, or what that must be."""
    if row.kind == OVER_C:
        return f"{duration(value)} over"
    if row.kind == RATIO:
        return f"{value:.2f} x {row.against}"
    if row.kind == COUNT:
        return count(value)
    return rate(value) if row.kind == RATE else duration(value)


def _must(row: Row) -> str:
    if row.must is None:
        return "-"
    return (">= " if row.must.at_least else "<= ") + figure_text(row, row.must.value)


def duration(value: float) -> str:
    """1.5e-7 -> "150 ns"."""
    for unit, size in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if abs(value) < 999.5 * size:
            digits = 2 if abs(value) < 9.995 * size and unit != "ns" else 1 if abs(value) < 99.95 * size else 0
            return f"{value / size:.{digits}f} {unit}"
    return f"{value:.2f} s"


def rate(value: float) -> str:
    """1300000 -> "1,300,000/s"."""
    return f"{value:,.0f}/s" if value >= 100 else f"{value:.1f}/s"


def count(value: float) -> str:
    """10000 -> "10,000"."""
    return f"{value:,.0f}"


def size(value: float) -> str:
    """1e8 -> "100.0 MB"."""
    return f"{value / 1e6:,.1f} MB"


_UNITS = {"bytes": size, "things": count}
