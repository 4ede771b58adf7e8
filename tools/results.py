"""The results of a test run: build/results/*.json, one file a backend and suite.

tests/support/rule_results.py writes them for pytest, this module for ctest.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "results"
NATIVE = "native"  # the backend of suites that test what every backend stands on: the C core's pages, the model


@dataclass
class Case:
    """The result of one test. `outcome` is passed, failed or skipped; `reason` says why where it is not passed."""

    id: str
    outcome: str
    reason: str = ""
    rules: list[str] = field(default_factory=list)
    seconds: float = 0.0
    retries: list[str] = field(default_factory=list)  # what was measured and took too long, before one that did not


@dataclass
class Results:
    """The tests of one suite on one backend."""

    backend: str
    suite: str
    tests: list[Case] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        """Return how many tests ended so."""
        return sum(test.outcome == outcome for test in self.tests)

    def save(self, path: Path) -> None:
        """Write the file that `load` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read one results file."""
        data = json.loads(path.read_text())
        known = Case.__dataclass_fields__  # a suite may tell more of its tests than this table needs
        tests = [Case(**{key: value for key, value in test.items() if key in known}) for test in data["tests"]]
        return cls(backend=data["backend"], suite=data["suite"], tests=tests)


def load_all(folder: Path = RESULTS) -> list[Results]:
    """Read every results file of the last run."""
    return [Results.load(path) for path in sorted(folder.glob("*.json"))]


def rules_named_in(source: Path) -> list[str]:
    """Return the rules that a C, model or fault test names in comments: `rule: K7` or `rules: K7, X3`."""
    if not source.is_file():
        return []
    marks = re.findall(r"\brules?:((?:\s*,?\s*[A-Z]\d+)+)", source.read_text(errors="replace"))
    return sorted({rule for mark in marks for rule in re.findall(r"[A-Z]\d+", mark)})


def from_junit(path: Path, sources: Path, suite: str) -> Results:
    """Read what ctest wrote with --output-junit; a test NAME is sources/NAME.c, whose comments name its rules."""
    results = Results(NATIVE, suite)
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name", "")
        status = case.get("status", "")
        outcome = {"run": "passed", "fail": "failed"}.get(status, "skipped")
        reason = ""
        if outcome != "passed":
            lines = (case.findtext("system-out") or status).strip().splitlines() or [status]
            telling = [line for line in lines if re.search(r"\b(FAIL|ERROR|error:|SUMMARY:)", line)]
            reason = (telling or lines[-1:])[0].strip()[:200]
        seconds = float(case.get("time", 0))
        results.tests.append(Case(name, outcome, reason, rules_named_in(sources / f"{name}.c"), seconds))
    return results
