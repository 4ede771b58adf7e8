"""The `vkshare` command. A sub-command is a module here: HELP, add_arguments(parser), run(args) -> exit status."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Callable, Sequence

from vkshare import __version__
from vkshare.cli import output
from vkshare.errors import VkshareError
from vkshare.util import library

# In the order that the help shows.
_COMMANDS = ("info", "doctor", "ps", "demo", "serve", "view", "record", "play", "remote", "viewer", "trace", "approve")

# For builds of C and C++ programs (docs/c-api.md): option -> what it prints, and its help.
_PRINTED: dict[str, tuple[Callable[[], str], str]] = {
    "--cmake-dir": (library.cmake_dir, "print the folder of vkshareConfig.cmake and exit"),
    "--cflags": (lambda: shlex.join(library.compile_options()), "print the options for a C or C++ compiler and exit"),
    "--libs": (lambda: shlex.join(library.link_options()), "print the options for a linker and exit"),
}


class _Print(argparse.Action):
    """Prints a text and ends the command, as --version does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(self.const())
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a sub-command; returns the exit status: 0, 1 when it failed, 2 for wrong arguments, 130 after Ctrl-C."""
    output.fill_closed_streams()
    try:
        with output.checked():
            return _run(argv)
    except ImportError as error:
        if error.name != "vkshare._native":
            raise
        print(f"vkshare: {error}", file=sys.stderr)
        return 1
    except output.OutputError as error:
        output.discard()
        print(f"vkshare: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # it may come while modules are imported
        return 130


def _run(argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    if os.environ.get("VKSHARE_TRACE"):
        importlib.import_module("vkshare.util.trace")  # warns where it cannot be traced
    try:
        status: int = args.run(args)
        return status
    except VkshareError as error:
        return output.say(args.command, str(error), 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vkshare", description="Pictures shared without copies.")
    parser.add_argument("--version", action="version", version=f"vkshare {__version__}")
    for option, (text, what) in _PRINTED.items():
        parser.add_argument(option, action=_Print, nargs=0, help=what, const=text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in _COMMANDS:
        module = importlib.import_module(f"vkshare.cli.{name}")
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser
