"""`vkshare demo text`: text by a 2D library in a surface's own memory."""

from __future__ import annotations

import argparse
import importlib.util
from typing import TYPE_CHECKING

from vkshare.cli import table
from vkshare.cli.demo_arguments import NEEDS_PILLOW, add_common_arguments, failed, shared_options_of, tell

if TYPE_CHECKING:
    from vkshare.demos.text import Report

HELP = "text and shapes by a 2D library in a surface's own memory, over a renderer's picture"
DESCRIPTION = (
    "A 2D library (Pillow, cairo or Skia) writes into the memory of a surface itself, without a copy; a renderer puts "
    "that over its picture, on the same device or on another. Exit status 0 only if the renderer's handle reads what "
    "was written, bit for bit."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--library", choices=("pillow", "cairo", "skia"), default="pillow", help="default: pillow")
    parser.add_argument(
        "--writer", choices=("other", "same"), default="other", help="whose device it writes on (default: another)"
    )
    parser.add_argument("--image", metavar="FILE", help="the picture on the cube (default: one that ships)")
    parser.add_argument("--frames", type=int, default=120, metavar="N", help="how many (default: 120)")
    add_common_arguments(parser, (1280, 720))
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Exit status 0, 1 if the text was not as written or cannot be, 2 for wrong arguments, 130 after Ctrl-C."""
    if importlib.util.find_spec("PIL") is None:
        return failed(NEEDS_PILLOW, 1)
    from vkshare.demos import pictures, text

    options = shared_options_of(args)
    try:
        report, picture = text.run(options, args.library, args.writer == "other")
    except ValueError as error:
        return failed(str(error), 1)
    if options.output is not None:
        pictures.save(picture, options.output)
    return tell(report, args.json, _text)


def _text(report: Report) -> str:
    facts = {
        "adapter": report.adapter,
        "why": report.why,
        "written by": f"{report.library}, {report.format}, in {report.writing * 1e3:.2f} ms a frame",
        "devices": "another writes than renders" if report.two_devices else "one writes and renders",
        "frames": f"{report.frames} in {report.seconds:.2f} s, {report.frames_per_second:.1f} a second",
        "copied": f"{table.nbytes(round(report.copied_per_frame))} a frame",
        "checked": _verdict(report),
    }
    if report.output is not None:
        facts["picture"] = report.output
    return "\n".join(f"{name:<11} {value}" for name, value in facts.items())


def _verdict(report: Report) -> str:
    if not report.written:
        return "the library drew NOTHING"
    return "the renderer saw what was written" if report.seen_alike else "the renderer saw SOMETHING ELSE"
