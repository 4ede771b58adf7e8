"""tools/prose.py: the sentences that it finds in each kind of file, and the rules that they break."""

from __future__ import annotations

from pathlib import Path

import prose
import pytest

pytestmark = pytest.mark.no_driver

PLANTED = {
    "a.c": '/* Whoever waits is told. */\nint x; /* of the sender */\nchar *y = "no one is told of it here";\n',
    "b.py": '"""What it does."""\n# The owner holds\n# device->lock. Nobody else.\nx = f"{who} is late by one tick"\n',
    "c.md": "# Title\n\nThe value is set.\n\n- Those values stay.\n\n```py\nprint('who')\n```\n\n`who` is code.\n",
}


def _found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> list[str]:
    monkeypatch.setattr("prose.ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    return [finding.split(" in '")[0] for finding in prose.findings(tmp_path / name, RULES)]


RULES = prose.rules()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.c", ["a.c:1: 'Whoever'", "a.c:1: 'Whoever'", "a.c:1: 'told'", "a.c:3: 'told'"]),
        ("b.py", ["b.py:1: 'What'", "b.py:3: 'Nobody'"]),
        ("c.md", ["c.md:5: 'Those'"]),
    ],
)
def test_a_planted_fault_is_found_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, found: list[str]
) -> None:
    assert _found(tmp_path, monkeypatch, name, PLANTED[name]) == found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.pattern[:20])
def test_every_rule_has_a_reason_and_other_words(rule: prose.Rule) -> None:
    assert rule.why
    assert rule.instead


def test_a_question_and_a_phrase_beside_a_field_are_no_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "/* What is over? */\nint y; /* whatever the driver said */\n"
    assert _found(tmp_path, monkeypatch, "d.c", text) == []


def test_the_project_has_no_finding() -> None:
    assert [finding for path in prose.checked([]) for finding in prose.findings(path, RULES)] == []
