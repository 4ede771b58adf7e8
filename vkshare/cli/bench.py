"""`vkshare bench`: what vkshare costs, against plain C and against what people use today."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vkshare.bench import QUESTIONS

if TYPE_CHECKING:
    from vkshare.bench.report import Row

HELP = "what it costs, against plain C doing the same work and against what people use today"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", choices=(*QUESTIONS, "all"), help="what to measure")
    parser.add_argument("--json", action="store_true", help="as JSON: times in seconds, rates in operations a second")
    parser.add_argument(
        "--seconds", type=_positive, default=2.0, metavar="S", help="how long each table row takes (default: 2)"
    )
    parser.add_argument("--pin", action="store_true", help="pinned placements only: steadier, and done sooner")
    parser.add_argument(
        "--quick", action="store_true", help="a fiftieth of what is repeated a fixed number of times: 200 resizes"
    )
    parser.add_argument(
        "--plot", type=_picture, metavar="FILE", help="draw it too: FILE.png, or FILE.html, which stands alone"
    )


def run(args: argparse.Namespace) -> int:
    """Exit status 0 also where a target is not met: the table says so. Shows what it is at on a terminal's stderr."""
    from vkshare.bench import report
    from vkshare.bench.plan import Plan
    from vkshare.bench.plot_style import NEEDS_MATPLOTLIB

    if args.plot is not None and importlib.util.find_spec("matplotlib") is None:  # not after minutes of measuring
        print(f"vkshare bench: --plot {args.plot}: {NEEDS_MATPLOTLIB}", file=sys.stderr)
        return 1
    plan = Plan(seconds=args.seconds, pinned_only=args.pin, quick=args.quick, progress=_progress)
    chosen = QUESTIONS if args.question == "all" else (args.question,)
    before = report.machine()
    rows = []
    for question in chosen:
        rows += importlib.import_module(f"vkshare.bench.{question.replace('-', '_')}").run(plan)
    _progress("")
    machine = {**before, "load_before": before["load"], "load": report.machine()["load"]}
    if args.plot is not None and not _plot(args.plot, rows, report.headline(machine), report.text(rows, plan.notes)):
        return 1
    if args.json:
        print(
            json.dumps({"machine": machine, "rows": [report.as_dict(r) for r in rows], "notes": plan.notes}, indent=2)
        )
    else:
        print(report.headline(machine), "", report.text(rows, plan.notes), sep="\n")
    return 0


def _plot(file: Path, rows: list[Row], headline: str, table: str) -> bool:
    from vkshare.bench import plot

    try:
        plot.write(rows, file, headline, table)
    except OSError as error:
        print(f"vkshare bench: {error}", file=sys.stderr)
        return False
    return True


def _picture(text: str) -> Path:
    file = Path(text)
    if file.suffix not in (".png", ".html"):
        raise argparse.ArgumentTypeError(f"{text} ends neither in .png nor in .html")
    if not file.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{file.parent} is not a directory")
    return file


def _positive(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value


def _progress(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)
