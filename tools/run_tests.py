#!/usr/bin/env python3
"""Run the jobs of `make test`, or with --full those of `make test-full`, some at a time, and say in a table what ran.

    python tools/run_tests.py [--full] [--only NAME ...] [--list] [-- pytest arguments]

NAME is a driver (cpu, lavapipe25, lavapipe22, swiftshader, gpu), an interpreter for the wheel
(python3.12), a suite (pytest, ctest, ctest-tsan, model, wheel) or both (cpu.pytest).
VKSHARE_TEST_REQUIRE=cpu,lavapipe25,... makes it a failure when one of these cannot run here.
Outcomes are kept in build/results/*.json (for tools/rules.py) and logs beside them. Exit status 1
when anything failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from report import failure_lines, summary_line, table
from results import RESULTS, ROOT, Case, Results
from test_jobs import Job, all_jobs, our_environment

_running: set[subprocess.Popen[bytes]] = set()


def run_command(command: list[str], environment: dict[str, str], log: Path, limit: float, folder: Path) -> int:
    """Run a command in a process group of its own; 124 when it ran past its limit, as timeout(1) has it."""
    with log.open("ab") as out:
        out.write(f"$ {' '.join(command)}\n".encode())
        out.flush()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=our_environment() | environment,
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
    tell(f"{job.name:28} started")
    status = 0
    for command in job.commands:
        status = run_command(command, job.environment, log, limit - (time.monotonic() - started), ROOT)
        if status not in job.accepts:
            break
    results = job.collect() or results
    broken = status not in job.accepts and not results.count("failed")
    if broken or (status == 0 and not results.tests):
        results.tests.append(Case(f"({job.name})", "failed", breakdown(job, status, limit)))
    results.save(job.results_path)
    tell(summary_line(results, time.monotonic() - started), *failure_lines(job, results, log))
    return results


def tell(*lines: str) -> None:
    """Print lines at once, so that those of jobs beside this one do not come between."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def breakdown(job: Job, status: int, limit: float) -> str:
    """Return how a suite ended that did not say itself what failed."""
    hows = {0: "it left no results", 5: "no tests were found", 124: f"ran past {limit:.0f} s"}
    how = hows.get(status, f"exit status {status}")
    running = job.results_path.with_suffix(".running")
    return f"{how} in {running.read_text()}" if running.is_file() else how


def run_all(jobs: list[Job], workers: int, required: set[str], limit: float) -> list[Results]:
    """Run jobs, `workers` at a time, then those that must be alone one by one."""
    done: dict[str, Results] = {}
    for alone in (False, True):
        chosen = [job for job in jobs if job.alone == alone]
        with ThreadPoolExecutor(1 if alone else workers) as pool:
            try:
                ran = pool.map(lambda job: run_job(job, required, limit), chosen)
                done |= zip((job.name for job in chosen), ran, strict=True)
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(_running):
                    end_group(process)
                raise
    return [done[job.name] for job in jobs]


def main() -> int:
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="everything on each driver, sanitizers, other interpreters")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run only what answers to these names")
    parser.add_argument("--list", action="store_true", help="name the jobs and why some cannot run here")
    at_a_time = (os.cpu_count() or 1) + 4  # tests wait more often than they compute
    parser.add_argument("--jobs", type=int, default=at_a_time, help=f"how many at a time ({at_a_time})")
    parser.add_argument("--limit", type=float, default=3600, help="seconds that one job may take (3600)")
    options = parser.parse_args(sys.argv[1:split])
    jobs = all_jobs(sys.argv[split + 1 :], full=options.full)
    if options.only:
        jobs = [job for job in jobs if job.answers_to(set(options.only))]
        if not jobs:
            parser.error(f"no job answers to {', '.join(options.only)}; see --list, and --full --list")
    if options.list:
        for job in jobs:
            print(f"{job.name:28} {job.unavailable or 'can run'}")
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    stale = [RESULTS.glob(f"{job.name}.*") for job in jobs] if options.only else [RESULTS.glob("*")]
    for path in (path for paths in stale for path in paths):
        path.unlink()
    required = {name.strip() for name in os.environ.get("VKSHARE_TEST_REQUIRE", "").split(",")} - {""}
    started = time.monotonic()
    try:
        all_results = run_all(jobs, options.jobs, required, options.limit)
    except KeyboardInterrupt:
        return 130
    print("\n".join(["", *table(all_results, time.monotonic() - started)]))
    return int(any(results.count("failed") for results in all_results))


def main_of_process() -> int:
    """As main(); SIGTERM ends the jobs, too, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return main()


if __name__ == "__main__":
    sys.exit(main_of_process())
