"""Measures the cost of a call over the same call from C, both on the no-op driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import loops
from benchmarks.compiler import NoCompiler
from benchmarks.measure import Contender, Spread, Timed, differences, take_turns
from benchmarks.nothing import NothingDriver
from benchmarks.placement import alone, placed
from benchmarks.plan import Plan
from benchmarks.report import OVER_C, Must, Row

if TYPE_CHECKING:
    from vkshare import Device


@dataclass(frozen=True, slots=True)
class Call:
    """Ours and C's; `must` is in seconds over C."""

    what: str
    ours: Timed
    c: Timed
    must: Must
    lags: bool = False  # the driver has work under way


def run(
    what: str,
    calls: Callable[[NothingDriver, Device], list[Call]],
    rows: Callable[[NothingDriver, list[Call], str, Plan], list[Row]],
    plan: Plan,
) -> list[Row]:
    """The rows of the calls at each place for one process. Without a C compiler none, and a note about `what`."""
    try:
        driver = NothingDriver()
    except NoCompiler as error:
        plan.note(f"{what} measured on a driver in C: {error}")
        return []
    found = []
    with driver.open() as device:
        made = calls(driver, device)
        for place in alone(plan.pinned_only):
            with placed(place):
                found += rows(driver, made, place.name, plan)
    return found


def row(call: Call, place: str, plan: Plan, others: Sequence[Contender] = ()) -> Row:
    """Ours less an empty loop in Python, against C."""
    contenders = [Contender("loop", loops.empty), Contender("ours", call.ours), Contender("c", call.c), *others]
    samples = take_turns(contenders, plan.seconds)
    return Row(
        what=call.what,
        place=place,
        ours=differences(samples["ours"], samples["loop"]),
        theirs=Spread.of(samples["c"]),
        kind=OVER_C,
        figure=differences(samples["ours"], samples["loop"], samples["c"]),
        must=call.must,
        others={other.name: Spread.of(samples[other.name]) for other in others},
    )
