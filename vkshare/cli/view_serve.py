"""`vkshare view NAME --serve`: a published picture in browsers, also of the publishers that follow."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vkshare.cli.output import say
from vkshare.errors import VkshareError

if TYPE_CHECKING:
    from vkshare.view.server import ViewServer
    from vkshare.view.tls import Certificate

LOOPBACK = "127.0.0.1:0"
_TOKEN = "VKSHARE_VIEW_TOKEN"
_LOOK = 0.25  # seconds between two looks for signals, and whether the publisher is there


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when the user ended it, 1 after an error, 2 for wrong arguments and names."""
    if args.key and not args.certificate:
        return say("view", "--key needs --certificate", 2)
    try:
        with _server(args) as server, _ended_by_signals() as stopped:
            print(f"{args.name} is shown at {server.url}", flush=True)
            if not _has_video():
                say("view", "there is no video, pictures come lossless alone: pip install 'vkshare[view]' (PyAV)", 0)
            _wait(args.name, server, stopped)
            if server.end is not None:
                print(f"{args.name} has ended: {server.end}", flush=True)
        return 0
    except OSError as error:
        return say("view", error.strerror or str(error), 2)
    except ValueError as error:
        return say("view", str(error), 2)
    except VkshareError as error:
        return say("view", str(error), 1)


def _has_video() -> bool:
    try:
        import av as av
    except ImportError:
        return False
    return True


def _server(args: argparse.Namespace) -> ViewServer:
    """The server. Errors name options of the command in place of arguments of serve()."""
    from vkshare.view import security, serve

    with _named("bind is", "--serve is"):
        address = security.parse_bind(args.serve)
    if args.certificate is None and not address.is_loopback:
        raise ValueError(
            f"--serve is {address.authority}, which other machines reach: give --certificate FILE [--key FILE] for "
            "https, or serve on 127.0.0.1 and let others come through a tunnel (ssh -L)"
        )
    with _named("hosts has", "--host is"):
        security.check_hosts(args.host)
    token = os.environ.get(_TOKEN) or None
    if token is not None:
        with _named("token has", f"{_TOKEN} has", "; None makes a new one", "; without it there is a new one"):
            security.check_token(token)
    return serve(args.name, args.serve, token=token, certificate=_certificate(args), hosts=args.host)


def _certificate(args: argparse.Namespace) -> Certificate | None:
    from vkshare.view import tls

    if args.certificate is None:
        return None
    return tls.context_of((args.certificate, args.key or args.certificate), hint="give --key FILE")


@contextlib.contextmanager
def _named(*words: str) -> Iterator[None]:
    """A ValueError in the block has other words: each second one in place of the one before it."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        for before, after in zip(words[::2], words[1::2], strict=True):
            text = text.replace(before, after, 1)
        raise ValueError(text) from None


def _wait(name: str, server: ViewServer, stopped: threading.Event) -> None:
    """Until a signal came, or the server cannot go on. Says what it waits for meanwhile."""
    said: str | None = None
    while not stopped.is_set() and not server.wait(timeout=_LOOK):
        waiting = server.waiting
        if waiting != said:
            said = waiting
            print(waiting or f"{name} is published again", flush=True)


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
