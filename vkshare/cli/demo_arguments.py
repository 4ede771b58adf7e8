"""The common arguments of the demos' command lines."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkshare.demos.options import Options

NEEDS_PILLOW = "the demo needs Pillow: pip install vkshare[demo]"


def add_common_arguments(parser: argparse.ArgumentParser, default_size: tuple[int, int]) -> None:
    told = "x".join(map(str, default_size))
    parser.add_argument("--size", type=_size, default=default_size, metavar="WxH", help=f"pixels (default: {told})")
    parser.add_argument("--backend", choices=("auto", "vulkan", "cpu"), default="auto")
    parser.add_argument("--adapter", metavar="NAME", help="part of an adapter's name, or its UUID; see vkshare info")
    parser.add_argument("--output", metavar="FILE", help="write the last frame there, e.g. out.png")


def options_of(args: argparse.Namespace) -> Options:
    """Check the arguments before the work, not after it. Raises ValueError or OSError."""
    from vkshare.demos import pictures
    from vkshare.demos.options import Options

    if args.image is not None:
        pictures.check_readable(args.image)
    if args.output is not None:
        pictures.check_writable(args.output)
    return Options(
        image=args.image,
        frames=args.frames,
        width=args.size[0],
        height=args.size[1],
        backend=args.backend,
        adapter=args.adapter,
        output=args.output,
        force_copy=getattr(args, "force_copy", False),
    )


def failed(why: str, status: int) -> int:
    """Says why, and is the exit status."""
    print(f"vkshare demo: {why}", file=sys.stderr)
    return status


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)[xX](\d+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not WIDTHxHEIGHT, e.g. 1280x720")
    return int(found[1]), int(found[2])
