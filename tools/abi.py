#!/usr/bin/env python3
"""Compare the binary interface of the C library with its record, native/vkshare.abi, or write the record.

    python tools/abi.py            the differences; exit status 1 if there are any
    python tools/abi.py --write    the interface of the built library becomes the record

The interface is what the public headers declare: functions, structures, enumerators. libabigail
reads it from the debug information of libvkshare.so. A change that old programs would not survive
needs a new VKSHARE_SOVERSION.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "native" / "vkshare.abi"
SYSROOT = ROOT / "tools" / "sysroot"


def public_functions() -> list[str]:
    """The symbols of the public version node."""
    node = re.search(r"VKSHARE_@VKSHARE_SOVERSION@ {(.*?)}", (ROOT / "native" / "vkshare.map.in").read_text(), re.S)
    assert node is not None
    return re.findall(r"^ +(vks_\w+);", node[1], re.M)


def library() -> Path:
    """The library that `make build` made, with its debug information."""
    found = sorted(ROOT.glob("build/RelWithDebInfo-*/lib/libvkshare.so.?"))
    if not found:
        raise SystemExit("abi: there is no libvkshare.so: run make build first")
    return found[0]


def run(name: str, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run abidw or abidiff on the public functions, with the public headers alone in `folder`."""
    asked = [sys.executable, str(SYSROOT), "--tool", name]
    tool = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    libraries = Path(tool).parents[1] / "lacking"
    functions = folder / "functions"
    functions.write_text("[abi_whitelist]\n" + "".join(f"  {function}\n" for function in public_functions()))
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
    command = [tool, "--kmi-whitelist", functions, *arguments]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment)


def headers(native: Path, folder: Path) -> Path:
    """A folder with the public headers, so that every other type is private."""
    found = folder / "headers"
    found.mkdir()
    for path in native.glob("vkshare*.h"):
        shutil.copy(path, found)
    return found


def write(target: Path, of: Path, native: Path = ROOT / "native") -> None:
    """Write the record of a library."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = ("--drop-private-types", "--no-show-locs", "--no-comp-dir-path", "--no-corpus-path")
        done = run("abidw", folder, "--headers-dir", headers(native, folder), *options, "--out-file", target, of)
    if done.returncode:
        raise SystemExit(f"abi: abidw failed: {done.stderr}")
    # The paths are those of one checkout, and mean nothing for the interface.
    target.write_text(re.sub(rf"path='{re.escape(str(ROOT))}/", "path='", target.read_text()))


def differences(record: Path, of: Path, native: Path = ROOT / "native") -> str:
    """The report of abidiff on a library against the record; empty: nothing changed.

    Records are compared, because abidiff holds each type of a record to be private once it is given
    headers.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "new", of, native)
        done = run("abidiff", folder, record, folder / "new")
    return done.stdout + done.stderr if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write native/vkshare.abi")
    if parser.parse_args().write:
        write(RECORD, library())
        return 0
    found = differences(RECORD, library())
    print(found or "abi: as recorded")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
