"""Builds what tests need in C beside the extension, in folders of its own below build/."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from support.tree_paths import ROOT


def build(folder: Path, target: str, *options: str) -> None:
    """Builds the CMake target, if its sources are newer. RuntimeError with the tools' output where that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        configured = folder / "CMakeCache.txt"
        if configured.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" not in configured.read_text():
            configured.unlink()  # the tree was moved or copied
        if not configured.exists():
            _run("cmake", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}", "-S", str(ROOT), "-B", str(folder),
                 "-DVKSHARE_PYTHON=OFF", *options)  # fmt: skip
        _run("ninja", "-C", str(folder), target)


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"there is no {name} beside {sys.executable} nor on PATH: run make venv")
    return found


def _run(tool: str, *arguments: str) -> None:
    done = subprocess.run([_tool(tool), *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments[-1]} does not build:\n{done.stdout}")
