"""`vkshare view`: a published picture in a window or in browsers, and the list of those that there are."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vkshare.cli import table, view_window
from vkshare.cli.output import say
from vkshare.errors import VkshareError

if TYPE_CHECKING:
    from vkshare.view.server import ViewServer

HELP = "shows a published picture in a window, or in browsers; lists the names without one"
DESCRIPTION = (
    "Shows what a process of this user has published under NAME: in a window, or with --serve to browsers, at the "
    "address that it prints. The address has a token, without which no browser sees anything; VKSHARE_VIEW_TOKEN "
    "chooses it. Without NAME it lists the names. Ctrl-C and SIGTERM end it: exit status 0."
)
_LOOPBACK = "127.0.0.1:0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a name that surface.publish() or another publish() gave"
    )
    parser.add_argument(
        "--serve",
        nargs="?",
        const=_LOOPBACK,
        metavar="HOST:PORT",
        help="show it to browsers (default: a free port on loopback; other addresses need --certificate)",
    )
    parser.add_argument("--certificate", metavar="FILE", help="for https: a certificate chain (PEM)")
    parser.add_argument("--key", metavar="FILE", help="the certificate's key (PEM; default: in the same file)")
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="a further host name in browsers' addresses"
    )
    view_window.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when it was ended, by the user or the publisher, 1 after an error, 2 for arguments or names."""
    import vkshare as vks

    if args.name is None:
        if args.serve or args.certificate or args.key or args.host:
            return say("view", "--serve shows one picture: vkshare view NAME --serve", 2)
        if view_window.are_given(args):
            return say("view", "a window shows one picture: vkshare view NAME", 2)
        print(_names(vks.find()))
        return 0
    if args.serve is None:
        if args.certificate or args.key or args.host:
            return say("view", "--certificate, --key and --host are for --serve", 2)
        return view_window.run(args)
    if view_window.are_given(args):
        return say("view", "--size, --headless, --output and --seconds are not for --serve", 2)
    if args.key and not args.certificate:
        return say("view", "--key needs --certificate", 2)
    try:
        with _server(args) as server, _ended_by_signals() as stopped:
            print(f"{args.name} is shown at {server.url}", flush=True)
            _wait(server, stopped)
            if server.end is not None:
                print(f"{args.name} has ended: {server.end}", flush=True)
        return 0
    except (ValueError, OSError) as error:
        return say("view", str(error), 2)
    except VkshareError as error:
        return say("view", str(error), 1)


def _server(args: argparse.Namespace) -> ViewServer:
    from vkshare.view import serve

    certificate = (args.certificate, args.key or args.certificate) if args.certificate else None
    token = os.environ.get("VKSHARE_VIEW_TOKEN") or None
    return serve(args.name, args.serve, token=token, certificate=certificate, hosts=args.host)


def _wait(server: ViewServer, stopped: threading.Event) -> None:
    """Until the picture has ended, or a signal came."""
    while not stopped.is_set() and not server.wait(timeout=0.25):
        pass


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event in the block."""
    came = threading.Event()
    before = {each: signal.signal(each, lambda *_: came.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _names(found: list[Any]) -> str:
    """The published names as a table."""
    if not found:
        return "no process of this user has published a picture: surface.publish(name), or publish() of others"
    head = ("name", "kind", "size", "format", "rate", "pid")
    rows = [
        (each.name, each.kind, f"{each.width}x{each.height}", each.format, f"{each.rate:.0f} /s", each.pid)
        for each in found
    ]
    return table.render(head, rows, right=("rate", "pid"))
