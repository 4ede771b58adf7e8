"""SPIR-V as the package carries it: shaders/*.spv, compiled by tools/shaders.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2]
_FOLDERS = (_PACKAGE / "shaders", _PACKAGE.parent / "shaders")  # installed; the source tree


@cache
def spirv(name: str) -> bytes:
    """The SPIR-V of shaders/`name`, e.g. ``"composite.frag"``. FileNotFoundError names where it was looked for."""
    for folder in _FOLDERS:
        path = folder / f"{name}.spv"
        if path.is_file():
            return path.read_bytes()
    raise FileNotFoundError(f"{name}.spv is in none of {', '.join(map(str, _FOLDERS))}: the installation is incomplete")
