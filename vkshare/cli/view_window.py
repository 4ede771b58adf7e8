"""`vkshare view NAME`: a published picture in a window, or headless for a picture file."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import time
from functools import partial

from vkshare.cli.demo_arguments import save, seconds, size
from vkshare.cli.output import say
from vkshare.errors import UnsupportedError, VkshareError

_LONGEST = 86400.0 * 365
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "VKSHARE_REMOTE")  # with one of these there may be a window
_INSTEAD = "draw without a window: vks.Headless", "use --headless --output FILE, or --serve"  # in errors of vks.Window
_TURN = 0.1  # seconds between two looks for signals


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("in a window")
    group.add_argument(
        "--size",
        type=size,
        metavar="WxH",
        help="pixels (default: the picture's; small ones enlarged, large ones reduced)",
    )
    group.add_argument(
        "--headless", action="store_true", help="no window: the picture goes to --output only, after --seconds"
    )
    group.add_argument(
        "--output", metavar="FILE", help="write the picture that is shown at the end, e.g. out.png (.jpg is lossy)"
    )
    for_so_long = partial(seconds, most=_LONGEST, allowed="above 0")
    group.add_argument("--seconds", type=for_so_long, metavar="S", help="end by itself after so long")


def are_given(args: argparse.Namespace) -> bool:
    """Whether one of the arguments is there."""
    return bool(args.size or args.headless or args.output or args.seconds)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when the user ended it, 1 after an error, 2 for wrong arguments and where there is no display."""
    if args.output is not None and importlib.util.find_spec("PIL") is None:
        return say("view", "--output needs Pillow: pip install 'vkshare[demo]'", 1)
    try:
        if args.output is not None:
            from vkshare.demos import pictures

            pictures.check_writable(args.output)
        if args.headless and args.seconds is None:
            return say("view", "--headless has no Esc key: say how long with --seconds", 2)
        if not args.headless and not any(map(os.environ.get, _DISPLAYS)):
            return say("view", "no display: set DISPLAY, or use --headless --output FILE, or --serve", 2)
        return _show(args)
    except (ValueError, OSError, UnsupportedError) as error:
        return say("view", str(error).replace(*_INSTEAD), 2)
    except VkshareError as error:
        return say("view", str(error), 1)


def _show(args: argparse.Namespace) -> int:
    from vkshare.compositor.window_host import Signals
    from vkshare.view.window import PictureWindow

    end = math.inf if args.seconds is None else time.monotonic() + args.seconds
    with (
        Signals() as signals,
        PictureWindow(
            args.name, args.name, size=args.size, headless=args.headless, can_capture=args.output is not None
        ) as shown,
    ):
        while not (signals.came or shown.has_ended) and (left := end - time.monotonic()) > 0:
            shown.turn(min(left, _TURN))
        if args.output is not None:
            save("view", shown.capture(), args.output)
        counts = shown.statistics()
    if not counts.frames:
        return say("view", f"{args.name} has sent no picture", 1)
    return 0
