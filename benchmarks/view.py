"""What does a picture in a browser cost the server and its producer, and how old is it when it is seen?"""

from __future__ import annotations

from benchmarks import view_load
from benchmarks.measure import Spread
from benchmarks.plan import Plan
from benchmarks.processes import ChildFailed
from benchmarks.report import RATE, RATIO, TIME
from benchmarks.view_load import Browser, Glass, Missing, Scene, Turn

_SIZES = {"1080p60": (1920, 1080), "720p60": (1280, 720)}  # the first has the targets
_TABS, _STOPPED = 5, 1
_SHORTEST = 0.5  # seconds of a round
_GLASS_ROUNDS, _RATE_ROUNDS = 7, 4


def run(plan: Plan) -> None:
    """A tab at 60 Hz in two sizes; then the producer beside five tabs, and beside none."""
    with plan.noting("the tabs", Missing, ChildFailed, TimeoutError), view_load.browser() as browser:
        for name, (width, height) in _SIZES.items():
            _one_tab(plan, browser, name, width, height)
        _five_tabs(plan, browser)


# ---- one tab ---------------------------------------------------------------------------------------------------------


def _one_tab(plan: Plan, browser: Browser, name: str, width: int, height: int) -> None:
    """Each round has a producer of its own, because its ticks keep their distance to those of the browser's screen."""
    plan.progress(f"a tab of {name}")
    found = []
    for _ in range(1 if plan.quick else _GLASS_ROUNDS):
        with view_load.scene(width, height) as scene:
            found.append(browser.measure(scene, max(_SHORTEST, plan.seconds)))
    has_targets = name == next(iter(_SIZES))
    _cpu(plan, name, found, 1.0 if has_targets else None)
    for percent, most in ((50, 25e-3), (99, 50e-3)):
        glass = _percentile([each.glass_ages for each in found], percent)
        others = {"at the page": _percentile([each.page_ages for each in found], percent)}
        what = f"{name} to a browser, glass to glass, p{percent}"
        plan.add(what, TIME, glass, glass, most=most if has_targets else None, others=others)
    shown = Spread.of([each.rate for each in found])
    drawn = Spread.of([each.drawn / each.seconds for each in found])
    plan.add(f"{name} to a browser, pictures", RATE, shown, shown, is_rate=True, others={"drawn": drawn})


def _percentile(rounds: list[tuple[float, ...]], percent: int) -> Spread:
    """The percentile of all rounds together; least and most are those of single rounds."""
    single = [view_load.percentile(each, percent) for each in rounds]
    return Spread(view_load.percentile([age for each in rounds for age in each], percent), min(single), max(single))


def _cpu(plan: Plan, name: str, found: list[Glass], most: float | None) -> None:
    used = {part: Spread.of([each.cpu[part] / each.seconds for each in found]) for part in found[0].cpu}
    ours = used.pop("server")
    plan.add(f"{name} to a browser, CPU time of the server, a second", TIME, ours, ours, most=most, others=used)


# ---- five tabs, of which one is stopped ------------------------------------------------------------------------------


def _five_tabs(plan: Plan, browser: Browser) -> None:
    """A display's producer has the target. One that draws as fast as it can competes with the tabs for the cores."""
    width, height = _SIZES["1080p60"]
    for rate, what in ((view_load.RATE, "at 60 Hz"), (0, "as fast as it can")):
        plan.progress(f"a producer {what}, and five tabs")
        with view_load.scene(width, height, rate) as scene:
            rounds = [
                _round(browser, scene, max(_SHORTEST, plan.seconds)) for _ in range(1 if plan.quick else _RATE_ROUNDS)
            ]
        beside, alone = [each for each, _ in rounds], [each for _, each in rounds]
        figure = Spread.of([_rate(ours) / _rate(theirs) for ours, theirs in rounds])
        others = {
            "CPU time of its frame": Spread.of([each.cpu / each.drawn for each in beside]),
            "without tabs": Spread.of([each.cpu / each.drawn for each in alone]),
        }
        row = plan.add(
            f"rate of a 1080p producer {what}, five tabs of which one is stopped",
            RATIO,
            figure,
            Spread.of([_rate(each) for each in beside]),
            Spread.of([_rate(each) for each in alone]),
            least=0.98 if rate else None,
            is_rate=True,
            against="no tab",
        )
        row.note = ", ".join(f"{name} {each.median * 1e6:.0f} us" for name, each in others.items())


def _round(browser: Browser, scene: Scene, seconds: float) -> tuple[Turn, Turn]:
    """The producer beside the tabs, and without a tab."""
    with browser.tabs(scene.url, _TABS, stopped=_STOPPED):
        beside = scene.turn(seconds)
    return beside, scene.turn(seconds)


def _rate(turn: Turn) -> float:
    return turn.drawn / turn.seconds
