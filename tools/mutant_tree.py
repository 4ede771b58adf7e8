"""A copy of the tree that mutants are applied to, built and tested in, one after the other.

The build is kept warm: a mutant compiles what it touches and no more. Two things keep a stale
binary from hiding one: whatever is broken or put back gets a newer time than every output, and a
mutant of C code whose binaries are those of the unbroken tree, debug information apart, is refused.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import sources
from results import ROOT
from run_tests import run_command
from test_jobs import driver_environment, pytest_environment, venv_path

if TYPE_CHECKING:
    from mutants import Mutant

LIMIT = 180  # seconds for a test run; a mutant that hangs has been noticed
BUILD_LIMIT = 900
BUILDS = {
    "pytest": ["-DVKSHARE_KILL_POINTS=ON", f"-DPython_EXECUTABLE={sys.executable}"],
    "ctest": ["-DVKSHARE_KILL_POINTS=ON", "-DVKSHARE_PYTHON=OFF", "-DVKSHARE_TESTS=ON"],
}


def snapshot(folder: Path) -> Path:
    """Copy what builds and tests need of the tree, as it is now: others may work on it."""
    for name in sources.tree():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy)
    # Bytecode that goes by what a source says, not by when it was written: a change within the same
    # second counts too.
    compile_all = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "vkshare"]
    subprocess.run(compile_all, cwd=folder, check=True)
    return folder


class Tree:
    """One worker's copy. Not thread-safe."""

    def __init__(self, original: Path, folder: Path):
        self._original = original
        self.folder = folder
        shutil.copytree(original, folder)
        self.log = folder / "log"
        self._python = folder / "venv" / "bin" / "python"
        self._unbroken: dict[str, str] = {}  # build -> digest of its binaries
        self._touched: set[str] = set()  # files that a mutant changed
        self._environment = venv_path() | {
            "VKSHARE_SYSROOT": os.environ.get("VKSHARE_SYSROOT", str(ROOT / ".cache" / "sysroot")),
            "COLUMNS": "300",  # or pytest cuts off what a test said
            "VKSHARE_VALIDATION": "1",
        }

    def run(self, command: list[str], environment: dict[str, str] | None = None, limit: int = LIMIT) -> tuple[int, str]:
        """Run a command in the tree, its output to the log too. Return its status, 124 past the limit, and output."""
        start = self.log.stat().st_size if self.log.exists() else 0
        status = run_command(command, self._environment | (environment or {}), self.log, limit, self.folder)
        return status, self.log.read_bytes()[start:].decode(errors="replace").partition("\n")[2]

    # ---- breaking and mending

    def apply(self, mutant: Mutant) -> str:
        """Break the tree; return what is wrong with that, or ""."""
        try:
            texts = mutant.apply(self.folder)
        except (OSError, ValueError) as error:
            return f"does not fit: {error}"
        self._touched |= set(texts)
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        self._make_newer(set(texts))
        return ""

    def mend(self) -> None:
        """Put back what was changed, and the unbroken binaries."""
        for name in self._touched:
            shutil.copyfile(self._original / name, self.folder / name)
        self._make_newer(self._touched)
        self._touched = set()
        if "pytest" in self._unbroken:
            for binary in self._built():
                self._install(self.folder / f"unbroken-{binary.name}", binary)

    def _make_newer(self, files: set[str]) -> None:
        time.sleep(0.02)  # more than the grain of a file's time
        for name in files:
            os.utime(self.folder / name)

    # ---- building

    def prepare(self, suite: str) -> bool:
        """Build what a suite needs of the tree, which is unbroken now; nothing where that is done. False: it failed."""
        if suite in self._unbroken or suite not in BUILDS:
            return True
        if self.run(["cmake", "-G", "Ninja", "-S", ".", "-B", f"build-{suite}", *BUILDS[suite]])[0]:
            return False
        if not self._compile(suite):
            return False
        self._unbroken[suite] = self._digest(suite)
        if suite == "ctest":
            return True
        for binary in self._built():
            shutil.copyfile(binary, self.folder / f"unbroken-{binary.name}")
        return self.run(["cmake", "--install", "build-pytest", "--prefix", "."])[0] == 0 and self._make_venv()

    def build(self, suite: str) -> str:
        """Build the broken tree; return what is wrong with that, or ""."""
        if suite not in BUILDS:
            return ""
        is_read = all(
            name.startswith(("vkshare/", "tests/")) and name.endswith((".py", ".js")) for name in self._touched
        )
        if suite == "pytest" and is_read:  # no build has a part in these
            return ""
        if not self._compile(suite):
            return "does not build"
        if self._digest(suite) == self._unbroken[suite]:
            return "changes no binary"
        if suite == "pytest":
            for binary in self._built():
                self._install(binary, binary)
        return ""

    def _compile(self, suite: str) -> bool:
        return self.run(["cmake", "--build", f"build-{suite}", "-j1"], limit=BUILD_LIMIT)[0] == 0

    def is_unbroken(self) -> bool:
        """Whether what is built from the mended tree is again what it was at first."""
        return all(self._compile(suite) and self._digest(suite) == was for suite, was in self._unbroken.items())

    def _built(self) -> list[Path]:
        """The library, the extensions that use it and the Vulkan layer, as the build has them."""
        folder = self.folder / "build-pytest"
        return sorted([*folder.glob("lib/libvkshare.so.?"), *folder.glob("_*.so"), *folder.glob("layers/*.so")])

    def _install(self, binary: Path, built: Path) -> None:
        """Put a file where the installation has the built one, which has the same place below its folder."""
        target = self.folder / "vkshare" / built.relative_to(self.folder / "build-pytest")
        target.unlink(missing_ok=True)  # a process may have it mapped still
        shutil.copyfile(binary, target)

    def _digest(self, suite: str) -> str:
        """The binaries without debug information, which changes with every line that moves."""
        folder = self.folder / f"build-{suite}"
        binaries = self._built() if suite == "pytest" else sorted(folder.glob("test_*"))
        digest = hashlib.sha256()
        with tempfile.NamedTemporaryFile() as bare:
            for binary in (path for path in binaries if path.is_file()):
                options = ["--strip-all", "--remove-section=.note.gnu.build-id"]
                subprocess.run(["objcopy", *options, str(binary), bare.name], check=True)
                digest.update(Path(bare.name).read_bytes())
        return digest.hexdigest()

    def _make_venv(self) -> bool:
        # Ours cannot be used as it is: its editable install would import the tree that is not
        # broken. A .pth file adds folders but does not process the .pth files in them.
        if self.run([sys.executable, "-m", "venv", "--without-pip", str(self._python.parent.parent)])[0]:
            return False
        (site,) = self._python.parent.parent.glob("lib/python*/site-packages")
        (site / "vkshare-mutant.pth").write_text(f"{self.folder}\n{sysconfig.get_path('purelib')}\n")
        return True

    # ---- testing

    def pytest(self, driver: str, arguments: list[str]) -> tuple[int, str]:
        """Run pytest on a driver."""
        environment = (driver_environment(driver) or {}) | pytest_environment(driver) | {"VKSHARE_FULL": "1"}
        # Verbose names the test that was running when all ended; the thread ends one that hears no
        # signals.
        options = ["-v", "--tb=short", "-p", "no:cacheprovider", "--timeout=40", "--timeout-method=thread"]
        return self.run([str(self._python), "-m", "pytest", *options, *arguments], environment)

    def ctest(self, names: str) -> tuple[int, str]:
        """Run the C tests whose names match a regular expression, all where it is empty."""
        command = ["ctest", "--test-dir", "build-ctest", "--no-tests=error", "--output-on-failure"]
        return self.run([*command, *(["-R", names] if names else [])], driver_environment("lavapipe25"))

    def model(self, spin: Path) -> tuple[int, str]:
        """Check the protocol's model."""
        environment = {"PATH": f"{spin.parent}:{self._environment['PATH']}"}
        return self.run([sys.executable, "tests/model/run.py", "--quick"], environment)
