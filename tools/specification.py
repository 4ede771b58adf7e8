"""The rules of docs/spec: their ids, their marks and their first sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from results import ROOT

FOLDER = ROOT / "docs" / "spec"
MARKS = {"": (True, True), "pages only": (True, False), "Vulkan only": (False, True), "GPU only": (False, False)}
LETTERS = "KXAQIRVCEMWYG"  # in the order of the table of `make rules`
_RULE = re.compile(r"^\*\*([A-Z]\d+)\*\* +(?:\(([^()]* only)\) +)?(.+?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"(.+?)[.:](?: |$)")


@dataclass(frozen=True)
class Rule:
    """A rule of the specification, and whether it must pass on the CPU backend and on a Vulkan device."""

    text: str
    cpu: bool = True
    vulkan: bool = True


def rules_of(page: str) -> dict[str, Rule]:
    """Return the rules of a page. ValueError: a mark is unknown, or an id stands there twice."""
    found: dict[str, Rule] = {}
    for rule, mark, paragraph in _RULE.findall(page):
        if mark not in MARKS:
            raise ValueError(f"{rule} is marked ({mark}); the marks are {', '.join(filter(None, MARKS))}")
        if rule in found:
            raise ValueError(f"{rule} is there twice")
        words = " ".join(paragraph.split())
        sentence = _SENTENCE.match(words)
        found[rule] = Rule(sentence[1] if sentence else words, *MARKS[mark])
    return found


def read(folder: Path = FOLDER) -> dict[str, Rule]:
    """Return the rules of all pages, in the order of the letters and numbers of their ids."""
    text = "\n\n".join(page.read_text() for page in sorted(folder.glob("*.md")) if page.name != "README.md")
    rules = rules_of(text)
    order = sorted(rules, key=lambda rule: (LETTERS.find(rule[0]), int(rule[1:])))
    return {rule: rules[rule] for rule in order}
