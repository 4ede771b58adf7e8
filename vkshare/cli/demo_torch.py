"""`vkshare demo torch`: PyTorch and a Vulkan renderer take turns on one surface."""

from __future__ import annotations

import argparse
import importlib.util
from functools import partial
from typing import TYPE_CHECKING, Any

from vkshare.cli.demo_arguments import NEEDS_PILLOW, failed
from vkshare.cli.demo_stage import add_stage_arguments, present

if TYPE_CHECKING:
    from vkshare.demos.stage import Stage, StageOptions
    from vkshare.demos.turns import Report

HELP = "a PyTorch kernel and a Vulkan renderer take turns on one surface"
DESCRIPTION = (
    "A PyTorch kernel and a Vulkan renderer take turns on one surface, every frame, ordered on the GPU alone; on a "
    "machine without CUDA PyTorch runs on the CPU, over the surface's linear view, and the demo says so. PyTorch works "
    "in the surface's own memory. It checks that each picture is the one that was drawn for it; exit status 1 if not. "
    "Esc or the close button ends it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stage_arguments(parser, (960, 540), "Esc ends it; headless 300")


def run(args: argparse.Namespace) -> int:
    """Exit status 0, 1 if a picture was not as it must be or cannot be, 2 for wrong arguments, 130 after Ctrl-C."""
    if importlib.util.find_spec("PIL") is None:
        return failed(NEEDS_PILLOW, 1)
    from vkshare.demos import echo, turns

    torch = echo.load()
    if args.adapter is None:
        args.adapter = turns.named_by_torch(torch, args.backend)
    return present(args, partial(_show, torch), needs_pillow=True)


def _show(torch: Any, stage: Stage, options: StageOptions) -> int:
    from vkshare.demos import turns

    with turns.Turns(torch, stage, options.width, options.height) as show:
        stage.play(show.draw, options.frames)
        report = show.report()
    print(_told(report))
    if not report.is_good:
        return failed(f"{_wrong(report)}: the turns are NOT in order", 1)
    return 0


def _told(report: Report) -> str:
    where = f"PyTorch {report.torch} on {report.device}, in memory of {report.adapter}"
    first = f"{where}, as {report.why}" if report.why else where
    waits = "which did not wait" if report.ordered_by == "GPU" else "which waited for each drawing"
    cost = f"the turns took {_time(report.handing_over)} a frame of the CPU, {waits}"
    return f"{first}\n{report.frames} frames, ordered by the {report.ordered_by}: {cost}"


def _wrong(report: Report) -> str:
    late = f"PyTorch saw another picture than the one drawn for it in {report.late} of {report.frames} frames"
    return late if report.late else "the last picture is not the one that PyTorch made of the last frame"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
