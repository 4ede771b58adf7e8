"""`vkshare demo resize-storm`: resizes as fast as it can, and tells what is left of the old swapchains."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from vkshare.cli import table
from vkshare.cli.demo_arguments import failed, seconds
from vkshare.cli.demo_stage import add_stage_arguments, present

if TYPE_CHECKING:
    from vkshare.demos.stage import Stage, StageOptions
    from vkshare.demos.storm import Report, Sample

HELP = "resizes as fast as it can, and tells what becomes of swapchains and memory"
DESCRIPTION = (
    "Resizes as fast as it can and presents a frame after each resize, sometimes none and sometimes several. Tells "
    "once a second, and at the end, how many swapchains are alive. Exit status 1 when there ever were more of them "
    "than the bound on retired ones and the current one; or when memory grew: the resident set's median over the last "
    "tenth of the time is more than 2 % and 4 MiB above that over the second tenth (so with warm caches, and not "
    "before 300 resizes), each looked at whenever the same size has come round."
)
_POLICIES = {"acquires": False, "fences": True, "auto": None}  # name -> present_fences
_COLUMNS = (("TIME", 7), ("RESIZES", 8), ("FRAMES", 8), ("ALIVE", 6), ("RETIRED", 8), ("MOST", 8))
_MORE = (("SEMAPHORES", 11), ("POOLED", 7), ("WAITS", 6), ("MEMORY", 10))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=partial(seconds, most=86400, allowed="up to 86400"),
        default=10.0,
        metavar="N",
        help="how long (default: 10)",
    )
    parser.add_argument(
        "--policy",
        choices=tuple(_POLICIES),
        default="auto",
        help="what proves that an old swapchain is over: later acquires, the fences of VK_EXT_swapchain_maintenance1, "
        "or the latter where there are any (default)",
    )
    add_stage_arguments(parser, (400, 300), "as many as --seconds allows")


def run(args: argparse.Namespace) -> int:
    return present(
        args,
        partial(_show, args.seconds),
        needs_pillow=False,
        has_end=True,
        present_fences=_POLICIES[args.policy],
    )


def _show(seconds: float, stage: Stage, options: StageOptions) -> int:
    from vkshare.demos import storm

    by = "present fences" if stage.swapchain.statistics().by_fences else "later acquires"
    print(f"{stage.device.adapter.name}, {stage.swapchain.present_mode}, old swapchains are over by {by}")
    print("".join(name.rjust(width) for name, width in (*_COLUMNS, *_MORE)), flush=True)
    report = storm.run(stage, seconds, options.frames, lambda sample: print(_row(sample), flush=True))
    print(_row(report.last))
    print(_memory(report))
    faults = report.faults()
    for fault in faults:
        failed(fault, 1)
    return 1 if faults else 0


def _row(sample: Sample) -> str:
    now = sample.swapchain
    cells = [
        f"{sample.seconds:.1f} s",
        *map(str, (sample.resizes, now.frames, now.swapchains, now.retired)),
        f"{now.most_alive} of {now.retired_limit + 1}",
        *map(str, (now.semaphores, now.pooled_semaphores, now.resize_waits)),
        table.nbytes(sample.resident),
    ]
    return "".join(cell.rjust(width) for cell, (_, width) in zip(cells, (*_COLUMNS, *_MORE), strict=True))


def _memory(report: Report) -> str:
    from vkshare.demos import storm

    early, late = report.early, report.late
    first = next((s for s in report.samples if s.resizes >= 100), None)
    at = f"{table.nbytes(first.resident)} after {first.resizes} resizes, " if first else ""
    reported = f"memory: {at}{table.nbytes(early)} early, {table.nbytes(late)} at the end, ratio {late / early:.3f}"
    if report.last.resizes < storm.WARM_UP:
        reported += f" (fewer than {storm.WARM_UP} resizes tell nothing)"
    return f"{reported}; {report.last.resizes / max(report.last.seconds, 1e-9):.0f} resizes a second"
