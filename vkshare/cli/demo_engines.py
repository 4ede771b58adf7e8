"""The arguments and the report of `vkshare demo engines`."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from vkshare.cli import table
from vkshare.cli.demo_arguments import add_common_arguments, options_of, seconds
from vkshare.cli.demo_reports import fact_lines, fault_lines, run_to_report

_HEAD = ("ENGINE", "TURNS", "COPIES A TURN", "OVER ITS SUBMIT", "TILES", "COPIES A TILE", "KILLED")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    number = partial(seconds, most=86400, allowed="up to 86400")
    parser.add_argument("--seconds", type=number, default=30.0, metavar="N", help="how long (default: 30)")
    parser.add_argument(
        "--kill-after", type=number, default=5.0, metavar="N", help="seconds between two kills (default: 5)"
    )
    parser.add_argument("--headless", action="store_true", help="no window: frames go to --output only")
    add_common_arguments(parser, (960, 720))
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(args: argparse.Namespace) -> int:
    from vkshare.demos.engines import run as engines
    from vkshare.demos.options import EnginesOptions

    more = {"headless": args.headless, "seconds": args.seconds, "kill_after": args.kill_after}
    options = EnginesOptions(**options_of(args), **more)
    return run_to_report(lambda signals: engines.run(options, signals), args.json, _text)


def _text(report: dict[str, Any]) -> str:
    good = "every engine that runs here is on the wall and in the picture"
    facts = {
        "adapter": report["adapter"],
        "rounds": f"{report['rounds']} in {report['seconds']:.1f} s; recovered {report['recoveries']} times, "
        "after an engine was killed inside its turn",
        "checked": good if report["ok"] else "NOT as it must be",
    }
    rows = [_row(engine) for engine in report["engines"] if engine["turns"]]
    absent = [f"{engine['name']} does not run here: {engine['why']}" for engine in report["engines"] if engine["why"]]
    return "\n".join(
        [
            *fact_lines(report, facts, 9),
            "",
            table.render(_HEAD, rows, right=_HEAD[1:]),
            *(["", *absent] if absent else []),
            *fault_lines(report),
        ]
    )


def _row(engine: dict[str, Any]) -> tuple[Any, ...]:
    tile, turn = engine["tile_copies"] / max(engine["shown"], 1), engine["turn_copies"] / engine["turns"]
    return (
        engine["name"],
        engine["turns"],
        f"{turn:g}",
        _extra(engine["extra"]),
        engine["shown"],
        f"{tile:g}",
        engine["kills"],
    )


def _extra(found: list[float] | None) -> str:
    """A difference between pictures, or how small it is where it is lost in their noise."""
    if found is None:
        return "-"
    over, off = (each * 1e6 for each in found)
    return f"within {off:.0f} us" if off > max(abs(over), 20) else f"{over:.0f} ± {off:.0f} us"
