#!/usr/bin/env python3
"""Break one rule at a time in a copy of the tree and demand that the rule's tests notice.

    python tools/mutants.py [RULE or PATCH ...]      e.g. K7, K7-2, X (all of X); nothing means all

tests/mutants/RULE.patch or RULE-n.patch is a unified diff (for `patch -p1`) with header lines before it:

    suite: pytest | ctest | model       which tests must turn red (pytest)
    driver: lavapipe25                  for pytest: the driver to run them on (cpu)
    select: -k expression               for pytest: more arguments; for ctest: a regular expression of test names
    why: one sentence                   what is broken

With pytest the rule's own tests run (--rule RULE). Each mutant is built in a fresh folder, so no stale binary can hide
it. Exit status 1 for every patch that does not apply, does not build, or stays green; also for one whose tests are red
or absent without it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from results import ROOT
from test_jobs import driver_environment, sysroot

MUTANTS = ROOT / "tests" / "mutants"
COPIED = ("CMakeLists.txt", "pyproject.toml", "README.md", "vkshare", "native", "shaders", "tests", "tools", "examples")
LIMIT = 300  # seconds for a build or a test run; a mutant that hangs has been noticed
PYTEST_FAILED = 1


@dataclass(frozen=True)
class Mutant:
    """One patch and how its tests are run."""

    patch: Path
    rule: str
    suite: str = "pytest"
    driver: str = "cpu"
    select: str = ""
    why: str = ""

    @classmethod
    def read(cls, patch: Path) -> Mutant:
        """Read a patch's header lines."""
        header = re.split(r"^(?:diff|---) ", patch.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
        fields = dict(re.findall(r"^(suite|driver|select|why):\s*(.*?)\s*$", header, flags=re.MULTILINE))
        return cls(patch, patch.stem.partition("-")[0], **fields)

    @property
    def tests_key(self) -> tuple[str, ...]:
        """Mutants with one key run the same tests, which must be green without any patch."""
        return (self.suite, self.driver, self.select, self.rule if self.suite == "pytest" else "")


class Tree:
    """A copy of the tree with its own build and its own virtual environment on top of ours."""

    def __init__(self, folder: Path):
        self.folder = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
            elif source.is_file():
                shutil.copy2(source, folder / name)
        self.log = folder / "log"
        self.python = folder / "venv" / "bin" / "python"
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "VKSHARE_SYSROOT": os.environ.get("VKSHARE_SYSROOT", str(ROOT / ".cache" / "sysroot")),
            "PYTHONDONTWRITEBYTECODE": "1",
            "VKSHARE_VALIDATION": "1",
        }

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> int:
        """Run a command in the tree, its output to the log; 124 past the limit."""
        # A session of its own, and timeout(1), which ends the whole group: tests have child processes.
        whole = ["timeout", "--kill-after=5", str(LIMIT), *command]
        with self.log.open("a") as log:
            print("$", *command, file=log, flush=True)
            return subprocess.run(
                whole,
                cwd=self.folder,
                env=self.environment | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ).returncode

    def apply(self, mutant: Mutant) -> bool:
        """Apply a patch, exactly: a fuzzy match may break something else than it says."""
        return self.run(["patch", "-p1", "--fuzz=0", "--batch", "--input", str(mutant.patch)]) == 0

    def build(self, suite: str) -> bool:
        """Build what a suite needs."""
        if suite == "model":
            return True
        options = ["-DVKSHARE_KILL_POINTS=ON"]
        if suite == "ctest":
            options += ["-DVKSHARE_PYTHON=OFF", "-DVKSHARE_TESTS=ON"]
        options.append(f"-DPython_EXECUTABLE={sys.executable}")
        if self.run(["cmake", "-G", "Ninja", "-S", ".", "-B", "build", *options]):
            return False
        if self.run(["cmake", "--build", "build", "-j1"]):
            return False
        if suite == "ctest":
            return True
        return self.run(["cmake", "--install", "build", "--prefix", "."]) == 0 and self._make_venv()

    def _make_venv(self) -> bool:
        # Ours cannot be used as it is: its editable install would import the tree that is not broken. A .pth file adds
        # folders but does not process the .pth files in them.
        if self.run([sys.executable, "-m", "venv", "--without-pip", str(self.python.parent.parent)]):
            return False
        (site,) = self.python.parent.parent.glob("lib/python*/site-packages")
        (site / "vkshare-mutant.pth").write_text(f"{self.folder}\n{sysconfig.get_path('purelib')}\n")
        return True

    def test(self, mutant: Mutant) -> int:
        """Run a mutant's tests and return their exit status."""
        if mutant.suite == "ctest":
            command = ["ctest", "--test-dir", "build", "--no-tests=error", "--output-on-failure"]
            command += ["-R", mutant.select] if mutant.select else []
            return self.run(command, driver_environment("lavapipe25"))
        if mutant.suite == "model":
            spin = Path(sysroot("--tool", "spin").stdout.strip()).parent
            environment = {"PATH": f"{spin}:{self.environment['PATH']}"}
            return self.run([sys.executable, "tests/model/run.py", "--quick"], environment)
        environment = (driver_environment(mutant.driver) or {}) | {
            "VKSHARE_TEST_DRIVER": mutant.driver,
            "VKSHARE_BACKEND": "cpu" if mutant.driver == "cpu" else "vulkan",
        }
        command = [str(self.python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--rule", mutant.rule]
        return self.run([*command, *mutant.select.split()], environment)


def judge(mutant: Mutant, folder: Path) -> str:
    """Return "" when the mutant was noticed, else what is wrong with it."""
    tree = Tree(folder)
    if not tree.apply(mutant):
        return "does not apply"
    if not tree.build(mutant.suite):
        return "does not build"
    status = tree.test(mutant)
    if status == 0:
        return "stays green"
    if mutant.suite == "pytest" and status not in (PYTEST_FAILED, 124, 137) and 0 < status < 128:
        return f"its tests did not run (pytest's exit status {status})"
    return ""


def judge_unbroken(mutant: Mutant, folder: Path) -> str:
    """Return "" when the mutant's tests are green on the tree as it is."""
    tree = Tree(folder)
    if not tree.build(mutant.suite):
        return "the tree as it is does not build"
    return "" if tree.test(mutant) == 0 else "its tests are red, or there are none, without the patch"


def select(names: list[str]) -> list[Mutant]:
    """Return the mutants that answer to these rules, patches or prefixes."""
    mutants = [Mutant.read(path) for path in sorted(MUTANTS.glob("*.patch"), key=lambda path: path.stem)]
    return [m for m in mutants if not names or {m.rule, m.rule[0], m.patch.stem} & set(names)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="RULE")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep the folders, and name the logs of complaints")
    options = parser.parse_args()
    mutants = select(options.names)
    if not mutants:
        print(f"no mutant answers to {options.names or 'anything'} in tests/mutants", file=sys.stderr)
        return 1
    sysroot()  # once, before two of us ask for it
    base = Path(tempfile.mkdtemp(prefix="vkshare-mutants-"))
    started = time.monotonic()

    def run(job: tuple[str, Mutant]) -> str:
        kind, mutant = job
        folder = base / f"{kind}-{mutant.patch.stem}"
        folder.mkdir()
        wrong = (judge if kind == "broken" else judge_unbroken)(mutant, folder)
        if kind == "broken" or wrong:
            verdict = wrong.upper() or "noticed"
            print(f"{mutant.patch.stem:8} {mutant.suite:7} {mutant.driver:12} {verdict:24} {mutant.why}", flush=True)
        if wrong and options.keep:
            print(f"    see {folder / 'log'}")
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return wrong

    unbroken = {mutant.tests_key: mutant for mutant in mutants}
    jobs = [("unbroken", m) for m in unbroken.values()] + [("broken", m) for m in mutants]
    with ThreadPoolExecutor(options.jobs) as pool:
        wrongs = [wrong for wrong in pool.map(run, jobs) if wrong]
    if not options.keep:
        shutil.rmtree(base, ignore_errors=True)
    print(f"{len(mutants)} mutants, {len(wrongs)} complaints, {time.monotonic() - started:.0f} s")
    return int(bool(wrongs))


if __name__ == "__main__":
    sys.exit(main())
