"""Times as users give them."""

from __future__ import annotations

from fractions import Fraction
from numbers import Rational
from typing import Any

from vkshare.util import arguments


def seconds(name: str, value: Any, most: float) -> Fraction:
    """A number of seconds from 0 to `most`; a rational one as it is."""
    found = arguments.number(name, value, 0, most)
    return Fraction(value) if isinstance(value, Rational) else Fraction(found)
