"""The packages of engines, which are loaded when a helper is called, and never with vkshare."""

from __future__ import annotations

import importlib
from typing import Any

from vkshare.errors import UnsupportedError


def load(engine: str, *modules: str) -> Any:
    """Import the modules of an engine and return the last one.

    Raises
    ------
    UnsupportedError
        One cannot be imported; the text has the reason and names the extra.
    """
    try:
        return [importlib.import_module(module) for module in modules][-1]
    except ImportError as error:
        raise UnsupportedError(
            f"vkshare.engines.{engine}",
            f"{modules[0]} cannot be imported ({error})",
            "pip install 'vkshare[engines]'",
        ) from None
