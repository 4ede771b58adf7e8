"""The environment variables by which a program finds its host, or chooses a device of its own machine instead."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "VKSHARE_REMOTE"


def local_choices(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that have a program open a device of its own machine in place of the viewer's."""
    found = {name: environment.get(name, "") for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER")}
    return {name: value for name, value in found.items() if value not in ("", "auto")}


def no_host(path: Path, error: OSError) -> OSError:
    """Returns the error to raise where no host listens at a path."""
    source = f", which {VARIABLE} names" if os.environ.get(VARIABLE) == os.fspath(path) else ""
    advice = f"start `vkshare remote`, and set the {VARIABLE} that it prints"
    return type(error)(error.errno, f"{os.strerror(error.errno or 0)}: no host listens at {path}{source}: {advice}")
