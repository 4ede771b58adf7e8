"""The common arguments of the demos' command lines."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from vkshare.cli.output import say

_HEADLESS_FRAMES = 300

failed = partial(say, "demo")  # (why, exit status) -> exit status


def add_common_arguments(parser: argparse.ArgumentParser, default_size: tuple[int, int]) -> None:
    reported = "x".join(map(str, default_size))
    parser.add_argument("--size", type=size, default=default_size, metavar="WxH", help=f"pixels (default: {reported})")
    parser.add_argument("--backend", choices=("auto", "vulkan", "cpu"), default="auto")
    parser.add_argument("--adapter", metavar="NAME", help="part of an adapter's name, or its UUID; see vkshare info")
    parser.add_argument("--output", metavar="FILE", help="write the picture that is shown at the end, e.g. out.png")


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """Check the common arguments before the work, not after it. Raises ValueError or OSError."""
    if args.output is not None:
        from vkshare.demos import pictures

        pictures.check_writable(args.output)
    width, height = args.size
    given = {name: getattr(args, name) for name in ("backend", "adapter", "output")}
    return {"width": width, "height": height, **given}


def save(command: str, pixels: Any, path: str) -> None:
    """Writes the picture; None: there is none."""
    from vkshare.demos import pictures

    if pixels is None:
        say(command, f"nothing was shown yet, so {path} was not written", 0)
    else:
        pictures.save(pixels, path)


def frames_of(args: argparse.Namespace) -> int | None:
    """How many frames: headless there is no Esc key."""
    return _HEADLESS_FRAMES if args.headless and args.frames is None else args.frames


def tell(report: dict[str, Any], as_json: bool, text: Callable[[dict[str, Any]], str]) -> int:
    """Prints a report; the exit status is 0, or 1 if something was not as it must be."""
    print(json.dumps(report, indent=2) if as_json else text(report))
    return 0 if report["ok"] else 1


def size(text: str) -> tuple[int, int]:
    """For argparse: WIDTHxHEIGHT."""
    found = re.fullmatch(r"(\d+)[xX](\d+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not WIDTHxHEIGHT, e.g. 1280x720")
    return int(found[1]), int(found[2])


def seconds(text: str, *, most: float, allowed: str, may_be_zero: bool = False) -> float:
    """For argparse; `allowed`: which numbers, in words."""
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) <= most or (may_be_zero and value == 0):
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds {allowed}")
