"""A pytest plugin: `--rule K7` selects tests by rule, `--results FILE` writes what became of each test and its rules.

A results file is {"backend", "suite", "tests": [{"id", "outcome", "reason", "rules", "seconds"}]}; tools/results.py
reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

_rules = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rules")
    group.addoption(
        "--rule", action="append", default=[], metavar="ID", help="run only tests of this rule (repeatable)"
    )
    group.addoption("--results", type=Path, metavar="FILE", help="write outcomes by test and rule as JSON")
    group.addoption("--results-backend", default="", metavar="NAME", help="the driver that the results are of")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--results"):
        config.pluginmanager.register(_Recorder(path, config.getoption("--results-backend")), "vkshare-results")


def rules_of(item: pytest.Item) -> list[str]:
    """Return the rule ids that a test's marks name, its class's and module's included."""
    return sorted({rule for mark in item.iter_markers("rule") for rule in mark.args})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        item.stash[_rules] = rules_of(item)
    wanted = set(config.getoption("--rule"))
    if wanted:
        kept = [item for item in items if wanted & {*item.stash[_rules]}]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    outcome = yield
    outcome.get_result().rules = item.stash.get(_rules, [])


class _Recorder:
    """Keeps the worst outcome of each test's setup, call and teardown."""

    _WORST = ("passed", "skipped", "failed")

    def __init__(self, path: Path, backend: str):
        self._path = path
        self._backend = backend
        self._tests: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # When the process dies, the runner finds here which test it was in.
        self._path.with_suffix(".running").write_text(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        entry = self._tests.setdefault(report.nodeid, self._entry(report.nodeid, rules=getattr(report, "rules", [])))
        entry["seconds"] = round(entry["seconds"] + report.duration, 4)
        entry["retries"] = next((value for name, value in report.user_properties if name == "retries"), [])
        if self._WORST.index(report.outcome) > self._WORST.index(entry["outcome"]):
            entry["outcome"] = report.outcome
            entry["reason"] = self._reason(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":  # a module that cannot be imported, or one that skips itself
            self._tests[report.nodeid] = self._entry(report.nodeid, report.outcome, self._reason(report))

    def pytest_sessionfinish(self) -> None:
        self._path.with_suffix(".running").unlink(missing_ok=True)
        results = {"backend": self._backend, "suite": "pytest", "tests": list(self._tests.values())}
        self._path.write_text(json.dumps(results, indent=1))

    @staticmethod
    def _entry(test: str, outcome: str = "passed", reason: str = "", rules: Sequence[str] = ()) -> dict[str, Any]:
        return {"id": test, "outcome": outcome, "reason": reason, "rules": list(rules), "seconds": 0.0}

    @staticmethod
    def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
        if isinstance(report.longrepr, tuple):  # a skip: (file, line, "Skipped: why")
            return str(report.longrepr[2]).removeprefix("Skipped: ")
        if wasxfail := getattr(report, "wasxfail", ""):
            return f"expected to fail: {wasxfail}"
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash else str(report.longrepr or "")
        errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]  # of a failed import
        return (errors[-1:] or text.splitlines()[:1] or [""])[0][:200]
