"""The files of the repository that the checks of prose, citations and words read."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from results import ROOT

LEFT_OUT = "native/third_party/"  # not ours


def listed(names: Iterable[str], suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of these files and folders that git has or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *names]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [
        ROOT / name
        for name in found
        if name.endswith(suffixes) and not name.startswith(LEFT_OUT) and (ROOT / name).is_file()
    ]
