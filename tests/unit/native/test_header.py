"""The public headers are the manual of the C API: their comments stand over the functions that they are about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vkshare

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]

INCLUDE = Path(vkshare.get_include())
HEADERS = [INCLUDE / f"vkshare{part}.h" for part in ("", "_ipc", "_vulkan", "_present")]
# A comment, and the declarations of functions that follow it without a blank line or another comment.
DOCUMENTED = re.compile(
    r"/\*(?P<comment>(?:(?!\*/).)*)\*/\n(?P<functions>(?:[a-z][^;{}/]*\([^;{}]*\);[^\n]*\n)+)", re.DOTALL
)
PARAMETER = re.compile(r"`(\w+)`|(?<![\w/])\*(\w+)(?= |:|,|;)|\b(\w+)\[i\]")

FIELDS = "held_limit"  # of structs, which comments may name too


def blocks() -> list[tuple[str, str]]:
    text = "\n".join(header.read_text() for header in HEADERS)
    return [(found["comment"], found["functions"]) for found in DOCUMENTED.finditer(text)]


def test_parameters_that_a_comment_names_are_those_of_the_functions_below_it() -> None:
    named = 0
    for comment, functions in blocks():
        for found in PARAMETER.finditer(comment.replace("\n * ", " ")):
            name = next(filter(None, found.groups()))
            named += 1
            places = functions + FIELDS if found[1] else functions
            assert re.search(rf"\b{name}\b", places), f"no {name} in\n{functions}under\n{comment}"
    assert named > 20


def test_what_a_comment_says_of_keys_and_pixels_stands_over_functions_that_have_them() -> None:
    """`vks_surface_next_key` once stood under a sentence about the pixels."""
    for comment, functions in blocks():
        if "next_key" in functions:
            assert "key" in comment
            assert "pixels" not in comment
