"""Signed Debian 12 packages for an ordinary user: apt with private state, and dpkg-deb to read what it fetched.

Nothing of the system's package state is read or changed. apt checks every signature against the
keys in keys/. The mirror is the one that the system's own apt uses where that is a Debian mirror,
else VKSHARE_DEBIAN_MIRROR names it.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from recipe import MACHINE, Package

KEYS = Path(__file__).resolve().parent / "keys"
ARCHITECTURES = {"x86_64": "amd64"}


class SysrootError(Exception):
    """The sysroot cannot be made; the text says what to do."""


def find_mirrors(root: Path = Path("/")) -> tuple[str, str]:
    """Return the URIs of Debian's main archive and of its security archive, as the system below `root` knows them.

    Raises SysrootError where it knows none and VKSHARE_DEBIAN_MIRROR is not set.
    """
    given = os.environ.get("VKSHARE_DEBIAN_MIRROR", "")
    etc = root / "etc/apt"
    files = [
        etc / "sources.list",
        *sorted(etc.glob("sources.list.d/*.list")),
        *sorted(etc.glob("sources.list.d/*.sources")),
    ]
    # Ubuntu's package of the distributions that its settings program can offer.
    files.append(root / "usr/share/python-apt/templates/Debian.info")
    text = "\n".join(path.read_text(errors="replace") for path in files if path.is_file())
    active = "\n".join(line.partition("#")[0] for line in text.splitlines())
    uris = [given] if given else re.findall(r"\b(?:https?|file|mirror\+file):/[^\s\]]+", active)
    uris = [uri.rstrip("/") for uri in uris]
    # Cloud images name their mirrors in a list file: mirror+file:/etc/apt/mirrors/debian.list
    main = given.rstrip("/") or next((uri for uri in uris if re.search(r"/debian(\.list)?$", uri)), "")
    security = next((uri for uri in uris if re.search(r"/debian-security(\.list)?$", uri)), "")
    if not main:
        raise SysrootError(
            "apt's sources on this system name no Debian mirror (it is Ubuntu, probably). Set VKSHARE_DEBIAN_MIRROR to "
            "the address of one (it ends in /debian) or install python-apt-common, which names one"
        )
    return main, security or re.sub(r"/debian(\.list)?$", r"/debian-security\1", main)


class Apt:
    """An apt whose whole state lies in one folder."""

    def __init__(self, root: Path):
        for tool, package in (("apt-get", "apt"), ("dpkg-deb", "dpkg")):
            if not shutil.which(tool):
                raise SysrootError(f"{tool} is not here (package {package}): the sysroot is made from Debian packages")
        if os.uname().machine != MACHINE:
            raise SysrootError(f"this machine is {os.uname().machine}; the sysroot is described for {MACHINE} only")
        self.root = root
        architecture = ARCHITECTURES[MACHINE]
        for folder in ("lists/partial", "cache/archives/partial", "preferences.d"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        main, security = find_mirrors()
        stanza = "Types: deb\nURIs: {}\nSuites: {}\nComponents: main\nArchitectures: " + architecture + "\n\n"
        sources = stanza.format(main, "bookworm bookworm-backports") + stanza.format(security, "bookworm-security")
        (root / "debian.sources").write_text(sources)
        self.mirror = main
        self._options = {
            "Dir::State": root,
            "Dir::State::lists": root / "lists",
            "Dir::State::status": root / "status",
            "Dir::Cache": root / "cache",
            "Dir::Etc::sourcelist": root / "debian.sources",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": root / "preferences.d",
            "Dir::Etc::trusted": "/dev/null",
            "Dir::Etc::trustedparts": KEYS,
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",  # private folders are closed to the user _apt
            "APT::Update::Error-Mode": "any",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Acquire::AllowInsecureRepositories": "false",
        }

    def update(self) -> None:
        """Fetch the signed package lists (some 10 MB)."""
        self._run("update")

    def download(self, packages: Iterable[Package], folder: Path) -> dict[str, Path]:
        """Fetch packages into `folder`, emptied first; return each one's file by its name."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wanted = [package.name + (f"/{package.suite}" if package.suite else "") for package in packages]
        self._run("download", *wanted, cwd=folder)
        return {path.name.partition("_")[0]: path for path in folder.glob("*.deb")}

    def _run(self, *arguments: str, cwd: Path | None = None) -> None:
        options = [word for key, value in self._options.items() for word in ("-o", f"{key}={value}")]
        command = ["apt-get", "-q", *options, *arguments]
        done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise SysrootError(f"apt-get {' '.join(arguments)} failed ({self.mirror}):\n{done.stderr.strip()}")


def unpack(deb: Path, patterns: tuple[str, ...], folder: Path) -> None:
    """Write those files and links of a package that match a pattern into `folder`, flat."""
    folder.mkdir(parents=True, exist_ok=True)
    found = 0
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        for member in archive:
            if any(fnmatch.fnmatch(member.name, pattern) for pattern in patterns):
                found += _write_member(archive, member, folder / Path(member.name).name)
    if process.returncode:
        raise SysrootError(f"dpkg-deb could not read {deb.name}")
    if not found:
        raise SysrootError(f"{deb.name} has no file like {', '.join(patterns)}: mend tools/sysroot/recipe.py")


def _write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> bool:
    target.unlink(missing_ok=True)
    if member.issym() or member.islnk():
        target.symlink_to(Path(member.linkname).name)
        return True
    source = archive.extractfile(member)
    if source is None:  # a folder, a device
        return False
    with target.open("wb") as out:
        shutil.copyfileobj(source, out)
    target.chmod(member.mode & 0o755)
    return True
