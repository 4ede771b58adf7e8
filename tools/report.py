"""Output of a test run: a line a job, each failure with the way to run it again, and a table that fits a screen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from results import ROOT, Results
from test_jobs import Job

MOST_FAILURES = 20  # shown of one job: what breaks more is one cause
MOST_LINES = 30  # of the table


def summary_line(results: Results, seconds: float) -> str:
    """Return one line for a job that has ended."""
    counts = ", ".join(f"{results.count(outcome)} {outcome}" for outcome in ("passed", "failed", "skipped"))
    return f"{f'{results.backend}.{results.suite}':28} {seconds:6.1f} s  {counts}"


def failure_lines(job: Job, results: Results, log: Path) -> list[str]:
    """Return what failed in a job, why, where its log is and how to run that test again."""
    failed = [test for test in results.tests if test.outcome == "failed"]
    lines = []
    for test in failed[:MOST_FAILURES]:
        lines += [f"    FAILED {test.id}", f"        {test.reason or 'no reason was given'}"]
        is_breakdown = test.id == f"({job.name})"
        again = f"make test-full ARGS='--only {job.name}'" if is_breakdown else job.again(test.id)
        if again:
            lines.append(f"        again: {again}")
    if len(failed) > MOST_FAILURES:
        lines.append(f"    and {len(failed) - MOST_FAILURES} more")
    if failed:
        lines.append(f"    log: {log.relative_to(ROOT) if log.is_relative_to(ROOT) else log}")
    return lines


def table(all_results: list[Results], seconds: float) -> list[str]:
    """Return backend x suite, then why tests were skipped, each reason once with its sum, then one line in all."""
    lines = [f"{'driver':12} {'suite':14} {'passed':>7} {'failed':>7} {'skipped':>8}"]
    for results in all_results:
        if results.tests:
            counts = [results.count(outcome) for outcome in ("passed", "failed", "skipped")]
            lines.append(f"{results.backend:12} {results.suite:14} {counts[0]:7} {counts[1]:7} {counts[2]:8}")
    tests = [test for results in all_results for test in results.tests]
    totals = Counter(test.outcome for test in tests)
    last = f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped in {seconds:.0f} s"
    reasons = Counter(test.reason for test in tests if test.outcome == "skipped").most_common()
    if retried := [test for test in tests if test.retries]:
        shown = ", ".join(f"{test.id.rpartition('::')[2]} ({'; '.join(test.retries)})" for test in retried)
        lines.append(f"measured again, in {len(retried)} tests: {shown[:300]}")
    room = max(MOST_LINES - len(lines) - 3, 0)  # a heading, a line for the rest, and the last one
    if reasons:
        lines.append("skipped, because:")
        lines += [f"{count:6} x {reason[:100]}" for reason, count in reasons[:room]]
        if rest := reasons[room:]:
            lines.append(f"{sum(count for _, count in rest):6} x {len(rest)} other reasons: build/results/*.json")
    return [*lines, last]
