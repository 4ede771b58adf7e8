"""`vkshare doctor`: what is missing or odd on this machine or in this container, and what to do about it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from vkshare.cli import checks, table
from vkshare.cli.checks import Finding

HELP = "what is missing or odd on this machine, and what to do about it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Exit status 1 if something is missing without which vkshare does not work, else 0."""
    findings = examine()
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print(_text(findings))
    return 1 if any(finding.state == "missing" for finding in findings) else 0


def examine(examinations: tuple[Callable[[], list[Finding]], ...] = checks.ALL) -> list[Finding]:
    """All findings. An examination that itself fails is a finding too."""
    findings: list[Finding] = []
    for examination in examinations:
        try:
            findings += examination()
        except Exception as error:
            name = examination.__name__.replace("_", " ")
            findings.append(
                Finding(name, "missing", f"could not be examined: {error!r}", "report this with the text above")
            )
    return findings


def _text(findings: list[Finding]) -> str:
    parts = [table.render(("", "WHAT", "FOUND"), [(f.state, f.name, f.found) for f in findings])]
    advice = [f for f in findings if f.advice]
    if advice:
        parts.append("\n".join(f"{f.name}: {f.advice}" for f in advice))
    missing = sum(f.state == "missing" for f in findings)
    odd = sum(f.state == "odd" for f in findings)
    verdict = "vkshare works here" if not missing else "vkshare does not work here as it is"
    parts.append(f"{verdict}: {missing} missing, {odd} odd (Python {sys.version.split()[0]})")
    return "\n\n".join(parts)
