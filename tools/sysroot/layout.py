"""The folder .cache/sysroot: making it once, and the environment that selects a driver of it.

Two stages, each with a stamp. *Unpacking* depends on the recipe alone. *Linking* depends on where
the folder lies and on what the system has: the ICD and layer manifests get absolute library paths,
and `lacking/` gets a link for each library that the system lacks.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import debian
import recipe


def default_root() -> Path:
    """VKSHARE_SYSROOT (copies of the tree share one), else .cache/sysroot of this checkout."""
    given = os.environ.get("VKSHARE_SYSROOT")
    return Path(given).resolve() if given else Path(__file__).resolve().parents[2] / ".cache" / "sysroot"


class Sysroot:
    """A sysroot at one place. `ensure` may run in several processes at once; everything else needs it to have run."""

    def __init__(self, root: Path, say: Callable[[str], None] = print):
        self.root = root
        self._say = say

    def ensure(self) -> None:
        """Unpack what is missing and link it; returns at once when nothing changed."""
        if self._is_current():
            return
        self.root.mkdir(parents=True, exist_ok=True)
        with self._locked():
            if self._read("unpacked") != self._recipe_key():
                self._unpack(recipe.PARTS)
                self._stamp("unpacked", self._recipe_key())
            if self._read("linked") != self._link_key():
                self._link()

    def environment(self, driver: str) -> dict[str, str]:
        """Return the environment with which a process finds `driver` and no other, and the OpenGL of the same build.

        "cpu" sees no Vulkan driver at all, "gpu" the system's own drivers.
        """
        variables = {
            "VK_LAYER_PATH": str(self.root / "validation"),
            "VK_LOADER_LAYERS_DISABLE": "~implicit~",  # the desktop's overlays are not under test
        }
        libraries = [self.root / "lacking"] if any((self.root / "lacking").iterdir()) else []
        if driver != "gpu":
            manifest = self.root / driver / "icd.json" if driver in recipe.DRIVERS else self.root / "no-driver.json"
            opengl = self.root / recipe.OPENGL.get(driver, "opengl25")
            variables["VK_DRIVER_FILES"] = str(manifest)
            variables["__EGL_VENDOR_LIBRARY_FILENAMES"] = str(opengl / "egl.json")
            variables["__GLX_VENDOR_LIBRARY_NAME"] = "mesa"
            if (opengl / "swrast_dri.so").exists():  # later versions have no such files, and X servers want theirs
                variables["LIBGL_DRIVERS_PATH"] = str(opengl)
            libraries.insert(0, opengl)
        if libraries:
            ours = [str(path) for path in libraries]
            inherited = os.environ.get("LD_LIBRARY_PATH", "").split(":")
            kept = [path for path in inherited if path and not Path(path).is_relative_to(self.root)]
            variables["LD_LIBRARY_PATH"] = ":".join([*ours, *kept])
        return variables

    def emulator(self) -> Path:
        """The absolute path of qemu for programs of aarch64; unpacks it where it is missing."""
        with self._locked():
            if self._read("emulator") != repr(recipe.EMULATOR):
                self._unpack(recipe.EMULATOR)
                self._stamp("emulator", repr(recipe.EMULATOR))
        return self.root / "emulator" / "qemu-aarch64-static"

    def tool(self, name: str) -> Path:
        """The absolute path of an unpacked tool, e.g. glslangValidator or spin."""
        path = self.root / "tools" / name
        if not path.is_file():
            have = ", ".join(sorted(p.name for p in (self.root / "tools").iterdir()))
            raise debian.SysrootError(f"the sysroot has no tool {name!r}; it has {have}")
        return path

    # --- the two stages

    def _unpack(self, parts: dict[str, tuple[recipe.Package, ...]]) -> None:
        apt = debian.Apt(self.root / "apt")
        self._say(f"sysroot: package lists of Debian 12 from {apt.mirror}")
        apt.update()
        debs = self.root / "debs"
        record = self.root / "packages.json"
        versions: dict[str, list[str]] = json.loads(record.read_text()) if record.exists() else {}
        for part, packages in parts.items():
            self._say(f"sysroot: {part} ({len(packages)} package{'s' * (len(packages) > 1)})")
            fresh = self.root / f"{part}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            files = apt.download(packages, debs / part)
            for package in packages:
                debian.unpack(files[package.name], package.members, fresh)
            versions[part] = sorted(path.name for path in files.values())
            shutil.rmtree(self.root / part, ignore_errors=True)
            fresh.rename(self.root / part)
        shutil.rmtree(debs)
        shutil.rmtree(self.root / "apt")
        record.write_text(json.dumps(versions, indent=1))

    def _link(self) -> None:
        for driver in recipe.DRIVERS:
            source = next(path for path in (self.root / driver).glob("*icd*.json") if path.name != "icd.json")
            library = next((self.root / driver).glob("*.so"))
            self._write_manifest(source, self.root / driver / "icd.json", "ICD", library)
        for part in ("opengl25", "opengl22"):
            folder = self.root / part
            self._write_manifest(folder / "50_mesa.json", folder / "egl.json", "ICD", folder / "libEGL_mesa.so.0")
        layers = self.root / "validation"
        for source in (self.root / "validation").glob("*.json"):
            library = layers / Path(json.loads(source.read_text())["layer"]["library_path"]).name
            self._write_manifest(source, source, "layer", library)
        self._link_lacking()
        self._stamp("linked", self._link_key())

    def _link_lacking(self) -> None:
        """Programs that run meanwhile find each library that they had: no link is away for a moment."""
        lacking = self.root / "lacking"
        lacking.mkdir(exist_ok=True)
        present, wanted = _system_sonames(), set()
        for part in ("loader", "libraries"):
            for path in sorted((self.root / part).iterdir()):
                if re.fullmatch(r"lib.+\.so\.\d+", path.name) and path.name not in present:
                    wanted.add(path.name)
                    temporary = lacking / f".{path.name}.tmp"
                    temporary.unlink(missing_ok=True)
                    temporary.symlink_to(path)
                    temporary.replace(lacking / path.name)
        for path in lacking.iterdir():
            if path.name not in wanted:
                path.unlink()

    @staticmethod
    def _write_manifest(source: Path, target: Path, section: str, library: Path) -> None:
        manifest = json.loads(source.read_text())
        manifest[section]["library_path"] = str(library)
        temporary = target.with_suffix(".tmp")
        temporary.write_text(json.dumps(manifest, indent=1))
        temporary.replace(target)

    # --- stamps and the lock

    def _recipe_key(self) -> str:
        return hashlib.sha256(repr(recipe.PARTS).encode()).hexdigest()

    def _link_key(self) -> str:
        cache = Path("/etc/ld.so.cache")
        return f"{self._recipe_key()} {self.root} {cache.stat().st_mtime_ns if cache.exists() else 0}"

    def _is_current(self) -> bool:
        return self._read("unpacked") == self._recipe_key() and self._read("linked") == self._link_key()

    def _read(self, stamp: str) -> str:
        path = self.root / f".{stamp}"
        return path.read_text() if path.is_file() else ""

    def _stamp(self, stamp: str, key: str) -> None:
        temporary = self.root / f".{stamp}.tmp"
        temporary.write_text(key)
        temporary.replace(self.root / f".{stamp}")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _system_sonames() -> set[str]:
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"  # /sbin is not on an ordinary user's PATH
    listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listing.splitlines() if "=>" in line and "x86-64" in line}
