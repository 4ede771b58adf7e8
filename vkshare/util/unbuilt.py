"""The error of a package without its C core: often a checkout that hides the installed package."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType


def load() -> ModuleType:
    """Load the C core. ImportError says why it is missing, which "cannot import name" does not."""
    try:
        return importlib.import_module("vkshare._native")
    except ModuleNotFoundError as missing:
        if missing.name != "vkshare._native":
            raise
        raise error() from None


def error() -> ImportError:
    """Return the error, which names the folder that was imported, the one that it hides and the ways out."""
    folder = Path(__file__).resolve().parents[1]
    text = f"vkshare was imported from {folder}, which holds its Python files but not its C core (vkshare/_native). "
    if installed := _installed_elsewhere(folder):
        text += (
            f"It hides the installed package in {installed}. To import that one, start Python in another folder, or "
            f"with -P (PYTHONSAFEPATH=1). To use these files"
        )
    else:
        text += "To use these files"
    text += ", build the core: `make build`, or `pip install --editable .`"
    return ImportError(text, name="vkshare._native", path=str(folder))


def _installed_elsewhere(folder: Path) -> Path | None:
    for entry in sys.path:
        other = Path(entry or ".").resolve() / "vkshare"
        if other != folder and any((other / f"_native{suffix}").is_file() for suffix in EXTENSION_SUFFIXES):
            return other
    return None
