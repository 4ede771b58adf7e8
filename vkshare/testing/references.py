"""Reference pictures as files: NAME.png for all adapters, LEVEL/NAME.png for one driver or one adapter.

A level is a folder beside the pictures for all: "lavapipe", "lavapipe25" or the name of an adapter
(drivers.levels()). A level without a file of its own inherits the next one's, and at last the
picture for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vkshare.testing.picture_files import SUFFIXES

ANY = ""  # the level that all adapters inherit


@dataclass(frozen=True, slots=True)
class Reference:
    """A file, and the level in whose folder it is."""

    path: Path
    level: str


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """A picture that agrees with a reference: the references' folder, the adapter's levels, and the reference's."""

    folder: str  # relative to the project's root
    name: str
    levels: tuple[str, ...]
    level: str

    def is_changed_by(self, level: str) -> bool:
        """Return whether a file in that level would replace the reference, or come before it."""
        every = (*self.levels, ANY)
        return level in every and every.index(level) <= every.index(self.level)


def check_name(name: str) -> str:
    """Return the name of a picture; ValueError where it cannot be a file in the folder of each level."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"name is {name!r}; allowed are letters, digits, '_', '-' and '.', and no '.' or '-' at first")
    return name


def path_of(folder: Path, level: str, name: str, suffix: str) -> Path:
    """Return the file of a level."""
    return folder / level / f"{name}{suffix}"


def find(folder: Path, levels: Sequence[str], name: str) -> Reference | None:
    """Return the reference that the first of the levels has, else the one for all, else None."""
    for level in (*levels, ANY):
        for suffix in SUFFIXES:
            path = path_of(folder, level, name, suffix)
            if path.is_file():
                return Reference(path, level)
    return None
