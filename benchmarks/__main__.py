"""``python -m benchmarks QUESTION``, from the root of a checkout: ``make bench ARGS=QUESTION``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import QUESTIONS
from vkshare.cli import output
from vkshare.errors import VkshareError


class Failed(Exception):
    """One line for standard error."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks. The exit status is 0, 1 on a failure, 2 for wrong arguments, 130 after Ctrl-C."""
    output.fill_closed_streams()
    try:
        with output.checked():
            run(_parser().parse_args(argv))
        return 0
    except (output.OutputError, VkshareError, Failed) as error:
        if isinstance(error, output.OutputError):
            output.discard()
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="The cost of vkshare, beside plain C that does the same work, and beside what people use today.",
    )
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
        "--minutes",
        type=_positive,
        default=0.5,
        metavar="M",
        help="how long a question looks at memory (default: 0.5)",
    )
    parser.add_argument(
        "--plot", type=_picture, metavar="FILE", help="draw it too: FILE.png, or FILE.html, which stands alone"
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Succeeds also where a target is not met: the table says so. Shows what it is at on a terminal's stderr."""
    from benchmarks import report
    from benchmarks.plan import Plan
    from benchmarks.plot_style import NEEDS_MATPLOTLIB

    if args.plot is not None and importlib.util.find_spec("matplotlib") is None:  # not after minutes of measuring
        raise Failed(f"--plot {args.plot}: {NEEDS_MATPLOTLIB}")
    plan = Plan(seconds=args.seconds, pinned_only=args.pin, quick=args.quick, minutes=args.minutes, progress=_progress)
    before = report.machine()
    for question in QUESTIONS if args.question == "all" else (args.question,):
        importlib.import_module(f"benchmarks.{question.replace('-', '_')}").run(plan)
    _progress("")
    machine = {**before, "load_before": before["load"], "load": report.machine()["load"]}
    headline, table = report.headline(machine), report.text(plan.rows, plan.notes)
    if args.plot is not None:
        from benchmarks import plot

        try:
            plot.write(plan.rows, args.plot, headline, table)
        except OSError as error:
            raise Failed(str(error)) from error
    rows = [report.as_dict(row) for row in plan.rows]
    as_json = {"machine": machine, "rows": rows, "notes": plan.notes}
    print(json.dumps(as_json, indent=2) if args.json else f"{headline}\n\n{table}")


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


if __name__ == "__main__":
    sys.exit(main())
