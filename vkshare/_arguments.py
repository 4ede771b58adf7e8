"""Checks of arguments, so that each complaint reads alike: the argument's name, its value, and what is allowed."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

Rect = tuple[int, int, int, int]
Colour = tuple[float, float, float, float]


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """`value` as an int within [low, high]. Floats are refused: they lose bits without telling."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if (low is not None and number < low) or (high is not None and number > high):
        allowed = f"at least {low}" if high is None else f"{low} to {high}"
        raise ValueError(f"{name} is {number}; allowed is {allowed}")
    return number


def integers(name: str, value: Any, what: str) -> tuple[int, ...]:
    """`value` as a tuple of ints, as many as `what` has words: ``integers("at", at, "x y")``."""
    words = what.split()
    try:
        items = tuple(value)
    except TypeError:
        raise TypeError(f"{name} must be ({', '.join(words)}), not {type(value).__name__}") from None
    if len(items) != len(words):
        raise ValueError(f"{name} is {items!r}; it must be ({', '.join(words)})")
    # Beyond 2**31 nothing is inside any image, and the backends count in int32.
    return tuple(integer(f"{name}: {word}", item, -(2**31), 2**31 - 1) for word, item in zip(words, items, strict=True))


def rect(name: str, value: Any) -> Rect:
    """(x, y, width, height)."""
    x, y, width, height = integers(name, value, "x y width height")
    return x, y, width, height


def point(name: str, value: Any) -> tuple[int, int]:
    """(x, y)."""
    x, y = integers(name, value, "x y")
    return x, y


def colour(name: str, value: Any) -> Colour:
    """Four floats: red, green, blue, alpha."""
    try:
        items = tuple(float(c) for c in value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be four floats (red, green, blue, alpha), not {value!r}") from None
    if len(items) != 4:
        raise ValueError(f"{name} has {len(items)} components; it must be (red, green, blue, alpha)")
    if any(math.isnan(c) for c in items):
        raise ValueError(f"{name} is {items}; NaN is not a colour")
    return items[0], items[1], items[2], items[3]


def timeout(value: Any) -> float | None:
    """Seconds, or None for ever."""
    if value is None:
        return None
    if not isinstance(value, (int, float)):
        raise TypeError(f"timeout must be seconds or None, not {type(value).__name__}")
    if math.isnan(value) or value < 0:
        raise ValueError(f"timeout is {value}; allowed is 0 (test and return), a positive number of seconds, or None")
    return None if math.isinf(value) else float(value)


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of the words in `allowed`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {type(value).__name__}")
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; allowed are {', '.join(map(repr, allowed))}")
    return value


def choices(name: str, value: Any, allowed: Sequence[str]) -> frozenset[str]:
    """A set of the words in `allowed`, at least one; a single word stands for itself."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, Iterable):
        raise TypeError(f"{name} must be words of {', '.join(map(repr, allowed))}, not {type(value).__name__}")
    found = frozenset(choice(name, word, allowed) for word in words)
    if not found:
        raise ValueError(f"{name} is empty; allowed are {', '.join(map(repr, allowed))}")
    return found


def text(name: str, value: Any) -> str:
    """A string that C can hold."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{name} is {value!r}; it must not hold a null character")
    return value
