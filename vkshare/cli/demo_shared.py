"""`vkshare demo shared`: three processes draw one surface in turn."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vkshare.cli import table
from vkshare.cli.demo_arguments import NEEDS_PILLOW, add_common_arguments, failed, shared_options_of, tell

if TYPE_CHECKING:
    from vkshare.demos.report import Report

HELP = "three processes draw one surface in turn, and what that costs"
DESCRIPTION = (
    "Three processes share one surface: a renderer draws a turning cube, a text process writes over it with Pillow, a "
    "checker reads and checks every frame. Exit status 0 only if every frame was as it must be."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", metavar="FILE", help="the picture on the cube (default: one that ships)")
    parser.add_argument("--frames", type=int, default=300, metavar="N", help="how many (default: 300)")
    add_common_arguments(parser, (1280, 720))
    parser.add_argument("--force-copy", action="store_true", help="pass frames by copies, to see what they cost")
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Exit status 0, 1 if a frame was wrong or a process failed, 2 for wrong arguments, 130 and 143 after signals."""
    if importlib.util.find_spec("PIL") is None:
        return failed(NEEDS_PILLOW, 1)
    from vkshare.demos import shared

    options = shared_options_of(args)
    try:
        with _progress(options.frames) as progress:
            report = shared.run(options, progress)
    except shared.DemoError as error:
        return failed(str(error), 1)
    except shared.Terminated:
        return failed("terminated", 128 + signal.SIGTERM)
    return tell(report, args.json, _text)


@contextlib.contextmanager
def _progress(frames: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr where that is a terminal and tqdm is installed."""
    if not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=frames, unit=" frames", leave=False, file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.n)


# ---- the table ----------------------------------------------------------------------------------------------------


def _text(report: Report) -> str:
    adapter = report.adapter
    facts = {
        "adapter": f"{adapter['name']} ({adapter['driver']})",
        "why": report.why,
        "surface": f"{report.width}x{report.height} {report.format}, {report.tiling}",
        "frames": f"{report.frames} in {report.seconds:.2f} s",
        "rate": f"{report.frames_per_second:.1f} frames a second",
        "checked": _verdict(report),
        "copied": _copied(report),
    }
    if report.output is not None:
        facts["picture"] = os.fspath(report.output)
    lines = [f"{name:<9} {value}" for name, value in facts.items()]
    rows = [(f"{h.giver} -> {h.taker}", *map(_microseconds, (h.p50, h.p99, h.held))) for h in report.handovers]
    head = ("HAND-OVER", "P50", "P99", "OWNED BEFORE")
    return "\n".join([*lines, "", table.render(head, rows, right=head[1:]), *_faults(report)])


def _verdict(report: Report) -> str:
    return "every frame is as it must be" if report.is_good else f"{report.faulty} of {report.frames} frames are WRONG"


def _copied(report: Report) -> str:
    """The counters of the three processes' copy paths."""
    total = sum(report.copied_per_frame.values())
    by = ", ".join(f"{name} {table.nbytes(round(n))}" for name, n in report.copied_per_frame.items() if n)
    reported = f"{table.nbytes(round(total))} a frame" + (f" ({by})" if by else "")
    if total and not report.forced_copy:
        reported += ": the CPU cannot map this adapter's surfaces"
    return f"{reported}; {table.nbytes(report.copied_setup)} once, for the picture and the backdrop"


def _microseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f} us" if value < 1000 else f"{value / 1000:.2f} ms"


def _faults(report: Report) -> list[str]:
    return ["", *report.faults] if report.faults else []
