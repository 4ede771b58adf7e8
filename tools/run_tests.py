#!/usr/bin/env python3
"""Run every test suite on every driver that is here, two jobs at a time, and say in a table what ran.

    python tools/run_tests.py [--only NAME ...] [--list] [-- pytest arguments]

NAME is a driver (cpu, lavapipe25, lavapipe22, swiftshader, gpu), an interpreter for the wheel (python3.12), a suite
(pytest, ctest, ctest-tsan, model, wheel) or both (cpu.pytest). VKSHARE_TEST_REQUIRE=cpu,lavapipe25,... makes it a
failure when one of these cannot run here. Outcomes are kept in build/results/*.json (for tools/rules.py) and logs
beside them. Exit status 1 when anything failed.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from results import RESULTS, ROOT, Case, Results
from test_jobs import Job, all_jobs, our_environment

_running: set[subprocess.Popen[bytes]] = set()


def run_command(command: list[str], job: Job, log: Path, limit: float) -> int:
    """Run one command of a job in a process group of its own; 124 when it ran past its limit, as timeout(1) has it."""
    with log.open("ab") as out:
        out.write(f"$ {' '.join(command)}\n".encode())
        out.flush()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=our_environment() | job.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _running.add(process)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return 124
        finally:
            end_group(process)
            _running.discard(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what a command left running; a test that leaves a process behind must not disturb the next one."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_job(job: Job, required: set[str], limit: float) -> Results:
    """Run a job's commands and return what became of its tests. A job that broke down counts as one failed test."""
    results = Results(job.backend, job.suite)
    if job.unavailable:
        outcome = "failed" if job.answers_to(required) else "skipped"
        if job.alone and outcome == "skipped":
            return results  # its first half says so already
        results.tests = [Case(f"({job.name})", outcome, job.unavailable)]
        results.save(job.results_path)
        return results
    log = RESULTS / f"{job.name}.log"
    started = time.monotonic()
    status = 0
    for command in job.commands:
        status = run_command(command, job, log, limit - (time.monotonic() - started))
        if status not in job.accepts:
            break
    results = job.collect() or results
    broken = status not in job.accepts and not results.count("failed")
    if broken or (status == 0 and not results.tests):
        how = breakdown(job, status, limit)
        results.tests.append(Case(f"({job.name})", "failed", f"{how}: see {log.relative_to(ROOT)}"))
    results.save(job.results_path)
    print(summary_line(results, time.monotonic() - started), flush=True)
    if results.count("failed"):
        print(tail(log), flush=True)
    return results


def breakdown(job: Job, status: int, limit: float) -> str:
    """Return how a suite ended that did not say itself what failed."""
    hows = {0: "it left no results", 5: "no tests were found", 124: f"ran past {limit:.0f} s"}
    how = hows.get(status, f"exit status {status}")
    running = job.results_path.with_suffix(".running")
    return f"{how} in {running.read_text()}" if running.is_file() else how


def summary_line(results: Results, seconds: float) -> str:
    """Return one line for a job that has ended."""
    counts = ", ".join(f"{results.count(outcome)} {outcome}" for outcome in ("passed", "failed", "skipped"))
    return f"{results.backend:12} {results.suite:14} {seconds:6.1f} s  {counts}"


def tail(log: Path, lines: int = 60) -> str:
    """Return the end of a log, indented."""
    text = log.read_text(errors="replace").splitlines() if log.is_file() else []
    return "\n".join(f"    {line}" for line in text[-lines:])


def run_all(jobs: list[Job], workers: int, required: set[str], limit: float) -> list[Results]:
    """Run jobs, `workers` at a time, then those that must be alone one by one."""
    done: dict[str, Results] = {}

    def work(waiting: queue.SimpleQueue[Job]) -> None:
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            done[job.name] = run_job(job, required, limit)

    for alone in (False, True):
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            if job.alone == alone:
                waiting.put(job)
        threads = [threading.Thread(target=work, args=(waiting,), daemon=True) for _ in range(1 if alone else workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [done[job.name] for job in jobs]


def print_table(all_results: list[Results]) -> None:
    """Print driver x suite, and beneath each row why tests were skipped or failed."""
    print(f"\n{'driver':12} {'suite':14} {'ran':>6} {'failed':>7} {'skipped':>8}  why")
    for results in all_results:
        if not results.tests:
            continue
        ran = results.count("passed") + results.count("failed")
        row = (
            f"{results.backend:12} {results.suite:14} {ran:6} {results.count('failed'):7} {results.count('skipped'):8}"
        )
        skipped = Counter(test.reason for test in results.tests if test.outcome == "skipped")
        whys = [f"{count} x {reason}" if count > 1 else reason for reason, count in skipped.most_common()]
        print(f"{row}  " + f"\n{'':52}".join(whys))
        for test in results.tests:
            if test.outcome == "failed":
                print(f"    FAILED {test.id}: {test.reason}")


def main() -> int:
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run only what answers to these names")
    parser.add_argument("--list", action="store_true", help="name the jobs and why some cannot run here")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds that one job may take (1800)")
    options = parser.parse_args(sys.argv[1:split])
    jobs = all_jobs(sys.argv[split + 1 :])
    if options.only:
        jobs = [job for job in jobs if job.answers_to(set(options.only))]
        if not jobs:
            parser.error(f"nothing answers to {', '.join(options.only)}; --list names the jobs")
    if options.list:
        for job in jobs:
            print(f"{job.name:28} {job.unavailable or 'can run'}")
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    for job in jobs:
        for stale in RESULTS.glob(f"{job.name}.*"):
            stale.unlink()
    required = {name.strip() for name in os.environ.get("VKSHARE_TEST_REQUIRE", "").split(",")} - {""}
    started = time.monotonic()
    try:
        all_results = run_all(jobs, options.jobs, required, options.limit)
    except KeyboardInterrupt:
        for process in list(_running):
            end_group(process)
        return 130
    print_table(all_results)
    passed, failed, skipped = (sum(r.count(o) for r in all_results) for o in ("passed", "failed", "skipped"))
    print(f"\nin {time.monotonic() - started:.0f} s")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
