"""tools/docstrings.py and ruff's D rules: each fault that they find, planted, and the public names, which have none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import docstrings
import pytest
from results import ROOT

GOOD = '''
class Base:
    """A base."""

    def many(self, first: int, second: int) -> int:
        """Adds two numbers.

        Parameters
        ----------
        first, second
            Numbers.

        Returns
        -------
        int
            The sum.

        Raises
        ------
        ValueError
            One is negative.
        """
        if first < 0:
            raise ValueError("first is negative")
        return first + second


class Thing(Base):
    """A thing, made by ``make()``."""

    def __init__(self, left: int, right: int) -> None: ...
    @property
    def size(self) -> int: ...
    def one(self, value: int) -> int:
        """Returns the value."""


def open(path: str) -> Thing:
    """Return the thing of a path.

    Examples
    --------
    >>> open("x")
    """
'''


def found(folder: Path, source: str) -> list[str]:
    """Return the faults of a package whose one module has that source."""
    package = folder / "vkshare"
    package.mkdir()
    (package / "__init__.pyi").write_text(
        "from vkshare.thing import Thing as Thing\nfrom vkshare.thing import open as open\n"
    )
    (package / "thing.py").write_text(source)
    return [finding.split(": ", 1)[1] for finding in docstrings.findings(package)]


def test_a_package_that_keeps_the_rules_has_no_fault(tmp_path: Path) -> None:
    assert found(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ('"""Returns the value."""', '"""The value."""', "Thing.one: its summary begins with 'The'"),
        ('"""Returns the value."""', "pass", "Thing.one: it has no docstring"),
        ("first, second\n", "first\n", "Thing.many: its section Parameters lacks second"),
        ("first, second\n", "first, second, third\n", "Thing.many: its section Parameters has third"),
        ("Returns\n        -------\n", "Result\n        -------\n", "Thing.many: it returns int; say so in a section"),
        ("ValueError\n            One", "KeyError\n            One", "Thing.many: it raises ValueError; say when"),
        ("Examples\n", "Example\n", "open: it is among the names that users meet first"),
        (", made by ``make()``", "", None),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, right: str, wrong: str, fault: str | None) -> None:
    assert right in GOOD
    faults = found(tmp_path, GOOD.replace(right, wrong))
    if fault is None:
        fault = "Thing: its section Parameters lacks left, right"
    assert any(each.startswith(fault) for each in faults), faults


def test_the_public_names_have_no_fault() -> None:
    assert docstrings.findings(ROOT / "vkshare") == []


def test_the_names_with_examples_are_public() -> None:
    assert {each.name for each in docstrings.public(ROOT / "vkshare")} >= docstrings.EXAMPLES


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"""Lacks a full stop"""', "D400"),
        ('"""Begins.\n    Goes on at once."""', "D205"),
        ('"""Has a section.\n\n    Returns\n    ---\n    int\n    """', "D409"),
    ],
)
def test_ruff_finds_a_fault_of_form_in_vkshare_alone(text: str, rule: str) -> None:
    source = f'"""A module."""\n\n\ndef function() -> None:\n    {text}\n'
    assert rule in _ruff("vkshare/core/planted.py", source)
    assert _ruff("tools/planted.py", source) == ""


def _ruff(name: str, source: str) -> str:
    command = [str(Path(sys.executable).with_name("ruff")), "check", "--quiet", "--output-format", "concise"]
    done = subprocess.run(
        [*command, "--stdin-filename", name, "-"], input=source, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout
