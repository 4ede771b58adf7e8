"""Other APIs' views of a surface, one module an API. Each loads on first use, and nothing of it with vkshare itself."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("cuda", "gl", "host")

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        path = f"{__name__}.{name}"
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
