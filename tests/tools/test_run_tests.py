"""tools/run_tests.py: nothing that went wrong may look like a pass."""

from __future__ import annotations

import sys
import time

import pytest
import run_tests
from results import Case, Results
from test_jobs import Job

PYTHON = sys.executable


@pytest.fixture(autouse=True)
def results_in_tmp(tmp_path, monkeypatch):
    monkeypatch.setattr("run_tests.RESULTS", tmp_path)
    monkeypatch.setattr("run_tests.ROOT", tmp_path)
    monkeypatch.setattr("test_jobs.RESULTS", tmp_path)


def run(job: Job, required: set[str] = frozenset(), limit: float = 30) -> Results:
    return run_tests.run_job(job, set(required), limit)


def test_a_suite_that_crashes_without_results_counts_as_one_failure():
    job = Job("cpu", "pytest", [[PYTHON, "-c", "import os; os.abort()"]])
    results = run(job)
    assert [test.outcome for test in results.tests] == ["failed"]
    assert "exit status -6" in results.tests[0].reason


def test_a_crash_names_the_test_that_was_running(tmp_path):
    crash = f"import os; open({str(tmp_path / 'cpu.pytest.running')!r}, 'w').write('test_x'); os.abort()"
    results = run(Job("cpu", "pytest", [[PYTHON, "-c", crash]]))
    assert results.tests[0].reason.startswith("exit status -6 in test_x")


def test_a_suite_that_crashes_after_some_passes_is_still_a_failure():
    job = Job("cpu", "pytest", [[PYTHON, "-c", "raise SystemExit(3)"]])
    job.collect = lambda: Results("cpu", "pytest", [Case("a", "passed")])
    results = run(job)
    assert (results.count("passed"), results.count("failed")) == (1, 1)


def test_a_suite_past_its_limit_is_ended_and_counts_as_a_failure():
    results = run(Job("cpu", "pytest", [[PYTHON, "-c", "import time; time.sleep(60)"]]), limit=0.2)
    assert "ran past 0 s" in results.tests[0].reason


def test_a_suite_without_any_test_is_a_failure():
    results = run(Job("cpu", "pytest", [[PYTHON, "-c", "raise SystemExit(5)"]]))
    assert "no tests were found" in results.tests[0].reason


def test_a_suite_that_ends_well_without_results_is_a_failure():
    results = run(Job("cpu", "pytest", [[PYTHON, "-c", "pass"]]))
    assert "it left no results" in results.tests[0].reason


def test_the_commands_after_one_that_failed_do_not_run(tmp_path):
    touch = f"open({str(tmp_path / 'ran')!r}, 'w')"
    run(Job("native", "ctest-plain", [[PYTHON, "-c", "raise SystemExit(1)"], [PYTHON, "-c", touch]]))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("required", ["gpu", "pytest", "gpu.pytest"])
def test_a_required_driver_that_is_missing_is_a_failure(required):
    job = Job("gpu", "pytest", unavailable="no real GPU here")
    assert run(job).count("skipped") == 1
    assert run(job, {required}).count("failed") == 1


def test_requiring_another_driver_leaves_a_missing_one_skipped():
    job = Job("gpu", "pytest", unavailable="no real GPU here")
    assert run(job, {"cpu", "lavapipe25"}).count("skipped") == 1


def test_a_process_that_a_suite_leaves_behind_is_ended(tmp_path):
    child = f"import time; time.sleep(1.5); open({str(tmp_path / 'late')!r}, 'w')"
    run(
        Job(
            "cpu",
            "pytest",
            [[PYTHON, "-c", f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}])"]],
        )
    )
    time.sleep(2)
    assert not (tmp_path / "late").exists()
