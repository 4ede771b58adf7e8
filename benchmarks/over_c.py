"""Measures the cost of a call over the same call from C, both on the no-op driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks import loops
from benchmarks.compiler import NoCompiler
from benchmarks.measure import Contenders, Spread, Timed, differences, take_turns
from benchmarks.nothing import NothingDriver
from benchmarks.placement import alone
from benchmarks.plan import Plan
from benchmarks.report import OVER_C, Must, Row, spreads

if TYPE_CHECKING:
    from vkshare import Device


@dataclass(frozen=True, slots=True)
class Call:
    """Ours and C's; `must` is in seconds over C."""

    what: str
    ours: Timed
    c: Timed
    must: Must
    others: Contenders = field(default_factory=dict)
    around: Callable[[], AbstractContextManager[None]] = nullcontext  # what the driver does meanwhile


def run(
    what: str,
    calls: Callable[[NothingDriver, Device, ExitStack], list[Call]],
    plan: Plan,
    *more: Callable[[Call, str, Plan], Row],
) -> list[Row]:
    """The rows of the calls at each place for one process. Without a C compiler none, and a note about `what`.

    `calls` is given a stack for what it opens on the device; `more` makes further rows of them.
    """
    try:
        driver = NothingDriver()
    except NoCompiler as error:
        plan.note(f"{what} measured on a driver in C: {error}")
        return []
    rows = []
    with driver.open() as device, ExitStack() as stack:
        made = calls(driver, device, stack)
        for place in alone(plan):
            for row in (_row, *more):
                for call in made:
                    plan.progress(f"{call.what}, {place.name}")
                    with call.around():
                        rows.append(row(call, place.name, plan))
    return rows


def _row(call: Call, place: str, plan: Plan) -> Row:
    """Ours less an empty loop in Python, against C."""
    samples = take_turns({"loop": loops.empty, "ours": call.ours, "c": call.c, **call.others}, plan.seconds)
    loop, ours, c = (samples.pop(name) for name in ("loop", "ours", "c"))
    figure = differences(ours, loop, c)
    return Row(
        call.what, place, differences(ours, loop), Spread.of(c), OVER_C, figure, call.must, others=spreads(samples)
    )
