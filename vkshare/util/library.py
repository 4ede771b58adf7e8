"""The C library that the package carries, for programs in C and C++ (docs/c-api.md)."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def get_include() -> str:
    """Return the folder of the headers, from `vkshare.h` to `vkshare.hpp`.

    A compiler takes it with ``-I``; `vkshare --cflags` prints that option.

    Returns
    -------
    str
        The absolute path, in the installed package.

    Raises
    ------
    ImportError
        The package was imported from a folder without its C core.
    """
    return str(_installed("include"))


def cmake_dir() -> str:
    """Return the folder of vkshareConfig.cmake, for -Dvkshare_DIR or vkshare_ROOT."""
    return str(_installed("lib/cmake/vkshare"))


def compile_options() -> list[str]:
    """Return the options with which a C or C++ compiler finds the headers."""
    return [f"-I{get_include()}"]


def link_options() -> list[str]:
    """Return the options that link a program to the library of this package, and let it find that when it runs."""
    folder = _installed("lib")
    (library,) = folder.glob("libvkshare.so.?")
    return [f"-L{folder}", f"-l:{library.name}", f"-Wl,-rpath,{folder}"]


def _installed(name: str) -> Path:
    # An editable install has the Python files elsewhere; what is compiled, and what belongs to it,
    # lies together.
    spec = importlib.util.find_spec("vkshare._native")
    if spec is None or spec.origin is None:
        from vkshare.util import unbuilt

        raise unbuilt.error()
    return Path(spec.origin).resolve().parent / name
