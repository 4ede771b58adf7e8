"""tools/run_tests.py: nothing that went wrong may look like a pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Set
from pathlib import Path

import pytest
import report
import run_tests
from results import ROOT, Case, Results
from support.time_limits import until
from test_jobs import Job, all_jobs

pytestmark = pytest.mark.no_driver

PYTHON = sys.executable


@pytest.fixture(autouse=True)
def results_in_tmp(tmp_path, monkeypatch):
    monkeypatch.setattr("run_tests.RESULTS", tmp_path)
    monkeypatch.setattr("run_tests.ROOT", tmp_path)
    monkeypatch.setattr("test_jobs.RESULTS", tmp_path)
    monkeypatch.setattr("report.ROOT", tmp_path)


def is_alive(pid: int) -> bool:
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return False  # there is none, or its new parent has not reaped it yet
    return True


def run(job: Job, required: Set[str] = frozenset(), limit: float = 30) -> Results:
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
    child = "import time; time.sleep(60)"
    leave = (
        "import pathlib, subprocess, sys;"
        f" process = subprocess.Popen([sys.executable, '-c', {child!r}]);"
        f" pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(process.pid))"
    )
    run(Job("cpu", "pytest", [[PYTHON, "-c", leave]]))
    until(lambda: not is_alive(int((tmp_path / "pid").read_text())))


def test_sigterm_ends_the_jobs(tmp_path):
    note = f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))"
    wait = f"import os, pathlib, time; {note}; time.sleep(60)"
    code = (
        "import pathlib, sys, run_tests, test_jobs;"
        f" run_tests.RESULTS = test_jobs.RESULTS = pathlib.Path({str(tmp_path)!r});"
        f" job = test_jobs.Job('cpu', 'pytest', [[sys.executable, '-c', {wait!r}]]);"
        " run_tests.all_jobs = lambda arguments, full: [job]; sys.argv = ['run_tests.py'];"
        " sys.exit(run_tests.main_of_process())"
    )
    process = subprocess.Popen([PYTHON, "-c", code], cwd=ROOT / "tools", stdout=subprocess.DEVNULL)
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and pid.read_text())
    process.terminate()
    assert process.wait(30) == 130
    until(lambda: not is_alive(int(pid.read_text())))


# ---- what is printed -------------------------------------------------------------------------------------------------


def test_a_failure_shows_the_test_the_reason_the_log_and_how_to_run_it_again(capsys):
    job = Job("cpu", "pytest", [[PYTHON, "-c", "raise SystemExit(1)"]], again=lambda test: f"make check T={test}")
    job.collect = lambda: Results("cpu", "pytest", [Case("tests/test_a.py::test_b", "failed", "it is broken")])
    run(job)
    shown = capsys.readouterr().out
    for line in ("FAILED tests/test_a.py::test_b", "it is broken", "log: cpu.pytest.log", "again: make check T=tests/"):
        assert line in shown


def test_a_job_that_broke_down_is_run_again_as_a_whole(capsys):
    run(Job("cpu", "pytest", [[PYTHON, "-c", "raise SystemExit(3)"]], again=lambda test: f"make check T={test}"))
    assert "again: make test-full ARGS='--only cpu.pytest'" in capsys.readouterr().out


def test_the_table_fits_a_screen_and_sums_skips_by_reason():
    results = [
        Results(
            driver, "pytest", [Case(f"{n}", "skipped", f"reason {n % 50}") for n in range(1000)] + [Case("x", "passed")]
        )
        for driver in ("cpu", "lavapipe25", "lavapipe22", "swiftshader")
    ]
    lines = report.table(results, 60)
    assert len(lines) <= 30
    assert "    80 x reason 0" in lines
    rest = next(line for line in lines if "other reasons" in line)
    shown = sum(int(line.split(" x ")[0]) for line in lines if " x " in line)
    assert shown == 4000, rest
    assert lines[-1] == "4 passed, 0 failed, 4000 skipped in 60 s"


def test_what_was_measured_again_is_in_the_table():
    case = Case("tests/test_a.py::test_in_time", "passed", retries=["0.25 of 0.2"])
    (line,) = (line for line in report.table([Results("cpu", "pytest-serial", [case])], 1) if "again" in line)
    assert line == "measured again, in 1 tests: test_in_time (0.25 of 0.2)"


def test_a_table_of_many_jobs_keeps_its_last_line():
    results = [Results(f"driver{n}", "pytest", [Case("x", "passed")]) for n in range(26)]
    lines = report.table(results, 1)
    assert len(lines) <= 30
    assert lines[-1].startswith("26 passed")


@pytest.mark.parametrize(("outcome", "status"), [("passed", 0), ("skipped", 0), ("failed", 1)])
def test_the_exit_status_says_whether_anything_failed(monkeypatch, outcome, status):
    job = Job("cpu", "pytest", [[PYTHON, "-c", "pass"]])
    job.collect = lambda: Results("cpu", "pytest", [Case("a", outcome, "why"), Case("b", "passed")])
    monkeypatch.setattr(run_tests, "all_jobs", lambda arguments, full: [job])
    monkeypatch.setattr(sys, "argv", ["run_tests.py"])
    assert run_tests.main() == status


def test_the_jobs_of_make_test_are_among_those_of_make_test_full(monkeypatch):
    unpacked = subprocess.CompletedProcess([], 0, "/folder/tool")  # nothing is fetched
    monkeypatch.setattr("test_jobs.sysroot", lambda *arguments, **options: unpacked)
    monkeypatch.setattr("test_jobs.driver_environment", lambda driver: {})
    test, full = ({job.name for job in all_jobs([], full=full)} for full in (False, True))
    assert test < full
    assert {
        "cpu.pytest-1",
        "cpu.pytest-2",
        "lavapipe25.pytest-1",
        "lavapipe25.pytest-2",
        "lavapipe22.pytest",
        "swiftshader.pytest",
        "native.ctest-plain",
    } <= test
    assert {"native.ctest-asan", "native.ctest-tsan", "swiftshader.pytest-serial", "native.cmake"} <= full - test
    assert not any(name.startswith("python") for name in test)  # which interpreters there are differs between users
