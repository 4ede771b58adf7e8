"""`vkshare approve`: what it lists, takes over and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vkshare import cli
from vkshare.testing import picture_files
from vkshare.testing.goldens import Golden, GoldenRun

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("E19")]


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in the current folder, in whose last run two pictures failed."""
    run = GoldenRun(tmp_path, tmp_path / "build" / "vks-goldens")
    for name in ("first", "second"):
        with pytest.raises(AssertionError):
            Golden(run, f"tests/test_a.py::test_{name}", tmp_path / "goldens", None)(np.ones((4, 4), np.uint8), name)
    run.finish()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_pictures_are_taken_over_and_the_page_goes(failed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["approve"]) == 0
    assert capsys.readouterr().out == (
        "goldens/first.png  from tests/test_a.py::test_first\ngoldens/second.png  from tests/test_a.py::test_second\n"
    )
    assert (picture_files.load(failed / "goldens" / "second.png") == 1).all()
    assert [path.name for path in (failed / "build" / "vks-goldens").iterdir()] == ["run.json"]
    assert cli.main(["approve"]) == 1
    assert "has no failures; run the tests first, or give --results" in capsys.readouterr().err


def test_one_picture_is_taken_over_by_its_name(failed: Path) -> None:
    assert cli.main(["approve", "sec*"]) == 0
    assert [path.name for path in (failed / "goldens").iterdir()] == ["second.png"]
    page = (failed / "build" / "vks-goldens" / "index.html").read_text()
    assert "test_first" in page
    assert "test_second" not in page


def test_a_list_changes_nothing(failed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["approve", "--list"]) == 0
    assert (
        "first   tests/test_a.py::test_first   none       first has no reference in goldens" in capsys.readouterr().out
    )
    assert cli.main(["approve", "--list", "--json", "first"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["folder"], row["level"]) == ("first", "goldens", None)
    assert not (failed / "goldens").exists()


def test_results_of_another_place_are_taken_over(failed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = failed / "downloaded"
    (failed / "build" / "vks-goldens").rename(elsewhere)
    monkeypatch.chdir("/")
    assert cli.main(["approve", "--results", str(elsewhere), "--root", str(failed)]) == 0
    assert len(list((failed / "goldens").iterdir())) == 2


def test_what_cannot_be_taken_over_is_one_line_and_status_1(failed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["third"], "third: no picture of that name failed; there are: first, second"),
        (["--results", "nowhere"], "nowhere has no failures"),
    ):
        assert cli.main(["approve", *arguments]) == 1
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
