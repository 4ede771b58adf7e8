"""`vkshare play FILE`: a video in a window, each frame at the tick nearest its time."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import math
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from vkshare.cli.demo_arguments import save, seconds, size
from vkshare.cli.output import say
from vkshare.errors import UnsupportedError, VkshareError

if TYPE_CHECKING:
    from vkshare.video.player import PlayerStatistics
    from vkshare.video.reader import Reader

HELP = "plays a video file in a window, without sound"
DESCRIPTION = (
    "Plays the pictures of a video file: each at the tick of the display that is nearest its time, converted by the "
    "device as it draws. Space pauses, the left and right arrow keys go 5 seconds, Esc and Ctrl-C end. Sound is not "
    "played, and tones of HDR video are not mapped."
)
_LONGEST = 86400.0 * 365
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "VKSHARE_REMOTE")  # with one of these there may be a window
_TURN = 0.5  # seconds between two looks for signals, without ticks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("file", metavar="FILE", help="the video")
    parser.add_argument("--loop", action="store_true", help="begin again after the last frame")
    parser.add_argument("--rate", type=float, default=1.0, metavar="N", help="speed, 0.01 to 100 (default: 1)")
    from_start = partial(seconds, most=_LONGEST, allowed="of 0 or more", may_be_zero=True)
    parser.add_argument(
        "--start", type=from_start, default=0.0, metavar="S", help="begin so many seconds after the start"
    )
    parser.add_argument("--size", type=size, metavar="WxH", help="pixels (default: the picture's; small ones enlarged)")
    parser.add_argument("--backend", choices=("auto", "vulkan", "cpu"), default="auto")
    parser.add_argument("--adapter", metavar="NAME", help="part of an adapter's name, or its UUID; see vkshare info")
    parser.add_argument("--headless", action="store_true", help="no window: the last picture goes to --output only")
    parser.add_argument("--output", metavar="FILE", help="write the picture that is shown at the end, e.g. out.png")
    for_so_long = partial(seconds, most=_LONGEST, allowed="above 0")
    parser.add_argument(
        "--seconds", type=for_so_long, metavar="S", help="end by itself so long after the first picture"
    )
    parser.add_argument("--json", action="store_true", help="at the end, print the counters as JSON, and nothing else")


def run(args: argparse.Namespace) -> int:
    """Exit status 0 at the end of the video or when the user ended it, 1 after an error, 2 for wrong arguments."""
    if args.output is not None and importlib.util.find_spec("PIL") is None:
        return say("play", "--output needs Pillow: pip install 'vkshare[demo]'", 1)
    if not args.headless and not any(map(os.environ.get, _DISPLAYS)):
        return say("play", "no display: set DISPLAY, or use --headless --output FILE", 2)
    try:
        if args.output is not None:
            from vkshare.demos import pictures

            pictures.check_writable(args.output)
        return _play(args)
    except (ValueError, OSError, UnsupportedError) as error:
        return say("play", str(error), 2)
    except VkshareError as error:
        return say("play", str(error), 1)


def _play(args: argparse.Namespace) -> int:
    import vkshare
    from vkshare.compositor.window_host import Signals
    from vkshare.view.player_window import PlayerWindow

    name, can_capture = os.path.basename(args.file), args.output is not None
    with (
        Signals() as signals,
        vkshare.open(adapter=args.adapter, backend=args.backend) as device,
        vkshare.video.open(args.file, device, loop=args.loop, rate=args.rate) as reader,
    ):
        if args.start:
            reader.seek(args.start)
        if not args.json:
            print(_facts(reader, device), flush=True)
        with PlayerWindow(
            device, reader, name, size=args.size, headless=args.headless, can_capture=can_capture
        ) as shown:
            end = math.inf
            while not (signals.came or shown.has_ended or shown.is_over) and (left := end - time.monotonic()) > 0:
                shown.turn(min(left, _TURN))
                if args.seconds is not None and end == math.inf and shown.statistics().shown:
                    end = time.monotonic() + args.seconds
            if can_capture:
                save("play", shown.capture(), args.output)
            counts = shown.statistics()
    print(json.dumps(dataclasses.asdict(counts), indent=2) if args.json else _counted(counts))
    return 0 if counts.shown else say("play", f"{args.file} has shown no frame", 1)


def _facts(reader: Reader, device: Any) -> str:
    rate = "" if reader.frame_rate is None else f", {float(reader.frame_rate):.3g} frames a second"
    length = "" if reader.duration is None else f", {float(reader.duration):.1f} s"
    kind = f"{reader.width}x{reader.height} {reader.codec}{rate}{length}"
    return f"{reader.path}: {kind}; {reader.format} ({reader.color}) on {device.adapter.name}"


def _counted(counts: PlayerStatistics) -> str:
    words = [f"{counts.shown} frames shown"]
    for number, what in (
        (counts.late, "of them late"),
        (counts.dropped, "dropped"),
        (counts.damaged, "damaged"),
        (counts.waited, "ticks waited for the decoder"),
    ):
        if number:
            words.append(f"{number} {what}")
    return ", ".join(words)
