"""The files of the repository that the checks of prose, citations and words read."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from results import ROOT

LEFT_OUT = "native/third_party/"  # not ours


def tree(names: Iterable[str] = ()) -> list[str]:
    """Return the files of these files and folders, or of all, that git has or would add, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *names]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in found if (ROOT / name).is_file()]


def listed(names: Iterable[str], suffixes: tuple[str, ...]) -> list[Path]:
    """Return those of tree() that are ours and have such a suffix."""
    return [ROOT / name for name in tree(names) if name.endswith(suffixes) and not name.startswith(LEFT_OUT)]
