"""New references from the failures of a run.

A picture goes to the level whose reference it failed against. Where that would change the reference
of another picture of the run, which agreed or was approved before, it goes to the next more
specific level: the driver's, then the adapter's. The picture that most adapters draw comes first.
A picture that its level would inherit needs no file.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkshare.testing import failures, picture_files, references
from vkshare.testing.failures import Failure
from vkshare.testing.references import ANY, Use

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LEVELS = ("auto", "any", "driver", "adapter")


class ApprovalError(Exception):
    """A picture that cannot become a reference."""


@dataclass(frozen=True, slots=True)
class Approved:
    """A failure that was taken over."""

    failure: Failure
    path: Path
    is_inherited: bool  # its level inherits an equal picture: it has no file of its own


class Approval:
    """Takes failures over, the general ones first."""

    def __init__(self, results: Path, root: Path, level: str = "auto") -> None:
        self._results = results
        self._root = root.resolve()
        self._level = level
        self._uses = failures.uses(results)  # references that must not change

    def run(self, wanted: Sequence[Failure]) -> list[Approved]:
        """Take all of them over, and delete their files in the results folder.

        Raises
        ------
        ApprovalError
            Two pictures differ and would be the same reference, or a record names a file outside the root.
        """
        approved = []
        same = Counter(map(self._identity, wanted))
        order = {each: (bool(each.level), -same[self._identity(each)], each.test) for each in wanted}
        for failure in sorted(wanted, key=lambda each: order[each]):
            approved.append(self._take(failure))
            failures.remove(self._results, [failure])
        return approved

    def _identity(self, failure: Failure) -> tuple[str, str, bytes]:
        return failure.folder, failure.name, self._data(failure).read_bytes()

    def _data(self, failure: Failure) -> Path:
        return self._results / Path(failure.data).name

    def _take(self, failure: Failure) -> Approved:
        folder = self._inside(failure.folder)
        references.check_name(failure.name)
        pixels = picture_files.load(self._data(failure))
        for level in self._candidates(failure):
            if not self._is_free(failure, level, pixels):
                continue
            path = self._inside(references.path_of(folder, level, failure.name, self._data(failure).suffix))
            self._remove_others(folder, level, failure, path)
            below = references.find(folder, _inherited(failure.levels, level), failure.name) if level else None
            is_inherited = below is not None and _is_equal(below.path, pixels)
            if below is not None and is_inherited:
                path.unlink(missing_ok=True)
                path, level = below.path, below.level
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._data(failure), path)
            self._uses.add(Use(failure.folder, failure.name, failure.levels, level))
            return Approved(failure, path, is_inherited)
        raise ApprovalError(
            f"{failure.name} of {failure.test} differs from another picture for the same reference; "
            "give the pictures two names, or approve one with --for adapter"
        )

    def _is_free(self, failure: Failure, level: str, pixels: Array) -> bool:
        """Return whether a file in that level leaves the references of all other pictures as they are."""
        for use in self._uses:
            if (use.folder, use.name) == (failure.folder, failure.name) and use.is_changed_by(level):
                reference = references.find(self._inside(use.folder), use.levels, use.name)
                if reference is None or not _is_equal(reference.path, pixels):
                    return False
        return True

    def _candidates(self, failure: Failure) -> Iterator[str]:
        """The levels that may have the picture, in the order of trial."""
        general_first = [ANY, *reversed(failure.levels)]
        if self._level == "auto":
            start = failure.level if failure.level in general_first else ANY
            yield from general_first[general_first.index(start or ANY) :]
        elif self._level == "any" or not failure.levels:
            yield ANY
        elif self._level in ("adapter", "driver"):
            yield failure.levels[0 if self._level == "adapter" or len(failure.levels) == 1 else 1]
        elif self._level in failure.levels:
            yield self._level
        else:
            allowed = ", ".join((*LEVELS, *failure.levels))
            raise ApprovalError(f"{failure.name} of {failure.test} has no level {self._level!r}; allowed are {allowed}")

    def _remove_others(self, folder: Path, level: str, failure: Failure, path: Path) -> None:
        """Delete references that would hide the new one from this adapter: more specific ones, and other types."""
        hiding = failure.levels[: failure.levels.index(level)] if level else failure.levels
        for each in (*hiding, level):
            for suffix in picture_files.SUFFIXES:
                other = references.path_of(folder, each, failure.name, suffix)
                if other != path:
                    other.unlink(missing_ok=True)

    def _inside(self, path: str | Path) -> Path:
        """Return the path below the root; ApprovalError where it leads out of it."""
        found = (self._root / path).resolve()
        if not found.is_relative_to(self._root):
            raise ApprovalError(f"{path} is not in {self._root}: the results belong to another project")
        return found


def _inherited(levels: Sequence[str], level: str) -> Sequence[str]:
    """The levels from which a level inherits."""
    return levels[levels.index(level) + 1 :]


def _is_equal(path: Path, pixels: Array) -> bool:
    import numpy as np

    if not path.is_file():
        return False
    other = picture_files.load(path)
    return other.dtype == pixels.dtype and bool(np.array_equal(other, pixels, equal_nan=pixels.dtype.kind == "f"))
