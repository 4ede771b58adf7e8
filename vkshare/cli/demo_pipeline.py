"""`vkshare demo pipeline`: three devices, three queues."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from vkshare.cli import table
from vkshare.cli.demo_arguments import tell
from vkshare.cli.demo_stage import add_stage_arguments, present

if TYPE_CHECKING:
    from vkshare.demos.pipeline import Report
    from vkshare.demos.stage import Stage, StageOptions

HELP = "three devices pass surfaces round three queues, with metadata"
DESCRIPTION = (
    "A painter, a letterer and a viewer, each a device with a thread of its own, pass surfaces round three queues; the "
    "metadata beside a surface tells which frame it is, and when it was painted and lettered. Esc or the close button "
    "ends it. Exit status 0 only if every frame came in order, and those that were looked at were as they must be."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stage_arguments(parser, (1280, 720), "Esc ends it; headless 300")
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(args: argparse.Namespace) -> int:
    return present(args, partial(_show, args.json), needs_pillow=True)


def _show(as_json: bool, stage: Stage, options: StageOptions) -> int:
    from vkshare.demos import pipeline

    report = pipeline.run(stage, options)
    return tell(report, as_json, _text)


def _text(report: Report) -> str:
    rate = report.frames / max(report.seconds, 1e-9)
    facts = {
        "adapter": report.adapter,
        "queues": f"3, over {report.surfaces} surfaces of {report.width}x{report.height}",
        "frames": f"{report.frames} in {report.seconds:.2f} s, {rate:.1f} a second",
        "latency": f"painter to viewer {report.latency * 1e3:.1f} ms, at most {report.most_latency * 1e3:.1f} ms",
        "checked": "; ".join(report.wrong[:5]) or f"all frames in order, {report.checked} of them as they must be",
    }
    lines = [f"{name:<9} {value}" for name, value in facts.items()]
    rows = [
        (s.stage, s.frames, s.waits, table.seconds(s.waited), table.nbytes(s.metadata), table.nbytes(s.copied))
        for s in report.stages
    ]
    head = ("STAGE", "FRAMES", "WAITS", "WAITED", "METADATA", "COPIED")
    return "\n".join([*lines, "", table.render(head, rows, right=head[1:])])
