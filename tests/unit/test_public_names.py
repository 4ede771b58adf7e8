"""The public names that a program written for an earlier version uses are there."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_driver

BEFORE = tomllib.loads(Path(__file__).with_name("public_names.toml").read_text())
INSTANCES = {"EGLContext": {"display", "handle"}}  # that __init__ sets


def members(named: object) -> set[str]:
    """The attributes of a class, and the annotated ones of its instances."""
    bases = inspect.getmro(named) if inspect.isclass(named) else ()
    annotated = {name for base in bases for name in getattr(base, "__annotations__", {})}
    return {*dir(named), *annotated, *INSTANCES.get(getattr(named, "__name__", ""), set())}


@pytest.mark.parametrize("module", BEFORE)
def test_no_public_name_is_lost(module: str) -> None:
    there = importlib.import_module(module)
    assert {name for name in BEFORE[module] if not hasattr(there, name)} == set()


@pytest.mark.parametrize("module", BEFORE)
def test_no_public_member_of_a_class_is_lost(module: str) -> None:
    there = importlib.import_module(module)
    lost = {
        f"{name}.{member}"
        for name, before in BEFORE[module].items()
        for member in set(before.split()) - members(getattr(there, name))
    }
    assert lost == set()
