"""Rows of a result, as a table and as JSON."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import compiler
from benchmarks.measure import Spread
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


@dataclass(slots=True)
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
    with contextlib.suppress(OSError):
        if found := re.search(
            r"^model name\s*: *(.+)", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE
        ):
            return found[1]
    return platform.machine()


def _cells(row: Row) -> tuple[str, ...]:
    value = value_text(row)
    theirs = "-" if row.theirs is None else value(row.theirs.median)
    others = ", ".join(f"{name} {value(spread.median)}" for name, spread in row.others.items())
    figure = ("-", "", "") if row.figure is None else [figure_text(row, each) for each in astuple(row.figure)]
    return (row.what, row.place, value(row.ours.median), theirs, *figure, _must(row), row.verdict or "-", others)


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


_UNITS: dict[str, Callable[[float], str]] = {"bytes": lambda value: f"{value / 1e6:,.1f} MB", "things": count}
