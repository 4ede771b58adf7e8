"""`vkshare demo`: programs that show what vkshare is for."""

from __future__ import annotations

import argparse
import importlib
import signal

from vkshare.cli.demo_arguments import failed

HELP = "programs that show what vkshare is for; each has --help"
# Name -> its module here, with HELP, DESCRIPTION, add_arguments(parser), run(args) -> exit status.
_DEMOS = {
    "shared": "demo_shared",
    "text": "demo_text",
    "torch": "demo_torch",
    "pipeline": "demo_pipeline",
    "window": "demo_window",
    "triangle": "demo_triangle",
    "resize-storm": "demo_storm",
    "desktop": "demo_desktop",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    demos = parser.add_subparsers(dest="demo", required=True, metavar="DEMO")
    for name, module_name in _DEMOS.items():
        module = importlib.import_module(f"vkshare.cli.{module_name}")
        demo = demos.add_parser(name, help=module.HELP, description=module.DESCRIPTION)
        module.add_arguments(demo)
        demo.set_defaults(run_demo=module.run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0, 1 if something was not as it must be, 2 for wrong arguments, 130 after Ctrl-C."""
    try:
        status: int = args.run_demo(args)
    except (ValueError, OSError) as error:
        return failed(str(error), 2)
    except KeyboardInterrupt:
        return failed("interrupted", 128 + signal.SIGINT)
    return status
