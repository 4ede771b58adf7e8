#!/usr/bin/env python3
"""Test the wheel, not the tree: install it into a fresh virtual environment of one interpreter and run the tests there.

    python tools/test_wheel.py INTERPRETER [--results FILE] [pytest arguments]

Slow and serial tests are left out: they test the same C core over again, and the interpreter is
what differs here. Where that is the one that runs all other jobs too, only what is installed
differs: some modules of each part will do.
"""

from __future__ import annotations

import argparse
import fcntl
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import build_wheel
from results import ROOT
from test_jobs import results_options

BUILD = ROOT / "build" / "wheel"
QUIET = ["-qq", "--disable-pip-version-check"]
# The tests run in a copy of the tree without the package, so that only the installed one can be
# imported.
NOT_TESTED = ("vkshare", "benchmarks", "native", "build", "dist", ".*")


def newest_source() -> float:
    """Return the newest modification time of what goes into the wheel."""
    sources = [ROOT / "pyproject.toml", ROOT / "CMakeLists.txt", ROOT / "README.md"]
    for folder in ("vkshare", "native", "cmake", "shaders"):
        sources += (ROOT / folder).rglob("*")
    return max(path.stat().st_mtime for path in sources if path.is_file() and path.suffix != ".pyc")


def current_wheel() -> Path:
    """Return the wheel of the tree as it is; several of us may ask at once."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wheels = sorted(BUILD.glob("vkshare-*.whl"))
        if len(wheels) == 1 and wheels[0].stat().st_mtime >= newest_source():
            return wheels[0]
        for old in wheels:
            old.unlink()
        return build_wheel.build(BUILD)


def ignored(folder: str, names: list[str]) -> set[str]:
    """Return the names that are not copied."""
    patterns = NOT_TESTED if Path(folder) == ROOT else ()
    return shutil.ignore_patterns("__pycache__", *patterns)(folder, names)


def is_ours(interpreter: str) -> bool:
    """Whether an interpreter is of the version that runs us."""
    ask = [interpreter, "-c", "import sys; print(*sys.version_info[:2])"]
    reported = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
    return reported.split() == [str(number) for number in sys.version_info[:2]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("interpreter")
    parser.add_argument("--results", type=Path)
    options, pytest_arguments = parser.parse_known_args()
    built = current_wheel()
    venv = BUILD / Path(options.interpreter).name
    subprocess.run([options.interpreter, "-m", "venv", "--clear", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    subprocess.run([python, "-m", "pip", "install", *QUIET, str(built), *extras["demo"], *extras["test"]], check=True)
    tree = venv / "tree"
    shutil.copytree(ROOT, tree, ignore=ignored, symlinks=True)
    headers = Path("native", "third_party")  # Vulkan's, which an engine has of its own
    shutil.copytree(ROOT / headers, tree / headers)
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    marks = "not serial and not slow" + (" and wheel" if is_ours(options.interpreter) else "")
    # No wheel has what the ignored folders test.
    command += ["-m", marks, "--ignore=tests/tools", "--ignore=tests/processes/benchmarks"]
    command += pytest_arguments
    if options.results:
        command += results_options(options.results, Path(options.interpreter).name)
    return subprocess.run(command, cwd=tree, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
