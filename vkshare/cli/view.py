"""`vkshare view`: a published picture in a window or in browsers, and the list of those that there are."""

from __future__ import annotations

import argparse
from typing import Any

from vkshare.cli import table, view_serve, view_window
from vkshare.cli.output import say

HELP = "shows a published picture in a window, or in browsers; lists the names without one"
DESCRIPTION = (
    "Shows what a process of this user has published under NAME: in a window, or with --serve to browsers, at the "
    "address that it prints. The address has a token, without which no browser sees anything; VKSHARE_VIEW_TOKEN "
    "chooses it. When the publisher ends, it shows the next one of the name. Without NAME it lists the names. "
    "Ctrl-C and SIGTERM end it: exit status 0."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a name that surface.publish() or another publish() gave"
    )
    parser.add_argument(
        "--serve",
        nargs="?",
        const=view_serve.LOOPBACK,
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
    """Exit status 0 when the user ended it, 1 after an error, 2 for arguments or names."""
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
    return view_serve.run(args)


def _names(found: list[Any]) -> str:
    """The published names as a table."""
    if not found:
        return "no process of this user has published a picture: surface.publish(name), or publish() of others"
    head = ("name", "kind", "size", "format", "rate", "input", "pid")
    rows = [(*_picture(each), "wanted" if each.wants_input else "-", each.pid) for each in found]
    return table.render(head, rows, right=("rate", "pid"))


def _picture(each: Any) -> tuple[str, ...]:
    return each.name, each.kind, f"{each.width}x{each.height}", each.format, f"{each.rate:.0f} /s"
