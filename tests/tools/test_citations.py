"""tools/citations.py: every rule, file, heading and link that is cited exists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import citations
import pytest

pytestmark = pytest.mark.no_driver

RULES = {"K1", "K2", "K3", "X11"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one page of the specification and one source file."""
    (tmp_path / "docs" / "spec").mkdir(parents=True)
    (tmp_path / "native").mkdir()
    (tmp_path / "docs" / "spec" / "protocol.md").write_text("# The pages\n\n## Held submissions (new)\n")
    (tmp_path / "native" / "a.c").write_text("")
    return tmp_path


def found_in(tree: Path, name: str, text: str) -> list[str]:
    (tree / name).write_text(text)
    return citations.findings(tree / name, RULES, tree)


def test_everything_that_this_repository_cites_exists():
    ran = subprocess.run([sys.executable, citations.__file__], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "text",
    [
        "/* owned (K9) */",
        "/* owned (K1, K9) */",
        "/* owned (K9: at once) */",
        "/* K9 */",
        "/* Blocks. K9: at once. */",
        "# rule K9",
        "# rules K1 to K9",
        "# Rules: K1 and K9.",
        "/* the rules\n * K1 to K9 */",
    ],
)
def test_a_rule_that_does_not_exist_is_found(tree, text):
    assert found_in(tree, "native/b.c", text) == ["rule K9 is not in docs/spec"]


@pytest.mark.parametrize(
    "text", ["(K1, K3) rules K1 to K3", "an X99 server", "PRI32 (a8) A8: a format", "f(K9x)", "A8 for r8unorm"]
)
def test_a_rule_that_exists_and_a_word_that_is_no_rule_are_left_alone(tree, text):
    assert found_in(tree, "native/b.c", text) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("/* see native/gone.c */", "native/gone.c does not exist"),
        ("# docs/gone.md, where it stands", "docs/gone.md does not exist"),
        ("# native/gone/*.c", "native/gone/*.c does not exist"),
        ('/* docs/spec/protocol.md, "Gone" */', 'docs/spec/protocol.md has no heading "Gone"'),
        ("/* (DESIGN.md) */", "DESIGN.md is not in this repository: cite docs/spec"),
        ('/* (spec: "Pages") */', '(spec: " is not in this repository: cite docs/spec'),
    ],
)
def test_a_file_or_heading_that_does_not_exist_is_found(tree, text, finding):
    assert found_in(tree, "native/b.c", text) == [finding]


def test_files_and_headings_that_exist_are_left_alone(tree):
    paths = "native/a.c, native/*.c, native/a, /usr/native/gone.c"
    assert found_in(tree, "native/b.c", f'/* {paths}, docs/spec/protocol.md, "Held\n * submissions (new)" */') == []


@pytest.mark.parametrize("link", ["gone.md", "spec/gone.md#x", "spec/protocol.md#gone", "#gone"])
def test_a_dead_link_of_a_document_is_found(tree, link):
    assert [found.split()[2] for found in found_in(tree, "docs/a.md", f"# A\n\n[words]({link})\n")] == [link]


def test_links_that_lead_somewhere_are_left_alone(tree):
    text = (
        "# A b\n\n[1](spec/protocol.md#held-submissions-new) [2](#a-b) [3](../native) [4](https://example.org/gone.md)"
    )
    assert found_in(tree, "docs/a.md", text) == []


def test_a_mark_of_a_test_names_rules_that_exist(tree):
    python, c = tree / "test_a.py", tree / "test_a.c"
    python.write_text('@pytest.mark.rule("K1", "K9")')
    c.write_text("/* rules: K1, K8 */")
    assert citations.unknown_marks(python, RULES) == ["rule K9 is not in docs/spec"]
    assert citations.unknown_marks(c, RULES) == ["rule K8 is not in docs/spec"]
