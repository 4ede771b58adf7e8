#!/usr/bin/env python3
"""Run some tests on one driver: `make check T=tests/rules/core/test_fence.py K=signal D=lavapipe25`.

    python tools/check.py [--driver cpu] [TEST] [pytest arguments]

TEST is a file, a folder or a test of pytest, or the name of a C test (test_tracker), for which the
driver is plain, asan or tsan. The output is pytest's, or ctest's, and so is the exit status.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from results import ROOT
from test_jobs import (
    C_BUILDS,
    DRIVERS,
    PYTEST,
    c_build_commands,
    our_environment,
    prepare_driver,
    pytest_environment,
    venv_path,
)


def is_c_test(test: str) -> bool:
    """Return whether there is a C test of that name, or the test is its file; pytest's tests are paths below tests/."""
    path = Path(test)
    if path.suffix not in ("", ".c") or str(path.parent) not in (".", "native/tests"):
        return False
    return (ROOT / "native" / "tests" / f"{path.stem.removesuffix('_with_transfers')}.c").is_file()


def run_c_test(build: str, test: str) -> int:
    """Build the C tests and run one of them."""
    environment = our_environment() | venv_path()
    ctest = ["ctest", "--test-dir", str(ROOT / "build" / build), "--no-tests=error", "--output-on-failure"]
    for command in [*c_build_commands(build), [*ctest, "-R", f"^{Path(test).stem}$"]]:
        quiet = subprocess.DEVNULL if command[0] == "cmake" and "--build" not in command else None
        if status := subprocess.run(command, cwd=ROOT, env=environment, stdout=quiet, check=False).returncode:
            return status
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default="", choices=["", *DRIVERS, *C_BUILDS], metavar="DRIVER")
    options, arguments = parser.parse_known_args()
    test = next((each for each in arguments if not each.startswith("-")), "")
    if options.driver in C_BUILDS or is_c_test(test):
        return run_c_test(options.driver if options.driver in C_BUILDS else "plain", test)
    driver = options.driver or "cpu"
    environment, unavailable = prepare_driver(driver)
    if unavailable:
        print(f"{driver}: {unavailable}", file=sys.stderr)
        return 1
    os.chdir(ROOT)
    os.execve(sys.executable, [*PYTEST, "-q", *arguments], our_environment() | environment | pytest_environment(driver))


if __name__ == "__main__":
    sys.exit(main())
