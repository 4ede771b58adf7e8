"""`vkshare serve`: a render server and a compositor, for clients that are other processes."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import math
import sys
import time
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from vkshare.cli.demo_arguments import add_common_arguments, options_of, save, seconds
from vkshare.cli.output import say
from vkshare.errors import InvalidCallError, VkshareError

if TYPE_CHECKING:
    from vkshare.compositor.window_host import Signals, WindowHost

HELP = "a render server and a compositor, which show other processes' windows"
DESCRIPTION = (
    "Renders for other processes of this user, and shows their windows in one, composited at the display's ticks. A "
    "client is a few lines: see docs/compositor.md. Ctrl-C, SIGTERM, Esc and the close button end it: exit status 0."
)
_SWITCH_INTERVAL = 0.0005  # seconds: docs/server.md, "Python's lock"
_LONGEST = 86400.0 * 365


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument(
        "--path", metavar="SOCKET", help="where to listen (default: VKSHARE_SERVER, else in XDG_RUNTIME_DIR)"
    )
    parser.add_argument("--headless", action="store_true", help="no window: frames go to --output only")
    add_common_arguments(parser, (1280, 720))
    parser.add_argument(
        "--rate",
        type=_rate,
        metavar="HZ",
        help="ticks a second, by a timer, e.g. 144 or 60000/1001 (default: the display's own; headless 60)",
    )
    parser.add_argument(
        "--isolation",
        choices=("thread", "process"),
        default="thread",
        help="what a client that renders in the server has there (default: thread)",
    )
    for_so_long = partial(seconds, most=_LONGEST, allowed="above 0")
    parser.add_argument("--seconds", type=for_so_long, metavar="S", help="end by itself after so long")
    parser.add_argument("--statistics", type=for_so_long, metavar="S", help="a line of statistics each so often")
    parser.add_argument("--json", action="store_true", help="statistics as JSON at the end, and each line of them too")


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when the user ended it, 1 after an error, 2 for wrong arguments and where there is no display."""
    if args.output is not None and importlib.util.find_spec("PIL") is None:
        return say("serve", "--output needs Pillow: pip install 'vkshare[demo]'", 1)
    from vkshare.compositor.window_host import NoDisplay, Signals, WindowHost, WindowHostOptions
    from vkshare.demos.options import StageOptions

    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        options = options_of(args)
        StageOptions(**options)  # checks the size
        can_capture = options.pop("output") is not None
        more = {"path": args.path, "is_headless": args.headless, "rate": args.rate, "isolation": args.isolation}
        hosted = WindowHostOptions(**options, **more, title="vkshare", can_capture=can_capture)
        with Signals() as signals, WindowHost(hosted) as host:
            _serve(args, host, signals)
        return 0
    except (NoDisplay, ValueError, OSError) as error:
        return say("serve", str(error), 2)
    except VkshareError as error:
        return say("serve", str(error), 1)
    finally:
        sys.setswitchinterval(before)


def _serve(args: argparse.Namespace, host: WindowHost, signals: Signals) -> None:
    if not args.json:
        where = "headless" if host.window is None else f"in a window, by {host.display.statistics().kind}"
        rate = float(1 / host.display.interval)
        adapter = host.compositor.device.adapter.name
        print(f"serving at {host.server.path}, on {adapter}, {rate:g} Hz {where}", flush=True)
    else:
        print(json.dumps({"path": str(host.server.path)}), flush=True)
    start = time.monotonic()
    reported = 0
    end, every = (math.inf if given is None else given for given in (args.seconds, args.statistics))
    while not (signals.came or host.has_ended) and (now := time.monotonic() - start) < end:
        if now >= (reported + 1) * every:
            reported = math.floor(now / every)
            _tell(host, now, args.json)
        host.turn(min(end - now, (reported + 1) * every - now, 1.0), signals)
    if args.output is not None:
        from vkshare.demos.stage import rgba

        pixels = None
        with contextlib.suppress(InvalidCallError):  # nothing was shown yet
            pixels = rgba(host.compositor.capture(), host.compositor.swapchain.format)
        save("serve", pixels, args.output)
    _tell(host, time.monotonic() - start, args.json)


def _tell(host: WindowHost, seconds: float, as_json: bool) -> None:
    server, shown = host.server.statistics(), host.compositor.statistics()
    if as_json:
        reported: dict[str, Any] = {"seconds": seconds, "server": dataclasses.asdict(server)}
        reported["compositor"] = dataclasses.asdict(shown)
        reported["windows"] = [
            {"title": window.title, **dataclasses.asdict(window.statistics())} for window in host.compositor.windows
        ]
        print(json.dumps(reported), flush=True)
        return
    print(
        f"{seconds:.1f} s: {server.clients} clients, {shown.windows} windows, {shown.composites} composites of "
        f"{shown.ticks} ticks, {shown.missed} missed; frames: {shown.shown} shown, {shown.superseded} superseded, "
        f"{shown.lost} lost",
        flush=True,
    )


def _rate(text: str) -> Fraction:
    try:
        rate = Fraction(text)
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if not Fraction(1, 100) <= rate <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of Hz from 0.01 to 1000, e.g. 60 or 60000/1001")
    return rate
