"""`vkshare remote`: runs a program that draws on another machine's GPU, in windows there."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vkshare.cli.output import say
from vkshare.errors import VkshareError

if TYPE_CHECKING:
    from vkshare.remote import Host

HELP = "runs a program that draws on the GPU, and in windows, of another machine"
DESCRIPTION = (
    "Runs PROGRAM so that vks.open() and vks.Window are a viewer's: its GPU, its screen. The viewer is `vkshare viewer "
    "ADDRESS` on the other machine, with the token that is printed; VKSHARE_REMOTE_TOKEN or --token-file choose it. "
    "The program waits for the viewer. Without PROGRAM it serves programs that are started with the printed "
    "VKSHARE_REMOTE, until Ctrl-C. The exit status is the program's."
)
TOKEN_VARIABLE = "VKSHARE_REMOTE_TOKEN"
_LOOPBACK = "127.0.0.1:0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument(
        "--bind",
        default=_LOOPBACK,
        metavar="HOST:PORT",
        help="where to listen for the viewer (default: a free port on loopback; other addresses need --certificate)",
    )
    add_token_argument(parser)
    parser.add_argument("--certificate", metavar="FILE", help="for TLS: a certificate (PEM)")
    parser.add_argument("--key", metavar="FILE", help="the certificate's key (PEM; default: in the same file)")
    parser.add_argument("--grace", type=float, default=10.0, metavar="S", help="seconds a viewer may be away (10)")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ...", help="the program to run")


def add_token_argument(parser: argparse.ArgumentParser) -> None:
    """Adds --token-file."""
    parser.add_argument("--token-file", metavar="FILE", help=f"a file with the token (default: {TOKEN_VARIABLE})")


def token_of(args: argparse.Namespace) -> str:
    """Returns the token of --token-file or the environment; "" without one. OSError: no such file."""
    if args.token_file is not None:
        return Path(args.token_file).read_text().strip()
    return os.environ.get(TOKEN_VARIABLE, "")


def run(args: argparse.Namespace) -> int:
    """Exit status of the program; 1 after an error, 2 for wrong arguments."""
    from vkshare import remote

    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if args.key and not args.certificate:
        return say("remote", "--key is for --certificate", 2)
    certificate = (args.certificate, args.key or args.certificate) if args.certificate else None
    try:
        given = token_of(args)
        token = given or secrets.token_urlsafe()
        with remote.Host(args.bind, token=token, certificate=certificate, grace=args.grace) as host:
            _introduce(host, "" if given else token, bool(certificate))
            return _run(program, host) if program else _serve(host)
    except (ValueError, OSError) as error:
        return say("remote", str(error), 2)
    except VkshareError as error:
        return say("remote", str(error), 1)


def _introduce(host: Host, token: str, has_certificate: bool) -> None:
    """Prints on standard error, because standard output is the program's."""
    words = ["vkshare", "viewer", host.address, *(["--certificate", "FILE"] if has_certificate else [])]
    print(f"vkshare remote: on the other machine: {' '.join(words)}", file=sys.stderr)
    if token:
        print(f"vkshare remote: the token is {token}", file=sys.stderr, flush=True)


def _run(program: Sequence[str], host: Host) -> int:
    environment = {**os.environ, "VKSHARE_REMOTE": os.fspath(host.path)}
    environment.pop(TOKEN_VARIABLE, None)
    try:
        child = subprocess.Popen(program, env=environment)
    except OSError as error:
        return say("remote", f"{program[0]}: {error.strerror}", 2)
    with _passing_signals(child):
        status = child.wait()
    return 128 - status if status < 0 else status


@contextlib.contextmanager
def _passing_signals(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGTERM goes on to the program. Ctrl-C reaches it from the terminal, and this process outlives it."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: child.terminate()),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _serve(host: Host) -> int:
    from vkshare.compositor.window_host import Signals

    print(f"VKSHARE_REMOTE={host.path}", flush=True)
    with Signals() as signals:
        while not signals.came:
            signals.wait(3600.0)
    return 0
