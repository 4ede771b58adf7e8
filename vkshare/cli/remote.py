"""`vkshare remote`: runs a program that draws on another machine's GPU, in windows there."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vkshare.cli import remote_arguments
from vkshare.cli.output import say
from vkshare.cli.remote_arguments import TOKEN_VARIABLE, ArgumentError
from vkshare.errors import VkshareError

if TYPE_CHECKING:
    from vkshare.remote import Host

HELP = "runs a program that draws on the GPU, and in windows, of another machine"
DESCRIPTION = (
    "Runs PROGRAM so that vks.open() and vks.Window are a viewer's: its GPU, its screen. The viewer is `vkshare viewer "
    "ADDRESS` on the other machine, with the token that is printed; VKSHARE_REMOTE_TOKEN or --token-file choose it. "
    "The program waits for the viewer, and starts without VKSHARE_BACKEND and VKSHARE_ADAPTER. Without PROGRAM it "
    "serves programs that are started with the printed VKSHARE_REMOTE, until Ctrl-C. The exit status is the program's."
)
_LOOPBACK = "127.0.0.1:0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument(
        "--bind",
        default=_LOOPBACK,
        metavar="HOST:PORT",
        help="where to listen for the viewer, or a port on loopback (default: a free one); other addresses need "
        "--certificate",
    )
    remote_arguments.add_token_argument(parser)
    parser.add_argument("--certificate", metavar="FILE", help="for TLS: a certificate (PEM)")
    parser.add_argument("--key", metavar="FILE", help="the certificate's key (PEM; default: in the same file)")
    parser.add_argument("--grace", type=float, default=10.0, metavar="S", help="seconds a viewer may be away (10)")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ...", help="the program to run")


def run(args: argparse.Namespace) -> int:
    """Exit status of the program; 1 after an error, 2 for wrong arguments."""
    from vkshare import remote
    from vkshare.remote.link import MOST_SECONDS
    from vkshare.util import arguments

    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    try:
        bind = remote_arguments.check_bind(args.bind, args.certificate)
        certificate = remote_arguments.check_certificate(args.certificate, args.key)
        arguments.number("--grace", args.grace, 0, MOST_SECONDS)
        given = remote_arguments.given_token(args)
        token = given or secrets.token_urlsafe()
        with remote.Host(bind, token=token, certificate=certificate, grace=args.grace) as host:
            _introduce(host, "" if given else token, certificate)
            return _run(program, host) if program else _serve(host)
    except ArgumentError as error:
        return say("remote", str(error), 2)
    except (ValueError, OSError) as error:
        return say("remote", remote_arguments.text_of(error), 2)
    except VkshareError as error:
        return say("remote", str(error), 1)


def _tell(text: str) -> None:
    """Prints on standard error, because standard output is the program's."""
    print(f"vkshare remote: {text}", file=sys.stderr, flush=True)


def _introduce(host: Host, token: str, certificate: tuple[str, str] | None) -> None:
    from vkshare.remote import addresses

    words = ["vkshare", "viewer", addresses.for_others(host.address)]
    if certificate is not None:
        words += ["--certificate", os.path.basename(certificate[0])]
    _tell(f"on the other machine: {shlex.join(words)}")
    if token:
        _tell(f"the token is {token}")


def _run(program: Sequence[str], host: Host) -> int:
    try:
        child = subprocess.Popen(program, env=_environment(host))
    except OSError as error:
        return say("remote", f"{program[0]}: {error.strerror}", 2)
    _tell(f"`{program[0]}` waits for a viewer; VKSHARE_REMOTE={host.path} has other programs draw there, too")
    with _passing_signals(child):
        status = child.wait()
    return 128 - status if status < 0 else status


def _environment(host: Host) -> dict[str, str]:
    """The program's: without the token, and without variables that name a device of this machine."""
    from vkshare.remote import environment

    local = environment.local_choices(os.environ)
    for name, value in local.items():
        _tell(f"the program starts without {name}={value}, so that it draws at the viewer")
    names = os.environ.keys() - local.keys() - {TOKEN_VARIABLE}
    return {**{name: os.environ[name] for name in names}, environment.VARIABLE: os.fspath(host.path)}


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
    from vkshare.remote import environment

    for name, value in environment.local_choices(os.environ).items():
        _tell(f"programs with {name}={value} do not draw at the viewer: unset it for them")
    print(f"VKSHARE_REMOTE={host.path}", flush=True)
    with Signals() as signals:
        while not signals.came:
            signals.wait(3600.0)
    return 0
