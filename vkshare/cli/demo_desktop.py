"""`vkshare demo desktop`: eight clients of different kinds in one window."""

from __future__ import annotations

import argparse
import importlib.util
import signal
from typing import TYPE_CHECKING

from vkshare.cli import table
from vkshare.cli.demo_arguments import NEEDS_PILLOW, add_common_arguments, failed, frames_of, options_of, tell

if TYPE_CHECKING:
    from vkshare.demos.desktop.report import Report

HELP = "eight processes of different kinds in one window, and a compositor that waits for none of them"
DESCRIPTION = (
    "Eight processes show a window each in one compositor, which has a process of its own: renderers on Vulkan and on "
    "the CPU, text, PyTorch or NumPy, a surface that changes hands by its keys, one that moves and fades, one that is "
    "slow, and one that is killed every few seconds and started again. Statistics are shown live, and printed at "
    "the end. Exit status 0 only if every client was shown, in order, and the slow one delayed no other client. Esc or "
    "the close button ends it."
)
_HEAD = ("CLIENT", "SHOWN", "LOST", "SUPERSEDED", "WINDOWS", "STATE", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--headless", action="store_true", help="no window: frames go to --output only")
    parser.add_argument(
        "--frames",
        type=int,
        metavar="N",
        help="end after so many composites, from when every client was shown (default: Esc ends it; headless 300)",
    )
    add_common_arguments(parser, (1280, 720))
    parser.add_argument("--one-process", action="store_true", help="the compositor in the demo's own process")
    parser.add_argument(
        "--crash-after",
        type=float,
        default=3.0,
        metavar="S",
        help="seconds after which the client that crashes does (default: 3)",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Return exit status 0, or 1 if something was not as it must be.

    2: wrong arguments, or no display. 130 and 143: signals.
    """
    if importlib.util.find_spec("PIL") is None:
        return failed(NEEDS_PILLOW, 1)
    from vkshare.compositor.window_host import NoDisplay, Signals
    from vkshare.demos.desktop import run as desktop
    from vkshare.demos.desktop.options import Options
    from vkshare.demos.shared import DemoError

    options = Options(
        **options_of(args),
        frames=frames_of(args),
        headless=args.headless,
        is_one_process=args.one_process,
        crash_after=args.crash_after,
    )
    try:
        with Signals() as signals:
            report = desktop.run(options, signals)
    except NoDisplay as error:
        return failed(str(error), 2)
    except DemoError as error:
        return failed(str(error), 1)
    if report is None:
        return failed("interrupted" if signals.came == signal.SIGINT else "terminated", 128 + signals.came)
    return tell(report, args.json, _text)


def _text(report: Report) -> str:
    steady = report.steady
    good = "every client was shown, in order, and waited for no other client"
    facts = {
        "adapter": report.adapter,
        "display": f"{report.display['rate']:g} Hz, {report.display['kind']}",
        "composites": f"{steady['composites']} in the {steady['seconds']:.1f} s after every client was shown; of "
        f"{steady['ticks'] + steady['missed']} ticks {steady['missed']} missed, {steady['skipped']} skipped",
        "restarts": f"{report.restarts}, of the client that crashes",
        "checked": good if report.is_good else "NOT as it must be",
    }
    if report.output is not None:
        facts["picture"] = report.output
    lines = [f"{name:<11} {value}" for name, value in facts.items()]
    columns = ("name", "shown", "lost", "superseded", "windows", "state", "detail")
    rows = [tuple(client[column] for column in columns) for client in report.clients]
    faults = ["", *report.faults] if report.faults else []
    return "\n".join([*lines, "", table.render(_HEAD, rows, right=_HEAD[1:5]), *faults])
