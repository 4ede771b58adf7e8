#!/usr/bin/env python3
"""Make .venv: what vkshare needs at run time and what its developers use, as pyproject.toml lists them.

Names what the system lacks for that, with the command that installs it, and changes nothing of the
system.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = "uv>=0.5,<1"


def missing_packages() -> list[tuple[str, str]]:
    """Return (what is missing, Debian package) for everything a build needs from the system."""
    missing = []
    if not importlib.util.find_spec("venv") or not importlib.util.find_spec("ensurepip"):
        missing.append(("Python's venv and ensurepip modules", "python3-venv"))
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        missing.append(("Python's headers (Python.h)", "python3-dev"))
    if not shutil.which(os.environ.get("CC", "cc")):
        missing.append(("a C compiler (cc)", "gcc libc6-dev"))
    elif not has_libc_headers():
        missing.append(("the C library's headers (stdio.h)", "libc6-dev"))
    return missing


def has_libc_headers() -> bool:
    """Return whether the compiler finds stdio.h."""
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-E", "-x", "c", "-"]
    return subprocess.run(command, input=b"#include <stdio.h>\n", capture_output=True, check=False).returncode == 0


def wanted() -> list[str]:
    """Return the requirement lines of pyproject.toml that a developer needs."""
    import tomllib  # here, so that an older Python gets to the message about its version

    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = data["project"]["optional-dependencies"]
    lines = data["build-system"]["requires"] + data["project"]["dependencies"]
    wanted_extras = ("demo", "gl", "engines", "video", "view", "notebook", "remote", "ray", "test", "dev", "docs")
    lines += [line for extra in wanted_extras for line in extras[extra]]
    return sorted({line for line in lines if not re.match(r"vkshare\b", line)})


def install(venv: Path, lines: list[str]) -> bool:
    """Install `lines` into `venv` by uv, in a fifth of pip's time; by pip where uv does not reach pip's index."""
    python = str(venv / "bin" / "python")
    # Tests import a small part of it all, which is compiled then.
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--no-compile"]
    uv = [str(venv / "bin" / "uv"), "pip", "install", "--quiet", "--python", python]
    by_uv = [[*pip, UV], [*uv, *lines]]
    return all(not subprocess.run(command, check=False).returncode for command in by_uv) or (
        not subprocess.run([*pip, *lines], check=False).returncode
    )


def main() -> int:
    """Make or update .venv; 1 when something is missing."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a user may well start this with an older one
        print(f"Python 3.11 is needed, this is {sys.version.split()[0]}: make PYTHON=python3.12 ...", file=sys.stderr)
        return 1
    venv = ROOT / ".venv"
    lines = wanted()
    stamp = venv / ".vkshare-stamp"
    python = os.path.realpath(sys.executable)  # .venv's own, where that is activated, is the same as the one below it
    key = hashlib.sha256("\n".join([sys.version, python, str(venv), *lines]).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == key:
        return 0
    if missing := missing_packages():
        for what, _ in missing:
            print(f"missing: {what}", file=sys.stderr)
        print(f"install with: sudo apt-get install -y {' '.join(package for _, package in missing)}", file=sys.stderr)
        return 1
    (ROOT / "build" / ".stamp").unlink(missing_ok=True)  # what was installed into the old one goes with it
    subprocess.run([python, "-m", "venv", "--clear", str(venv)], check=True)
    print(f"venv: {len(lines)} requirements", flush=True)
    if not install(venv, lines):
        print("pip could not install them (is there a network, and an index that pip may use?)", file=sys.stderr)
        return 1
    stamp.write_text(key)
    return 0


if __name__ == "__main__":
    sys.exit(main())
