"""`vkshare viewer`: this machine's GPU and screen, for programs on another machine."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from vkshare.cli import remote_arguments
from vkshare.cli.output import say
from vkshare.cli.remote_arguments import TOKEN_VARIABLE, ArgumentError
from vkshare.errors import UnsupportedError, VkshareError
from vkshare.remote.playout import MOST_DELAY, MOST_PLAYOUT
from vkshare.util import arguments

if TYPE_CHECKING:
    from vkshare.remote import Viewer

HELP = "draws, and shows the windows of, programs on another machine (vkshare remote)"
DESCRIPTION = (
    "Connects to a host (`vkshare remote`, or vks.remote.Host), draws with this machine's GPU what its programs "
    f"record, and shows their windows. It asks for the token, unless --token-file or {TOKEN_VARIABLE} has it. A "
    "connection that breaks is made again, and a host that is not there yet is awaited for 10 seconds. Ctrl-C, "
    "SIGTERM and the end of the host end it: exit status 0."
)
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("address", metavar="HOST:PORT", help="the host's address, as it prints it")
    remote_arguments.add_token_argument(parser)
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="the host's certificate (PEM), or \"system\" for one that this machine's authorities signed",
    )
    parser.add_argument("--adapter", metavar="NAME", help="part of an adapter's name, or its UUID (see vkshare info)")
    parser.add_argument("--backend", choices=("auto", "vulkan", "cpu"), default="auto", help="(default: auto)")
    parser.add_argument("--headless", action="store_true", help="no windows")
    parser.add_argument(
        "--playout",
        type=float,
        default=MOST_DELAY,
        metavar="S",
        help=f"the most seconds that a picture waits, so that motion is steady on a link with losses; 0: none waits "
        f"({MOST_DELAY:g})",
    )
    parser.add_argument("--output", metavar="FOLDER", help="at the end, write the picture of each open window as PNG")
    parser.add_argument("--json", action="store_true", help="at the end, print the counters as JSON")
    parser.add_argument(
        "--digests",
        metavar="TITLE",
        help="with --json: the SHA-256 of each picture that the window of that title shows",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="end by itself after so long")


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when it was ended or the host has ended, 1 after an error, 2 for wrong arguments."""
    try:
        with _ended_by_sigterm():
            remote_arguments.check_address(args.address, args.certificate)
            arguments.number("--playout", args.playout, 0, MOST_PLAYOUT)
            if not args.headless:
                _check_display()
            token = remote_arguments.given_token(args) or remote_arguments.asked_token()
            if not token:
                return say("viewer", f"no token: set {TOKEN_VARIABLE}, or give --token-file", 2)
            return _view(args, token)
    except KeyboardInterrupt:
        return 0
    except (ArgumentError, UnsupportedError) as error:
        return say("viewer", str(error), 2)
    except (ValueError, OSError) as error:
        return say("viewer", remote_arguments.text_of(error), 2)
    except VkshareError as error:
        return say("viewer", str(error), 1)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """In the block, SIGTERM is a KeyboardInterrupt, as Ctrl-C is."""

    def end(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_display() -> None:
    """Connects to the display, which windows use later. ArgumentError: they cannot."""
    displays = " ".join(f"{name}={os.environ[name]}" for name in DISPLAYS if os.environ.get(name))
    if not displays:
        raise ArgumentError("no display: set DISPLAY or WAYLAND_DISPLAY, or use --headless")
    from vkshare.window import glfw_connection

    try:
        glfw_connection.connect()
    except VkshareError as error:
        raise ArgumentError(f"no windows with {displays}: {error}; or use --headless") from None


def _view(args: argparse.Namespace, token: str) -> int:
    import vkshare as vks

    device = vks.open(args.adapter, backend=args.backend, name="vkshare viewer", held_limit=1 << 20)
    with (
        device,
        vks.remote.Viewer(
            args.address,
            token=token,
            certificate=args.certificate,
            device=device,
            headless=args.headless,
            playout=args.playout,
            digested=args.digests,
        ) as viewer,
    ):
        print(f"connected to {args.address}, drawing on {device.adapter.name}", flush=True)
        return _show(viewer, args)


def _show(viewer: Viewer, args: argparse.Namespace) -> int:
    from vkshare.errors import RemoteLostError

    before = {each: signal.signal(each, lambda *_: viewer.stop()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        viewer.run(args.seconds)
    except RemoteLostError as error:
        print(f"the session has ended: {str(error).removeprefix('the session is over: ')}", flush=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if args.output is not None:
            _save(viewer, Path(args.output))
        if args.json:
            digests = {} if args.digests is None else {"digests": viewer.digests()}
            print(json.dumps({**dataclasses.asdict(viewer.statistics()), **digests}), flush=True)
    return 0


def _save(viewer: Viewer, folder: Path) -> None:
    from PIL import Image

    found = sorted(viewer.pictures().items())
    if not found:
        say("viewer", f"no window is open at the end, so that no picture is in {folder}", 0)
    folder.mkdir(parents=True, exist_ok=True)
    for number, (title, pixels) in enumerate(found, 1):
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in title) or f"window-{number}"
        if pixels.dtype == "uint8" and pixels.shape[2] == 4:
            Image.fromarray(pixels[:, :, :3]).save(folder / f"{name}.png")
