"""The interface by which a mirror's pixels are copied between surfaces of two adapters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from vkshare.core.mirror_state import Box


class Closes(Protocol):
    def close(self) -> None: ...


End = TypeVar("End", bound=Closes)


class Bridge(ABC, Generic[End]):
    """Copies between two surfaces, each of which is owned during a call. A subclass makes the two ends."""

    path: ClassVar[str]  # MirrorStatistics.path
    _other: End
    _own: End  # of the mirror's image

    @abstractmethod
    def _copy(self, source: End, target: End, box: Box) -> Box:
        """Copy the box, or more; return what was copied."""

    def pull(self, box: Box) -> Box:
        """Copy the box, or more, from the other image; return what was copied."""
        return self._copy(self._other, self._own, box)

    def push(self, box: Box) -> Box:
        """Copy the box, or more, to the other image; return what was copied."""
        return self._copy(self._own, self._other, box)

    def close(self) -> None:
        """Free what the copies need, once they have run. Idempotent."""
        self._other.close()
        self._own.close()
