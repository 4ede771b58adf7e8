"""`vkshare demo triangle`: the smallest useful program."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vkshare.cli.demo_stage import add_stage_arguments, present

if TYPE_CHECKING:
    from vkshare.demos.stage import Stage, StageOptions

HELP = "a window with a turning triangle: the smallest useful program"
DESCRIPTION = (
    "A window with a turning triangle. Its source, vkshare/demos/triangle.py, is the smallest useful program. Esc or "
    "the close button ends it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stage_arguments(parser, (640, 480), "Esc ends it; headless 300")


def run(args: argparse.Namespace) -> int:
    return present(args, _show, needs_pillow=False)


def _show(stage: Stage, options: StageOptions) -> int:
    from vkshare.demos import triangle

    stage.play(lambda frame, number, seconds: triangle.draw(stage.device, frame, seconds), options.frames)
    return 0
