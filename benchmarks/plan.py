"""The options of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Plan:
    """Options of the run, and where its questions leave what the reader must know."""

    seconds: float = 2.0  # a table row's contenders take turns for about that long
    pinned_only: bool = False
    quick: bool = False  # a fiftieth of what rows repeat a fixed number of times
    progress: Callable[[str], None] = lambda what: None
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Shown below the table, once."""
        if text not in self.notes:
            self.notes.append(text)
