"""Checks of arguments, with uniform messages: the argument's name, its value, and the allowed values."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

Rect = tuple[int, int, int, int]
Colour = tuple[float, float, float, float]

LARGEST_FLOAT = 3.4028234663852886e38  # the largest float32: the backends draw with 32-bit floats
_LONGEST = 9e9  # seconds, some 285 years: the C core counts nanoseconds in 64 bits; a longer timeout means no limit


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """`value` as an int within [low, high]. Floats are refused because they lose bits silently."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if (low is not None and number < low) or (high is not None and number > high):
        allowed = f"at least {low}" if high is None else f"{low} to {high}"
        raise ValueError(f"{name} is {number}; allowed is {allowed}")
    return number


def integers(name: str, value: Any, what: str) -> tuple[int, ...]:
    """`value` as a tuple of one int for each word of `what`: ``integers("at", at, "x y")``."""
    words = what.split()
    try:
        items = tuple(value)
    except TypeError:
        raise TypeError(f"{name} must be ({', '.join(words)}), not {type(value).__name__}") from None
    if len(items) != len(words):
        raise ValueError(f"{name} is {items!r}; it must be ({', '.join(words)})")
    # Beyond 2**31 nothing is inside any image, and the backends count in int32.
    return tuple(integer(f"{name}: {word}", item, -(2**31), 2**31 - 1) for word, item in zip(words, items, strict=True))


def pair(name: str, value: Any) -> tuple[int, int] | None:
    """Two integers of DLPack's, or None."""
    if value is None:
        return None
    try:
        first, second = map(operator.index, value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; allowed are None and two integers") from None
    return first, second


def keys(acquire: Any, release: Any) -> tuple[int, int]:
    """The keys by which a surface is acquired, and released."""
    first = integer("acquire", acquire, 0, 2**64 - 1)
    return first, integer("release", release, 0, 2**64 - 1)


def rect(name: str, value: Any) -> Rect:
    """(x, y, width, height)."""
    x, y, width, height = integers(name, value, "x y width height")
    return x, y, width, height


def point(name: str, value: Any) -> tuple[int, int]:
    """(x, y)."""
    x, y = integers(name, value, "x y")
    return x, y


def _float(value: Any) -> float:
    """float(value), infinite where an int is beyond any float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def number(name: str, value: Any, low: float, high: float) -> float:
    """A number within [low, high]."""
    if isinstance(value, bool) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    found = _float(value)
    if not low <= found <= high:  # NaN too
        raise ValueError(f"{name} is {found}; allowed is {low:g} to {high:g}")
    return found


def exact_integer(name: str, value: Any, low: int, high: int, hint: str = "") -> int:
    """`value` as an int within [low, high]; C calls it. The text has the value as given, and large limits as powers."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__} ({value!r})") from None
    if not low <= number <= high:
        most = f"2**64 - {2**64 - high}" if 2**64 - high in (1, 2) else high
        raise ValueError(f"{name} is {number}, allowed is {low} to {most}{hint}")
    return number


def seconds(value: Any) -> float:
    """A timeout that is no float or int, or below 0; C calls it."""
    if not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"timeout must be float seconds or None, not {type(value).__name__} ({value!r})")
    found = _float(value)
    if not found >= 0:  # NaN too
        raise ValueError(f"timeout is {value!r}, allowed is a number of seconds >= 0, or None to wait for ever")
    return found


def opacity(value: Any) -> float:
    """A number from 0 to 1; only Python's own types."""
    if isinstance(value, bool) or not isinstance(value, (float, int)):
        raise TypeError(f"opacity must be a number, not {type(value).__name__}")
    return number("opacity", value, 0, 1)


def colour(name: str, value: Any) -> Colour:
    """Four finite floats: red, green, blue, alpha."""
    try:
        items = tuple(_float(c) for c in value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be four floats (red, green, blue, alpha), not {value!r}") from None
    if len(items) != 4:
        raise ValueError(f"{name} has {len(items)} components; it must be (red, green, blue, alpha)")
    for component, number in zip(("red", "green", "blue", "alpha"), items, strict=True):
        if not abs(number) <= LARGEST_FLOAT:  # NaN too
            raise ValueError(f"{name}: {component} is {number}; allowed are numbers of at most {LARGEST_FLOAT:.4g}")
    return items[0], items[1], items[2], items[3]


def depth(name: str, value: Any) -> Colour:
    """A number, or four of which the first counts: the depth that a surface is cleared to, as a colour's red."""
    if isinstance(value, bool) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        return colour(name, value)
    return number(name, value, 0, 1), 0.0, 0.0, 0.0


DEPTH_TESTS = {  # by vks_depth_test of native/raster/raster.h
    "never": 0,
    "less": 1,
    "equal": 2,
    "less_equal": 3,
    "greater": 4,
    "not_equal": 5,
    "greater_equal": 6,
    "always": 7,
}


def depth_state(test: Any, write: Any) -> int:
    """The number of a depth test, + 8 where depth is written, for the C core."""
    if not isinstance(write, bool):
        raise TypeError(f"depth_write must be True or False, not {write!r}")
    return DEPTH_TESTS[choice("depth_test", test, tuple(DEPTH_TESTS))] + 8 * write


def timeout(value: Any) -> float | None:
    """Seconds, or None for ever."""
    if value is None:
        return None
    if not isinstance(value, (int, float)) and not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"timeout must be seconds or None, not {type(value).__name__}")
    seconds = _float(value)
    if not seconds >= 0:  # NaN too
        raise ValueError(f"timeout is {seconds}; allowed is 0 (test and return), a positive number of seconds, or None")
    return None if seconds > _LONGEST else seconds


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


def instance(name: str, value: object, kind: type, called: str = "") -> None:
    """Refuses a value of another class; `called`: the class, as users know it."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {called or kind.__name__}, not {type(value).__name__}")


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that is only as good as these."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {type(value).__name__}")
    return value


def text(name: str, value: Any) -> str:
    """A string that C can hold."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{name} is {value!r}; it must not hold a null character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {value!r}; it must not hold half of a surrogate pair (UTF-8 has none)") from None
    return value
