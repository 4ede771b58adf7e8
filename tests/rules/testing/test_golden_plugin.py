"""The fixture vks_golden in a suite: its folders, its page, and the runs of pytest-xdist."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image
from support.tree_paths import ROOT

from vkshare import cli
from vkshare.testing import failures

pytest_plugins = ["support.other_suites"]
pytestmark = [pytest.mark.program, pytest.mark.rule("E19")]

SUITE = """
    import os

    import numpy as np
    import pytest

    @pytest.mark.parametrize("n", range(6))
    def test_array(vks_golden, n):
        vks_golden(np.full((8, 8), n + int(os.environ.get("CHANGED", "0")), np.uint8), f"array-{n}")

    def test_surface(vks_device, vks_golden):
        with vks_device.create_surface(8, 8, "bgra8unorm") as surface, surface.access() as view:
            vks_device.submit(vks_device.record().clear(view, (1, 0, 0, 1)))
            vks_golden(surface, "by-surface", tolerance=1)
            vks_golden(view, "by-view", tolerance=1)
"""


@pytest.fixture
def project(suite: pytest.Pytester) -> pytest.Pytester:
    suite.makepyfile(test_pictures=SUITE)
    return suite


def goldens(project: pytest.Pytester) -> set[str]:
    return {path.name for path in (project.path / "goldens").rglob("*.png")}


ALL = {*(f"array-{n}.png" for n in range(6)), "by-surface.png", "by-view.png"}


@pytest.mark.full
def test_references_are_taken_compared_and_reported_by_two_workers(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = project.runpytest_subprocess("-n2", "--vks-update-goldens")
    taken.assert_outcomes(passed=7)
    taken.stdout.fnmatch_lines(["*= goldens =*", "goldens/array-0.png  test_pictures.py::test_array[[]0[]]"])
    assert goldens(project) == ALL
    assert Image.open(project.path / "goldens" / "by-surface.png").getpixel((3, 3)) == (255, 0, 0, 255)
    project.runpytest_subprocess("-n2").assert_outcomes(passed=7)
    results = project.path / "build" / "vks-goldens"
    assert [path.name for path in results.iterdir()] == ["run.json"]
    assert len(failures.uses(results)) == 8, "the controller knows what all workers compared"
    monkeypatch.setenv("CHANGED", "100")
    result = project.runpytest_subprocess("-n2")
    result.assert_outcomes(failed=6, passed=1)
    result.stdout.fnmatch_lines(
        ["*array-0 differs from goldens/array-0.png: 64 of 64 pixels differ*", "6 differ: file:///*index.html"]
    )
    page = (results / "index.html").read_text()
    assert page.count("<section>") == 6
    assert len({each.run for each in failures.read(results)}) == 1


def test_the_folders_are_chosen_in_the_configuration(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvks_goldens = pictures/wanted\nvks_results = out")
    project.runpytest_inprocess("--vks-update-goldens", "-k", "array").assert_outcomes(passed=6)
    assert len(list((project.path / "pictures" / "wanted").iterdir())) == 6
    (project.path / "pictures" / "wanted" / "array-3.png").unlink()
    project.runpytest_inprocess("-k", "array").assert_outcomes(passed=5, failed=1)
    assert (project.path / "out" / "index.html").is_file()


def test_a_run_without_goldens_writes_nothing_and_keeps_the_last_results(project: pytest.Pytester) -> None:
    project.makepyfile(test_other="def test_other(): pass")
    project.runpytest_inprocess("test_other.py").assert_outcomes(passed=1)
    assert not (project.path / "build").exists()
    project.runpytest_inprocess("-k", "array").assert_outcomes(failed=6)
    project.runpytest_inprocess("test_other.py").assert_outcomes(passed=1)
    assert len(failures.read(project.path / "build" / "vks-goldens")) == 6


@pytest.mark.full
def test_the_example_runs_under_xdist_fails_on_a_change_and_passes_once_approved(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples" / "testing", suite.path, dirs_exist_ok=True)
    suite.runpytest_subprocess("-n2").assert_outcomes(passed=3)
    program = suite.path / "test_pictures.py"
    program.write_text(program.read_text().replace("(0.0, -0.8, 1, 0, 0, 1)", "(0.0, -0.2, 1, 0, 0, 1)"))
    suite.runpytest_subprocess("-n2").assert_outcomes(passed=1, failed=2)
    monkeypatch.chdir(suite.path)
    assert cli.main(["approve"]) == 0
    suite.runpytest_subprocess("-n2").assert_outcomes(passed=3)
    assert not re.findall("triangle", " ".join(str(path) for path in Path("build").rglob("*")))
