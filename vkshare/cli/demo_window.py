"""`vkshare demo window`: the scene of the shared demo in a window."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vkshare.cli.demo_stage import add_stage_arguments, present

if TYPE_CHECKING:
    from vkshare.demos.stage import Stage, StageOptions

HELP = "the scene of the shared demo in a window, with its frame times"
DESCRIPTION = (
    "Shows the turning cube of `vkshare demo shared` in a window, with Vulkan or without. The picture follows the "
    "window's size; a graph tells how long the last frames took. Esc or the close button ends it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stage_arguments(parser, (1280, 720), "Esc ends it; headless 300")


def run(args: argparse.Namespace) -> int:
    return present(args, _show, needs_pillow=True)


def _show(stage: Stage, options: StageOptions) -> int:
    from vkshare.demos.window import Show

    with Show(stage, options.frames) as show:
        stage.play(show.draw, options.frames)
    return 0
