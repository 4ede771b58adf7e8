"""A second process that plays the other side of a match.

Both sides of a match know it by its name; each is a function that does n turns. The process is started once and plays
any number of matches, on the CPUs that it is given.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from benchmarks import placement
from vkshare.util.closing import Scoped

Side = Callable[[int], float]  # plays n turns; the seconds that this took


class PeerFailed(Exception):
    """The other process ended, or raised; its text."""


class Peer(Scoped):
    """The other process. ``module:function(*arguments)`` is called there and returns its sides by name."""

    def __init__(self, module: str, function: str, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._link, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, module, function, arguments), name="benchmark", daemon=True
        )
        self._process.start()
        theirs.close()
        try:
            self._hear()  # it has set everything up
        except BaseException:
            self.close()
            raise

    def pin(self, core: int | None) -> None:
        """Moves it to that core; None sets it free."""
        self._link.send(("pin", core))
        self._hear()

    def play(self, match: str, n: int, mine: Side) -> tuple[float, float]:
        """Has it play its side while `mine` plays ours. The seconds that each took."""
        self._link.send((match, n))
        seconds = mine(n)
        return seconds, self._hear()

    def close(self) -> None:
        """Ends the process. Idempotent."""
        if self._process.is_alive():
            self._link.close()
            self._process.join(5)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()

    def _hear(self) -> float:
        try:
            heard: float | str = self._link.recv()
        except EOFError:
            raise PeerFailed("the other process of the benchmark ended by itself") from None
        if isinstance(heard, str):
            raise PeerFailed(heard)
        return heard


def _serve(link: Connection, module: str, function: str, arguments: tuple[Any, ...]) -> None:
    """Main loop of the peer process, until the link is closed."""
    try:
        sides: dict[str, Side] = getattr(importlib.import_module(module), function)(*arguments)
        link.send(0.0)
        while True:
            match, value = link.recv()
            seconds = 0.0
            if match == "pin":
                placement.pin(value)
            else:
                seconds = sides[match](value)
            link.send(seconds)
    except (EOFError, KeyboardInterrupt):
        return
    except Exception as error:
        link.send(f"{type(error).__name__}: {error}")
