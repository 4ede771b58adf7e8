"""The common part of the demos with a stage of their own: window, triangle and resize-storm."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare.cli.demo_arguments import NEEDS_PILLOW, add_common_arguments, failed, frames_of, options_of

if TYPE_CHECKING:
    from vkshare.demos.stage import Stage, StageOptions


def add_stage_arguments(parser: argparse.ArgumentParser, default_size: tuple[int, int], endless: str) -> None:
    """`endless`: what ends it where no number of frames is given."""
    parser.add_argument("--headless", action="store_true", help="no window: frames go to --output only")
    parser.add_argument("--frames", type=int, metavar="N", help=f"end after so many (default: {endless})")
    add_common_arguments(parser, default_size)


def present(
    args: argparse.Namespace,
    show: Callable[[Stage, StageOptions], int],
    *,
    needs_pillow: bool,
    has_end: bool = False,
    **swapchain_options: Any,
) -> int:
    """Opens what the arguments say, calls ``show(stage, options)``, and writes the picture that was shown last.

    Parameters
    ----------
    has_end
        `show` returns by itself some time, also without a number of frames.

    Returns
    -------
    `show`'s exit status; 1 after an error, 2 for wrong arguments and where there is no display, 130 after Ctrl-C.
    """
    if (needs_pillow or args.output is not None) and importlib.util.find_spec("PIL") is None:
        return failed(NEEDS_PILLOW, 1)
    from vkshare.demos import stage

    frames = args.frames if has_end else frames_of(args)
    options = stage.StageOptions(**options_of(args), frames=frames, headless=args.headless)
    try:
        with stage.opened(options, f"vkshare: {args.demo}", **swapchain_options) as opened:
            status = show(opened, options)
            if options.output is not None:
                _save(opened, options.output)
        return status
    except stage.NoDisplay as error:
        return failed(f"{error}. Without a display: --headless --output picture.png", 2)


def _save(stage: Stage, path: str) -> None:
    from vkshare.demos import pictures

    pixels = stage.shown()
    if pixels is None:
        failed(f"nothing was shown yet, so {path} was not written", 0)
    else:
        pictures.save(pixels, path)
