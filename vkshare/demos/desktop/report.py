"""Results of the desktop demo, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.demos.desktop.options import Options
from vkshare.demos.options import Result

if TYPE_CHECKING:
    from vkshare.demos.desktop.run import Clients

_LOOKED_AT = 30  # frames, of which one must have been seen by a look at the picture: there are ten looks a second
_FASTER = 3  # composites for each frame of the slow client: a compositor that waited for it would make one


@dataclass(frozen=True, slots=True)
class Report(Result):
    """The report of a whole run."""

    adapter: str
    seconds: float
    display: dict[str, Any]  # kind, rate
    clients: list[dict[str, Any]]  # see census.Count
    compositor: dict[str, Any]  # see CompositorStatistics
    steady: dict[str, float]  # of these the ones from when every client was shown; and slow: that one's frames
    restarts: int  # of the one that crashes
    faults: tuple[str, ...]
    output: str | None

    @classmethod
    def of(cls, options: Options, reported: dict[str, Any], clients: Clients) -> Report:
        """Make the report from the messages of the compositor and of the processes."""
        restarts = clients.restarts
        found = (*reported["faults"], *clients.faults, *faults(reported["clients"], reported["steady"], restarts))
        return cls(**{**reported, "restarts": restarts, "faults": found, "output": options.output})

    @property
    def is_good(self) -> bool:
        return not self.faults


def faults(clients: list[dict[str, Any]], steady: dict[str, float], restarts: int) -> list[str]:
    """The list of faults."""
    found = []
    for client in clients:
        name = client["name"]
        if not client["shown"]:
            found.append(f"{name} was never shown")
        elif not client["looks"] and client["shown"] >= _LOOKED_AT:
            found.append(f"no frame number of {name} could be read in the picture")
        found += [f"{name}: {fault}" for fault in client["faults"][:3]]
        if name == "crash" and restarts > 1 and client["windows"] < 2:
            found.append(f"the client that crashes was started again {restarts} times, and never seen again")
    if steady["composites"] < _FASTER * steady["slow"]:
        found.append(
            f"{steady['composites']} composites for {steady['slow']} frames of the slow client: it was waited for"
        )
    return found
