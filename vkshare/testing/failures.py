"""The pictures that did not pass, as files of a results folder: one record and up to four pictures for each.

Workers of one run write into the same folder at the same time: the names of files have the test in
them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkshare.testing import picture_files
from vkshare.testing.judging import Judgement
from vkshare.testing.references import Reference, Use

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

RECORDS = "*.failure.json"
PAGE = "index.html"
RUN = "run.json"


@dataclass(frozen=True, slots=True)
class Failure:
    """A picture that differs from its reference, or has none. Files are named relative to the results folder."""

    run: str
    test: str  # pytest's node id
    name: str
    folder: str  # of the references, relative to the project's root
    levels: tuple[str, ...]
    level: str | None  # of the reference; None: there is none
    text: str
    data: str  # the picture without loss: what approve() takes over
    actual: str  # PNGs for people
    expected: str | None
    difference: str | None

    @property
    def stem(self) -> str:
        """The beginning of its files' names."""
        return stem_of(self.name, self.test)

    @property
    def files(self) -> set[str]:
        """Every file that it has in the results folder."""
        pictures = (self.data, self.actual, self.expected, self.difference)
        return {f"{self.stem}.failure.json", *(name for name in pictures if name)}


def stem_of(name: str, test: str) -> str:
    """Return a file name for the picture of a test, without a suffix."""
    return f"{name}-{hashlib.sha256(test.encode()).hexdigest()[:10]}"


def write(
    results: Path,
    *,
    run: str,
    test: str,
    name: str,
    folder: str,
    levels: tuple[str, ...],
    pixels: Array,
    reference: Reference | None,
    judgement: Judgement,
) -> Failure:
    """Write the record and the pictures of a failure.

    Parameters
    ----------
    results
        The folder.
    run, test, name, folder, levels
        As a Failure has them.
    pixels
        The picture.
    reference, judgement
        What it was compared with, and the result.

    Returns
    -------
    Failure
        The record.
    """
    stem = stem_of(name, test)
    pictures: dict[str, Array | None] = {"actual": pixels, "expected": None, "difference": None}
    if reference is not None:
        pictures["expected"] = picture_files.load(reference.path)
    if reference is not None and judgement.sizes is not None:
        pictures["difference"] = picture_files.heat_map(judgement.sizes)
    for what, picture in pictures.items():
        if picture is not None:
            picture_files.save(results / f"{stem}-{what}.png", picture)
    data = f"{stem}-actual{picture_files.suffix_of(pixels)}"
    if data.endswith(".npy"):
        picture_files.save(results / data, pixels)
    shown = {what: f"{stem}-{what}.png" if picture is not None else None for what, picture in pictures.items()}
    level = None if reference is None else reference.level
    failure = Failure(run, test, name, folder, levels, level, judgement.text, data, **shown)  # type: ignore[arg-type]
    (results / f"{stem}.failure.json").write_text(json.dumps(asdict(failure), indent=1))
    return failure


def read(results: Path) -> list[Failure]:
    """Return all records of a results folder, by the name of the picture and the test."""
    found = [json.loads(path.read_text()) for path in results.glob(RECORDS)]
    failures = [Failure(**{**record, "levels": tuple(record["levels"])}) for record in found]
    return sorted(failures, key=lambda each: (each.folder, each.name, each.test))


def remove(results: Path, failures: list[Failure]) -> None:
    """Delete the files of failures."""
    for name in {name for failure in failures for name in failure.files}:
        (results / name).unlink(missing_ok=True)


def uses(results: Path) -> set[Use]:
    """Return the references that pictures of the last run agreed with."""
    path = results / RUN
    found = json.loads(path.read_text())["uses"] if path.is_file() else []
    return {Use(**{**use, "levels": tuple(use["levels"])}) for use in found}


def finish_run(results: Path, run: str, agreed: set[Use]) -> list[Failure]:
    """Delete the failures of other runs, and note the references that are in use; returns the failures of this run."""
    stale = [each for each in read(results) if each.run != run]
    remove(results, stale)
    if results.is_dir():
        (results / RUN).write_text(json.dumps({"run": run, "uses": [asdict(use) for use in sorted(agreed)]}))
    return read(results)
