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


def test_a_mutant_knows_the_files_that_it_changes(tmp_path):
    patch = tmp_path / "X9.patch"
    patch.write_text(f"why: two files\n\n{DIFF}{DIFF.replace('a.c', 'b.py')}")
    assert mutants.Mutant.read(patch).files == {"native/core/a.c", "native/core/b.py"}


def test_the_tests_that_turned_red_are_read_from_pytests_summary():
    output = (
        "tests/test_a.py::test_one[cpu] FAILED\n"
        "= short test summary info =\n"
        "FAILED tests/test_a.py::test_one[two processes-cpu] - assert 1 == 2\n"
        "ERROR tests/test_a.py::test_one[two processes-cpu] - Failed: 6 messages\n"
        "2 failed\n"
    )
    tests, said = mutants.red_tests("pytest", output)
    assert set(tests) == {"tests/test_a.py::test_one[two processes-cpu]"}
    assert said == "assert 1 == 2"


def test_a_test_that_hung_or_crashed_is_named():
    hung = "tests/test_a.py::test_one PASSED [ 10%]\ntests/test_a.py::test_two[a b] \n+++++ Timeout +++++\n"
    assert mutants.red_tests("pytest", hung) == (["tests/test_a.py::test_two[a b]"], "it hung")
    stuck = "tests/test_a.py::test_one PASSED [ 10%]\ntests/test_a.py::test_two[a b] FAILED     [ 20%]\n"
    assert mutants.red_tests("pytest", stuck) == (["tests/test_a.py::test_two[a b]"], "it hung")
    crashed = "tests/test_a.py::test_two[cpu] Fatal Python error: Bus error\n\nThread 0x1\n"
    assert mutants.red_tests("pytest", crashed) == (["tests/test_a.py::test_two[cpu]"], "Fatal Python error: Bus error")


def test_the_tests_that_turned_red_are_read_from_ctests_summary():
    output = (
        "ok   something\n/x/native/tests/test_page.c:12: expected a == b; 7\nFAIL something_else\n"
        "The following tests FAILED:\n\t  3 - test_page (Failed)\n"
    )
    assert mutants.red_tests("ctest", output) == (["test_page"], "test_page.c:12: expected a == b; 7")


def test_check_says_which_patches_apply_and_changes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mutants.ROOT", tmp_path)
    monkeypatch.setattr("mutants.MUTANTS", tmp_path)
    source = tmp_path / "native" / "core" / "a.c"
    source.parent.mkdir(parents=True)
    source.write_text("driver: x\n")
    (tmp_path / "K1.patch").write_text(DIFF)
    assert mutants.check(mutants.select([])) == 0
    (tmp_path / "K2.patch").write_text(DIFF.replace("-driver: x", "-driver: z"))
    assert mutants.check(mutants.select([])) == 1
    assert "K2 does not apply" in capsys.readouterr().out
    assert source.read_text() == "driver: x\n"
