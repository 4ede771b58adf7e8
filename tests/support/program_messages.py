"""What a vkshare program of a test wrote to stderr, less the false messages of the validation layer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vkshare.testing.validation import FILTERS


def spoken(lines: Iterable[str]) -> Iterator[str]:
    """The lines but for those that vkshare.testing.validation knows to be false."""
    for line in lines:
        if not any(line.startswith(f"{known.message_id}: ") and re.search(known.pattern, line) for known in FILTERS):
            yield line


def without_false_messages(text: str) -> str:
    """The text of a stderr that has ended."""
    return "".join(spoken(text.splitlines(keepends=True)))
