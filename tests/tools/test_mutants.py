"""tools/mutants.py: what a patch's header says."""

from __future__ import annotations

import mutants

DIFF = "--- a/native/core/a.c\n+++ b/native/core/a.c\n@@ -1 +1 @@\n-driver: x\n+driver: y\n"


def test_a_patch_without_a_header_runs_its_rules_pytest_tests_on_the_cpu_backend(tmp_path):
    patch = tmp_path / "K7-2.patch"
    patch.write_text(DIFF)
    mutant = mutants.Mutant.read(patch)
    assert (mutant.rule, mutant.suite, mutant.driver, mutant.select) == ("K7", "pytest", "cpu", "")


def test_header_lines_choose_the_suite_and_the_driver(tmp_path):
    patch = tmp_path / "X3.patch"
    patch.write_text(f"suite: ctest\ndriver: lavapipe25\nselect: test_fence\nwhy: no seq\n\n{DIFF}")
    mutant = mutants.Mutant.read(patch)
    assert mutant == mutants.Mutant(patch, "X3", "ctest", "lavapipe25", "test_fence", "no seq")


def test_mutants_are_selected_by_rule_patch_or_prefix(tmp_path, monkeypatch):
    monkeypatch.setattr("mutants.MUTANTS", tmp_path)
    for name in ("K1", "K10", "K10-2", "X1"):
        (tmp_path / f"{name}.patch").write_text(DIFF)

    def selected(*names: str) -> list[str]:
        return [mutant.patch.stem for mutant in mutants.select(list(names))]

    assert selected("K10") == ["K10", "K10-2"]
    assert selected("K10-2", "X") == ["K10-2", "X1"]
    assert selected() == ["K1", "K10", "K10-2", "X1"]
