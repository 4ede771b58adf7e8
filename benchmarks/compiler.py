"""The C references, compiled when they are first needed, with whatever compiler the machine has."""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_C = Path(__file__).parent / "c"
_FLAGS = ("-std=gnu11", "-fPIC", "-shared", f"-I{_C.parents[1] / 'native' / 'third_party'}")


class NoCompiler(Exception):
    """There is no C compiler, or it failed: nothing can be compared with C."""


@functools.cache
def library(*sources: str, flags: tuple[str, ...] = ("-O2",)) -> ctypes.CDLL:
    """The shared library made of those files of benchmarks/c. Functions return double unless the caller says otherwise.

    Raises
    ------
    NoCompiler
        With the reason.
    """
    command = _compiler()
    if not command:
        raise NoCompiler("no C compiler: install gcc, or set CC")
    # Once it is loaded the file may go.
    with tempfile.TemporaryDirectory() as made:
        target = os.path.join(made, "reference.so")
        files = [str(_C / name) for name in sources]
        try:
            done = subprocess.run([*command, *_FLAGS, *flags, *files, "-o", target], capture_output=True, text=True)
        except OSError as error:
            raise NoCompiler(f"{command[0]}: {error}") from None
        if done.returncode:
            raise NoCompiler(f"{command[0]} failed: {done.stderr.strip()[:500]}")
        return ctypes.CDLL(target)


def function(
    library: ctypes.CDLL, name: str, *parameters: type, returns: type | None = ctypes.c_double
) -> Callable[..., Any]:
    """A function of the library with its types set."""
    found = library[name]
    found.argtypes = parameters
    found.restype = returns
    return found


def version() -> str:
    """The first line of what the compiler says of itself."""
    command = _compiler()
    if not command:
        return "no C compiler"
    try:
        reported = subprocess.run([*command, "--version"], capture_output=True, text=True).stdout
    except OSError as error:
        return f"{command[0]}: {error}"
    return reported.splitlines()[0] if reported else "an unknown C compiler"


def _compiler() -> list[str]:
    """Return the value of CC, else cc or gcc; empty if there is none."""
    found = shutil.which("cc") or shutil.which("gcc")
    return shlex.split(os.environ.get("CC", "")) or ([found] if found else [])
