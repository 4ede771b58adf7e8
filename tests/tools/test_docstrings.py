"""tools/docstrings.py and ruff's D rules: each fault that they find, planted, and the public names, which have none."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import docstrings
import pytest
from results import ROOT

pytestmark = pytest.mark.no_driver

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


STUB = """\
from vkshare import part as part
from vkshare.thing import Thing as Thing
from vkshare.thing import open as open
"""
PART = '''def make() -> int:
    """Return a number."""
'''
PARTS = {  # files in which vkshare.part.make() is public
    "module": {"part.py": PART},
    "stub": {"part/__init__.pyi": "from vkshare.part.made import make as make\n", "part/made.py": PART},
    "package without a stub": {"part/__init__.py": "from vkshare.part.made import make\n", "part/made.py": PART},
    "import from a package": {
        "part/__init__.pyi": "from vkshare.part.inner import make as make\n",
        "part/inner/__init__.py": "from vkshare.part.inner.made import make as make\n",
        "part/inner/made.py": PART,
    },
}


def found(folder: Path, source: str, part: dict[str, str] = PARTS["module"]) -> list[str]:
    """Return the faults of a package whose module `thing` has that source, and `part` those files."""
    package = folder / "vkshare"
    for name, text in {"__init__.pyi": STUB, "thing.py": source, **part}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
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


@pytest.mark.parametrize("part", PARTS)
def test_a_fault_in_a_public_module_is_found(tmp_path: Path, part: str) -> None:
    files = {name: text.replace('"""Return a number', '"""A number') for name, text in PARTS[part].items()}
    assert found(tmp_path / "right", GOOD, PARTS[part]) == []
    fault = "part.make: its summary begins with 'A'; begin with a verb: 'Return ...'"
    assert fault in found(tmp_path / "wrong", GOOD, files)


def test_the_public_classes_of_all_modules_are_checked() -> None:
    listed = tomllib.loads((ROOT / "tests/unit/public_names.toml").read_text())
    classes = {f"{module}.{name}" for module, names in listed.items() for name, members in names.items() if members}
    assert classes <= {f"vkshare.{each.name}" for each in docstrings.public(ROOT / "vkshare")}


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
