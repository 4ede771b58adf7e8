#!/usr/bin/env python3
"""Check the prose of comments, docstrings, error messages and documents against tools/prose.toml.

    python tools/prose.py [FILE or FOLDER ...]       nothing means vkshare, native, tools, examples, docs, README.md

One line a finding: FILE:LINE: the words, why they are refused, and the words to use. Exit status 1
if there is one.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from results import ROOT
from sources import listed

CHECKED = (
    "vkshare",
    "native",
    "tools",
    "examples",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
GLOSSARY = "docs/glossary.md"  # entries, not sentences
SUFFIXES = (".c", ".h", ".hpp", ".cpp", ".py", ".pyi", ".md")
LEAST_WORDS = 4  # of a string literal that is taken for a sentence


@dataclass(frozen=True)
class Rule:
    """A pattern that a sentence must not match."""

    pattern: str
    why: str
    instead: str
    opens: bool = False

    def find(self, sentence: str) -> re.Match[str] | None:
        """Return the first words of a sentence that break the rule."""
        compiled = re.compile(self.pattern, re.IGNORECASE)
        return compiled.match(sentence) if self.opens else compiled.search(sentence)


@dataclass(frozen=True)
class Text:
    """A comment, a docstring, a message or a paragraph; `line` is that of its first character."""

    line: int
    words: str
    is_prose: bool = True  # False: a string literal, which may be a part of a sentence


def rules() -> list[Rule]:
    """Read tools/prose.toml."""
    return [Rule(**rule) for rule in tomllib.loads((ROOT / "tools" / "prose.toml").read_text())["rule"]]


def texts(path: Path) -> Iterator[Text]:
    """The prose of a file."""
    source = path.read_text()
    if path.suffix in (".c", ".h", ".hpp", ".cpp"):
        yield from _of_c(source)
    elif path.suffix in (".py", ".pyi"):
        yield from _of_python(source)
    elif path.suffix == ".md":
        yield from _of_markdown(source)


def _of_c(source: str) -> Iterator[Text]:
    for found in re.finditer(r'/\*(.*?)\*/|//([^\n]*)|"((?:\\.|[^"\\\n])*)"', source, re.DOTALL):
        line = source.count("\n", 0, found.start()) + 1
        if found[3] is None:
            words = re.sub(r"^[ \t]*\*[ \t]?", "", found[1] if found[1] is not None else found[2], flags=re.MULTILINE)
            yield from _paragraphs(line, words)
        elif len(found[3].split()) >= LEAST_WORDS:
            yield Text(line, found[3], is_prose=False)


def _of_python(source: str) -> Iterator[Text]:
    comment: list[str] = []
    began = before = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != before + 1:
                yield from _paragraphs(began, "\n".join(comment))
                comment = []
            began = began if comment else token.start[0]
            before = token.start[0]
            comment.append(token.string.lstrip("#! "))
        elif token.type == tokenize.STRING:
            words = token.string.strip("rbfuRBFU").strip("\"'")
            if token.string.endswith('"""'):
                yield from _paragraphs(token.start[0], words)
            elif len(words.split()) >= LEAST_WORDS:
                yield Text(token.start[0], words, is_prose=False)
    if comment:
        yield from _paragraphs(began, "\n".join(comment))


def _of_markdown(source: str) -> Iterator[Text]:
    source = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE)
    for begin, words in enumerate(source.split("\n\n")):
        line = sum(part.count("\n") + 2 for part in source.split("\n\n")[:begin]) + 1
        for item in re.split(r"\n(?=[ \t]*(?:[-*|#]|\d+\.) ?)", words):
            yield Text(line, item)
            line += item.count("\n") + 1


def _paragraphs(line: int, words: str) -> Iterator[Text]:
    """Parts that empty lines, list items and columns of options divide."""
    lines = words.split("\n")
    start = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or not lines[index].strip() or re.match(r"\s*([-*] |\w+  )", lines[index]):
            yield Text(line + start, "\n".join(lines[start:index]))
            start = index


def findings(path: Path, all_rules: list[Rule]) -> Iterator[str]:
    """Each sentence of a file that breaks a rule, in words for a reader."""
    for text in texts(path):
        plain = re.sub(r"`[^`]*`|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "x", text.words)  # code, and an f-string's values
        for sentence in re.split(r"(?<=[.!?])\s+|\n(?=[ \t]*[-*|])", plain):
            words = " ".join(sentence.split()).lstrip("-*|#> ")
            offset = text.line + text.words[: max(0, plain.find(sentence))].count("\n")
            for rule in all_rules:
                if rule.opens and not (text.is_prose and words[:1].isupper()):
                    continue  # a phrase beside a field, or a part of a message
                if (found := rule.find(words)) is not None:
                    around = words[max(0, found.start() - 40) : found.end() + 40]
                    yield f"{path.relative_to(ROOT)}:{offset}: {found[0]!r} in '{around}': {rule.why}; {rule.instead}"


def checked(names: list[str]) -> list[Path]:
    """The files of these files and folders that git has, but for the glossary."""
    return [path for path in listed(names or CHECKED, SUFFIXES) if path != ROOT / GLOSSARY]


def main() -> int:
    all_rules = rules()
    count = 0
    for path in checked(sys.argv[1:]):
        for finding in findings(path, all_rules):
            print(finding)
            count += 1
    if count:
        print(f"prose: {count} findings; the rules stand in tools/prose.toml")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
