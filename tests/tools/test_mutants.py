"""tools/mutants.py: what a family's file says, and how a mutant finds its place."""

from __future__ import annotations

from pathlib import Path

import mutants
import pytest
from results import ROOT

pytestmark = pytest.mark.no_driver

ENTRY = '[[{rule}]]\nwhy = "no seq"\nfile = "native/os/a.c"\nbefore = "int x = 1;"\nafter = "int x = 2;"\n'


def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **families: str) -> Path:
    monkeypatch.setattr("mutants.ROOT", tmp_path)
    monkeypatch.setattr("mutants.MUTANTS", tmp_path)
    for family, text in families.items():
        (tmp_path / f"{family}.toml").write_text(text)
    return tmp_path


def test_an_entry_without_more_runs_its_rules_pytest_tests_on_the_cpu_backend(tmp_path, monkeypatch):
    (mutant,) = mutants.load(_folder(tmp_path, monkeypatch, K=ENTRY.format(rule="K7")))
    assert (mutant.name, mutant.rule, mutant.suite, mutant.driver, mutant.select) == ("K7-1", "K7", "pytest", "cpu", "")


def test_an_entry_chooses_the_suite_the_driver_and_the_tests(tmp_path, monkeypatch):
    more = 'suite = "ctest"\ndriver = "lavapipe25"\nselect = "test_fence"\n'
    (mutant,) = mutants.load(_folder(tmp_path, monkeypatch, X=ENTRY.format(rule="X3") + more))
    edit = mutants.Edit("native/os/a.c", "int x = 1;", "int x = 2;")
    assert mutant == mutants.Mutant("X3-1", "X3", (edit,), "no seq", "ctest", "lavapipe25", "test_fence")


def test_mutants_are_selected_by_rule_name_or_prefix(tmp_path, monkeypatch):
    families = {"K": "".join(ENTRY.format(rule=rule) for rule in ("K1", "K10", "K10")), "X": ENTRY.format(rule="X1")}
    _folder(tmp_path, monkeypatch, **families)

    def selected(*names: str) -> list[str]:
        return [mutant.name for mutant in mutants.select(list(names))]

    assert selected("K10") == ["K10-1", "K10-2"]
    assert selected("K10-2", "X") == ["K10-2", "X1-1"]
    assert selected() == ["K1-1", "K10-1", "K10-2", "X1-1"]


def test_a_third_mutant_of_a_rule_and_a_rule_of_another_family_are_refused(tmp_path, monkeypatch):
    folder = _folder(tmp_path, monkeypatch, K=3 * ENTRY.format(rule="K7"))
    with pytest.raises(ValueError, match="K7 has 3 mutants; allowed are 2"):
        mutants.load(folder)
    (folder / "K.toml").write_text(ENTRY.format(rule="X7"))
    with pytest.raises(ValueError, match="in its family's file"):
        mutants.load(folder)


@pytest.mark.parametrize("text", ["int x = 1;\n", "/* moved */\n\n    int\n        x = 1;\n"])
def test_a_snippet_is_found_wherever_it_stands_and_however_it_is_wrapped(text: str) -> None:
    edit = mutants.Edit("a.c", "\nint x\n  = 1;", "\nint x = 2;")
    assert edit.apply(text).split() == text.replace("1", "2").split()


@pytest.mark.parametrize("text", ["", "int y = 1;", "int x = 1; int x = 1;"])
def test_a_snippet_that_does_not_stand_there_once_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a\.c has its snippet [02] times"):
        mutants.Edit("a.c", "int x = 1;", "").apply(text)


def test_what_replaces_a_snippet_keeps_its_own_indentation_below_the_first_line():
    edit = mutants.Edit("a.py", "\n    if a:\n        b()", "\n    if a:\n        c()\n        d()")
    assert edit.apply("def f():\n    if a:\n        b()\n") == "def f():\n    if a:\n        c()\n        d()\n"


def test_several_edits_of_one_mutant_may_be_in_one_file_and_in_several(tmp_path):
    (tmp_path / "a.c").write_text("one two three\n")
    (tmp_path / "b.py").write_text("four\n")
    edits = (mutants.Edit("a.c", "one", "1"), mutants.Edit("a.c", "three", "3"), mutants.Edit("b.py", "four", "4"))
    mutant = mutants.Mutant("X9-1", "X9", edits, "two files")
    assert mutant.files == {"a.c", "b.py"}
    assert mutant.apply(tmp_path) == {"a.c": "1 two 3\n", "b.py": "4\n"}


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


def test_check_says_which_mutants_fit_and_changes_nothing(tmp_path, monkeypatch, capsys):
    _folder(tmp_path, monkeypatch, K=ENTRY.format(rule="K1"))
    source = tmp_path / "native" / "os" / "a.c"
    source.parent.mkdir(parents=True)
    source.write_text("int x = 1;\n")
    assert mutants.check(mutants.select([])) == 0
    (tmp_path / "X.toml").write_text(ENTRY.format(rule="X2").replace("x = 1", "z = 1"))
    assert mutants.check(mutants.select([])) == 1
    assert "X2-1 does not fit: native/os/a.c has its snippet 0 times" in capsys.readouterr().out
    assert source.read_text() == "int x = 1;\n"


def test_every_mutant_of_the_project_fits_the_tree_and_changes_it() -> None:
    for mutant in mutants.load():
        for name, text in mutant.apply(ROOT).items():
            assert text != (ROOT / name).read_text(), mutant.name
