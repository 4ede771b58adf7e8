"""`vkshare approve`: the pictures that failed in the last test run become the references (rule E19)."""

from __future__ import annotations

import argparse
import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from vkshare.cli import output, table

if TYPE_CHECKING:
    from vkshare.testing.failures import Failure

HELP = "take the pictures that failed in the last test run over as references"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="pictures, also with * and ? (default: all)")
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("build/vks-goldens"),
        metavar="FOLDER",
        help="where the run left them (default: %(default)s)",
    )
    parser.add_argument(
        "--root", type=Path, default=Path(), metavar="FOLDER", help="the project's root, pytest's rootdir (default: .)"
    )
    parser.add_argument(
        "--for",
        dest="level",
        default="auto",
        metavar="LEVEL",
        help="any, driver, adapter, or the folder of one, such as lavapipe25; "
        "auto: the reference that it failed against, unless another picture agrees with that one",
    )
    parser.add_argument("--list", action="store_true", help="list the pictures, and change nothing")
    parser.add_argument("--json", action="store_true", help="with --list: as JSON")


def run(args: argparse.Namespace) -> int:
    from vkshare.testing import failure_page, failures
    from vkshare.testing.approval import Approval, ApprovalError

    found = failures.read(args.results)
    wanted = [each for each in found if not args.names or any(fnmatchcase(each.name, name) for name in args.names)]
    unknown = [name for name in args.names if not any(fnmatchcase(each.name, name) for each in found)]
    if unknown:
        there = ", ".join(sorted({each.name for each in found})) or "none"
        return output.say("approve", f"{', '.join(unknown)}: no picture of that name failed; there are: {there}", 1)
    if args.list:
        _list(wanted, args.json)
        return 0
    if not wanted:
        return output.say("approve", f"{args.results} has no failures; run the tests first, or give --results", 1)
    try:
        for each in Approval(args.results, args.root, args.level).run(wanted):
            path = each.path.relative_to(args.root.resolve())
            print(f"{path}  {'inherited by' if each.is_inherited else 'from'} {each.failure.test}")
    except ApprovalError as error:
        return output.say("approve", str(error), 1)
    finally:
        failure_page.update(args.results, failures.read(args.results))
    return 0


def _list(found: list[Failure], as_json: bool) -> None:
    rows = [(each.name, each.test, each.folder, each.level, each.text) for each in found]
    names = ("name", "test", "folder", "level", "text")
    if as_json:
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
    elif rows:
        shown = [(name, test, "none" if level is None else level or "any", text) for name, test, _, level, text in rows]
        print(table.render(("NAME", "TEST", "REFERENCE", "WHY"), shown))
    else:
        print("no picture failed")
