"""tools/rules.py and tools/results.py: when a rule counts as passed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import results
import rules
from results import Case, Results

VULKAN_RULE = {"text": "a rule"}
PAGE_RULE = {"text": "a rule of pages", "vulkan": False}


def by_backend(**outcomes: str) -> dict[str, list[Case]]:
    return {backend: [Case("t", outcome) for outcome in text.split()] for backend, text in outcomes.items()}


def test_a_rule_that_passed_on_cpu_and_lavapipe25_holds():
    assert rules.missing_backends(VULKAN_RULE, by_backend(cpu="passed", lavapipe25="passed skipped")) == []


def test_a_rule_that_only_skipped_has_not_passed():
    assert rules.missing_backends(VULKAN_RULE, by_backend(cpu="passed", lavapipe25="skipped")) == ["lavapipe25"]


def test_a_rule_that_no_test_names_has_not_passed():
    assert rules.missing_backends(VULKAN_RULE, {}) == ["cpu", "lavapipe25"]


def test_a_failure_on_any_backend_fails_the_rule():
    outcomes = by_backend(cpu="passed", lavapipe25="passed", swiftshader="passed failed")
    assert rules.missing_backends(VULKAN_RULE, outcomes) == ["swiftshader"]


def test_a_failed_c_test_fails_the_rule_even_where_python_passes():
    outcomes = by_backend(cpu="passed", native="failed")
    assert rules.missing_backends(PAGE_RULE, outcomes) == ["cpu", "native"]


def test_a_c_test_alone_proves_a_rule_of_pages_but_not_one_of_vulkan():
    assert rules.missing_backends(PAGE_RULE, by_backend(native="passed")) == []
    assert rules.missing_backends(VULKAN_RULE, by_backend(native="passed")) == ["lavapipe25"]


def test_a_rule_without_a_test_in_the_results_is_told_from_one_that_was_skipped():
    ran = by_backend(cpu="skipped")
    assert rules.how_open(["cpu", "lavapipe25"], ran) == (
        "not passed on cpu; did not run on lavapipe25, run `make test-full`"
    )


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("/* rule: K7 */", ["K7"]),
        ("/* rules: K7, X3 */ // rule: X24", ["K7", "X24", "X3"]),
        ("/* the rule of K7 */", []),
    ],
)
def test_the_rules_that_a_c_test_names_are_read_from_its_comments(tmp_path, comment, expected):
    source = tmp_path / "test_a.c"
    source.write_text(comment)
    assert results.rules_named_in(source) == expected


def test_ctest_outcomes_carry_the_rules_and_the_last_line_of_the_output(tmp_path):
    (tmp_path / "test_a.c").write_text("/* rule: K7 */")
    junit = tmp_path / "ctest.xml"
    failed = '<testcase name="test_a" time="0.5" status="fail"><system-out>one\ntwo is wrong\n</system-out></testcase>'
    others = '<testcase name="test_b" time="0" status="notrun"/><testcase name="test_c" time="0" status="run"/>'
    junit.write_text(f"<testsuite>{failed}{others}</testsuite>")
    read = results.from_junit(junit, tmp_path, "ctest-plain")
    assert [test.outcome for test in read.tests] == ["failed", "skipped", "passed"]
    assert read.tests[0] == Case("test_a", "failed", "two is wrong", ["K7"], 0.5)


def test_the_line_that_says_fail_is_the_reason_of_a_failed_c_test(tmp_path):
    junit = tmp_path / "ctest.xml"
    case = '<testcase name="t" status="fail"><system-out>ok a\nFAIL b is broken\n2 failures</system-out></testcase>'
    junit.write_text(f"<testsuite>{case}</testsuite>")
    assert results.from_junit(junit, tmp_path, "ctest-plain").tests[0].reason == "FAIL b is broken"


def test_results_survive_being_written_and_read(tmp_path):
    written = Results("cpu", "pytest", [Case("a", "skipped", "why", ["K1"], 1.0)])
    written.save(tmp_path / "x.json")
    assert Results.load(tmp_path / "x.json") == written


def test_every_rule_has_a_text_and_an_id():
    known = tomllib.loads((Path(__file__).parents[1] / "rules.toml").read_text())
    assert {f"K{n}" for n in range(1, 34)} | {f"X{n}" for n in range(1, 25)} <= set(known)
    assert all(rule["text"] for rule in known.values())
