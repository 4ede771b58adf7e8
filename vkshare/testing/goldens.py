"""The run's goldens: pictures judged against their references, and the results that `vkshare approve` reads."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkshare.testing import drivers, failure_page, failures, picture_files, references
from vkshare.testing.approval import Approval, Approved
from vkshare.testing.failures import Failure
from vkshare.testing.judging import Judgement, Way
from vkshare.testing.references import Use

if TYPE_CHECKING:
    from vkshare import Adapter


class GoldenRun:
    """The part of a run that one pytest process has. Under xdist the workers judge, and the controller finishes.

    Parameters
    ----------
    root
        The project's root folder.
    results
        The folder of the failures.
    run
        The run's id, which the controller gives its workers; None: a new one.
    updates
        Whether pictures that differ become the references at the end of the run.
    """

    def __init__(self, root: Path, results: Path, *, run: str | None = None, updates: bool = False) -> None:
        self.root = root
        self.results = results
        self.run = run or uuid.uuid4().hex
        self.updates = updates
        self.judged = 0
        self.agreed: set[Use] = set()

    def output(self) -> dict[str, Any]:
        """Return what a worker reports to the controller."""
        return {"judged": self.judged, "agreed": [asdict(use) for use in sorted(self.agreed)]}

    def join(self, output: dict[str, Any]) -> None:
        """Take a worker's report."""
        self.judged += output["judged"]
        self.agreed |= {Use(**{**use, "levels": tuple(use["levels"])}) for use in output["agreed"]}

    def finish(self) -> tuple[list[Failure], list[Approved]]:
        """Write the page of the run's failures, or take them over in a run that updates.

        Returns
        -------
        tuple
            The failures that remain, and what became a reference.
        """
        if not self.judged:  # a run without goldens leaves the results of the last one
            return [], []
        found = failures.finish_run(self.results, self.run, self.agreed)
        approved: list[Approved] = []
        if self.updates and found:
            approved = Approval(self.results, self.root).run(found)
            found = []
        failure_page.update(self.results, found)
        return found, approved


class Golden:
    """The fixture ``vks_golden`` of one test.

    Parameters
    ----------
    run
        The run.
    test
        pytest's node id.
    folder
        The folder of the references.
    adapter
        The adapter that the test runs on, for arrays; None: its arrays have only references for all.
    """

    def __init__(self, run: GoldenRun, test: str, folder: Path, adapter: Adapter | None) -> None:
        self._run = run
        self._test = test
        self._folder = folder
        self._adapter = adapter
        self._names: set[str] = set()

    def __call__(
        self,
        picture: Any,
        name: str,
        *,
        tolerance: float | None = None,
        differing: float = 0.0,
        ssim: float | None = None,
        flip: float | None = None,
    ) -> None:
        """Fails unless the picture agrees with its reference: exactly, or as one of the other arguments says.

        Parameters
        ----------
        picture
            A Surface that this party owns, a View, or an array of shape (H, W, C) or (H, W).
        name
            The file name of the reference, without a suffix; each name once in a test.
        tolerance
            How far a channel may be off, in the array's own unit: 2 means 2/255 for uint8.
        differing
            Fraction of the pixels that may be off by more than the tolerance.
        ssim
            The least structural similarity, 0 to 1 (extra "ssim").
        flip
            The largest mean FLIP error, 0 to 1 (extra "flip").

        Raises
        ------
        AssertionError
            The picture differs, or it has no reference. The results folder has the pictures.
        ValueError
            A wrong name, or two ways to judge.
        UnsupportedError
            A library that an argument needs is not installed.
        """
        __tracebackhide__ = True
        way = Way(tolerance, differing, ssim, flip)
        if references.check_name(name) in self._names:
            raise ValueError(f"name is {name!r} a second time in this test; each picture has a name of its own")
        self._names.add(name)
        pixels, adapter = picture_files.pixels_of(picture)
        adapter = adapter or self._adapter
        levels = drivers.levels(adapter) if adapter is not None else ()
        reference = references.find(self._folder, levels, name)
        if reference is None:
            judgement = Judgement(False, f"{name} has no reference in {self._shown(self._folder)}")
        else:
            judgement = way.judge(pixels, picture_files.load(reference.path))
        self._run.judged += 1
        if judgement.is_close and reference is not None:
            self._run.agreed.add(Use(self._relative(self._folder), name, levels, reference.level))
            return
        failures.write(
            self._run.results,
            run=self._run.run,
            test=self._test,
            name=name,
            folder=self._relative(self._folder),
            levels=levels,
            pixels=pixels,
            reference=reference,
            judgement=judgement,
        )
        if self._run.updates:
            return
        against = "" if reference is None else f"{name} differs from {self._shown(reference.path)}: "
        page = self._shown(self._run.results / failures.PAGE)
        raise AssertionError(f"{against}{judgement.text}; see {page}, and `vkshare approve` takes it over")

    def _relative(self, path: Path) -> str:
        return path.resolve().relative_to(self._run.root.resolve()).as_posix()

    def _shown(self, path: Path) -> str:
        """The path as users type it in the project's root."""
        try:
            return str(path.relative_to(self._run.root))
        except ValueError:
            return str(path)
