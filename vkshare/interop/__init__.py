"""Other APIs' views of a surface. Each module needs its API's package or library only when it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_MODULES = ("gl",)

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'vkshare.interop' has no attribute {name!r}")
    return importlib.import_module(f"vkshare.interop.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


if TYPE_CHECKING:
    from vkshare.interop import gl as gl
