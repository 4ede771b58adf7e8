#!/usr/bin/env python3
"""Check that every rule, file, heading and link that the code and the documents cite exists in this repository.

    python tools/citations.py [FILE ...]      nothing means vkshare, native, docs, README.md, and the marks of the tests

A rule is cited in parentheses or after the word "rule", a heading as docs/spec/protocol.md, "Held
submissions". One line a finding; exit status 1 if there is one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import results
import specification
from results import ROOT
from sources import listed

CHECKED = ("vkshare", "native", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
SUFFIXES = (".c", ".h", ".py", ".pyi", ".md")

_IDS = r"[KXQAVRIC]\d{1,2}(?:(?:, and |, | to | and | or )[KXQAVRIC]\d{1,2})*"
_RULES = re.compile(rf"\(({_IDS})[):,;]|\b[Rr]ules?:? ({_IDS})|(?:/\*|//|#|[.;]) +({_IDS})(?:[:.]| \*/)")
_MARKS = re.compile(r"mark\.rule\(([^)]*)\)")
_FOLDERS = "docs|native|vkshare|tests|tools|examples|shaders|benchmarks"
_PATH = re.compile(rf"(?<![\w/.~$}}-])(?:{_FOLDERS})/[\w./*-]*[\w*/]")
_HEADING = re.compile(r"(docs/[\w/-]+\.md), \"([^\"]+)\"")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_OUTSIDE = re.compile(
    r"\bDESIGN\.md|\bDRIVERS\.md|\(spec: [a-z\"]|\bspec [a-z-]+, [A-Z]\d|\.\./shared/|\brules\.toml\b"
)
_LEADER = re.compile(r"\n[ \t]*(?:\*(?!/)|#|//)?[ \t]*")  # what stands before the words of a comment's next line


def headings(page: Path) -> list[str]:
    """Return the headings of a Markdown page."""
    return re.findall(r"^#+ +(.+?) *$", page.read_text(), re.MULTILINE)


def anchor(heading: str) -> str:
    """Return the fragment that GitHub gives to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _missing_paths(words: str, root: Path) -> Iterator[str]:
    for path in _PATH.findall(words):
        if not any(root.glob(path.rstrip("/"))) and not any(root.glob(f"{path}.*")):
            yield f"{path} does not exist"
    for page, heading in _HEADING.findall(words):
        if (root / page).exists() and heading not in headings(root / page):
            yield f'{page} has no heading "{heading}"'


def _dead_links(text: str, path: Path) -> Iterator[str]:
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, fragment = link.partition("#")
        page = path.parent / target if target else path
        if not page.exists():
            yield f"the link {link} is dead"
        elif fragment and fragment not in map(anchor, headings(page)):
            yield f"the link {link} names no heading"


def _unknown_rules(cited: list[str], rules: set[str]) -> Iterator[str]:
    for rule in re.findall(r"[A-Z]\d+", " ".join(cited)):
        if rule not in rules:
            yield f"rule {rule} is not in docs/spec"


def findings(path: Path, rules: set[str], root: Path = ROOT) -> list[str]:
    """Return what a file cites and what does not exist."""
    text = path.read_text()
    words = _LEADER.sub(" ", text)
    cited = ["".join(ids) for ids in _RULES.findall(words)]
    found = [*_unknown_rules(cited, rules), *_missing_paths(words, root)]
    found += [f"{outside} is not in this repository: cite docs/spec" for outside in _OUTSIDE.findall(words)]
    if path.suffix == ".md":
        found += _dead_links(text, path)
    return found


def unknown_marks(path: Path, rules: set[str]) -> list[str]:
    """Return the rules that a test names and docs/spec does not have."""
    named = results.rules_named_in(path) if path.suffix == ".c" else _MARKS.findall(path.read_text())
    return list(_unknown_rules(named, rules))


def main() -> int:
    """Print the findings."""
    rules = set(specification.read())
    files = [Path(name).resolve() for name in sys.argv[1:]]
    found = [(path, words) for path in files or listed(CHECKED, SUFFIXES) for words in findings(path, rules)]
    if not files:
        found += [
            (path, words)
            for path in listed(("tests", "native/tests"), SUFFIXES)
            for words in unknown_marks(path, rules)
        ]
    for path, words in found:
        print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}: {words}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
