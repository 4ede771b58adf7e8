"""tools/rules.py and tools/results.py: when a rule counts as passed."""

from __future__ import annotations

import pytest
import results
import rules
import specification
from results import Case, Results
from specification import Rule

pytestmark = pytest.mark.no_driver

VULKAN_RULE = Rule("a rule")
PAGE_RULE = Rule("a rule of pages", vulkan=False)


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


def test_a_rule_is_a_paragraph_with_an_id_a_mark_and_a_first_sentence():
    page = """# A page

**K1** A new surface
has no owner. `release()` raises.

**X2** (pages only) Counters never fall: not once. More.

**A9** (Vulkan only) One sentence that goes on to the end

**I4** (GPU only) Last."""
    assert specification.rules_of(page) == {
        "K1": Rule("A new surface has no owner"),
        "X2": Rule("Counters never fall", vulkan=False),
        "A9": Rule("One sentence that goes on to the end", cpu=False),
        "I4": Rule("Last", cpu=False, vulkan=False),
    }


@pytest.mark.parametrize("page", ["**K1** (elsewhere only) One.", "**K1** One.\n\n**K1** Two."])
def test_an_unknown_mark_and_a_second_rule_of_an_id_are_refused(page):
    with pytest.raises(ValueError, match="K1"):
        specification.rules_of(page)


def test_each_family_is_numbered_from_1_without_a_gap():
    known = specification.read()
    numbers = {family: [int(rule[1:]) for rule in known if rule[0] == family] for family in "KXAQIRV"}
    assert numbers == {family: list(range(1, len(some) + 1)) for family, some in numbers.items()}
    assert all(rule.text for rule in known.values())
