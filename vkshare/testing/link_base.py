"""The base of simulated links: stalls, disconnects, taps and counters of a link that runs."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Literal, TypedDict, TypeVar, Unpack

from vkshare.errors import InvalidCallError
from vkshare.testing.link_connection import Cut
from vkshare.testing.link_model import LinkModel
from vkshare.testing.link_relay import Relay
from vkshare.testing.link_taps import Change, LinkRecording
from vkshare.testing.link_types import DIRECTIONS, Direction, LinkSettings, LinkStatistics
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing
from vkshare.util.forks import OwnLock

T = TypeVar("T")
_CUTS: tuple[Cut, ...] = ("reset", "end", "blackhole")
_REFUSALS = ("reset", "blackhole")


class LinkOptions(TypedDict, total=False):
    """The keywords of LinkSettings."""

    delay: float
    jitter: float
    rate: float | None
    loss: float
    queue: int | None
    window: int
    mtu: int


class SimulatedLink(FlagClosing):
    """The base of LinkProxy and LinkedSockets: what can be done to a link while it runs. Thread-safe.

    Methods take effect before they return. One thread ("vkshare-link") moves the bytes of all
    connections; it wakes up to 1 ms late, as epoll does.
    """

    _unpicklable = "send its address, and connect to that"

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._own = OwnLock(self)
        self._pid = os.getpid()
        self._closed = False
        relay.start()

    def _call(self, function: Callable[[], T]) -> T:
        self._own.check()
        if self._closed:
            raise InvalidCallError(f"this {type(self).__name__} is closed: make another one")
        return self._relay.call(function)

    def _models(self, direction: Direction | None) -> list[LinkModel]:
        if direction is not None:
            arguments.choice("direction", direction, DIRECTIONS)
        return [model for name, model in self._relay.models.items() if direction in (None, name)]

    def settings(self, direction: Direction = "up") -> LinkSettings:
        """Return the properties of a direction.

        Raises
        ------
        ValueError
            The direction is unknown.
        InvalidCallError
            The link is closed.
        """
        (model,) = self._models(arguments.choice("direction", direction, DIRECTIONS))  # type: ignore[arg-type]
        return self._call(lambda: model.settings)

    def set(self, *, direction: Direction | None = None, **changes: Unpack[LinkOptions]) -> None:
        """Change properties of the link.

        Parameters
        ----------
        direction
            "up": from the client to the target (from the first socket to the second); "down": back;
            None: both.
        **changes
            See LinkSettings. The others stay as they are.

        Raises
        ------
        ValueError
            A value is out of its range.
        TypeError
            A keyword is unknown, or a value is no number.
        InvalidCallError
            The link is closed.
        """
        if unknown := set(changes) - set(LinkOptions.__annotations__):
            allowed = ", ".join(LinkOptions.__annotations__)
            raise TypeError(f"set() has no {sorted(unknown)[0]!r}; allowed are direction, {allowed}")
        models = self._models(direction)

        def change() -> None:
            settings = [dataclasses.replace(model.settings, **changes) for model in models]  # all, or none by an error
            for model, found in zip(models, settings, strict=True):
                model.set(found, time.monotonic())

        self._call(change)

    def stall(self, seconds: float | None = None, *, direction: Direction | None = None) -> None:
        """Let nothing pass for a time, as a closed laptop does: connections stay, and nothing is lost.

        A call during a stall replaces its end.

        Parameters
        ----------
        seconds
            The duration; None: until resume().
        direction
            "up", "down", or None for both.

        Raises
        ------
        ValueError
            `seconds` is negative, or the direction is unknown.
        InvalidCallError
            The link is closed.
        """
        length = arguments.timeout(seconds)
        models = self._models(direction)

        def stall() -> None:
            for model in models:
                model.stall(length, time.monotonic())

        self._call(stall)

    def resume(self) -> None:
        """End the stalls, and the time for which connections are refused.

        Raises
        ------
        InvalidCallError
            The link is closed.
        """

        def resume() -> None:
            for model in self._relay.models.values():
                model.resume(time.monotonic())
            self._relay.admit()

        self._call(resume)

    def disconnect(
        self,
        how: Cut = "reset",
        *,
        refuse: float | None = 0,
        refusal: Literal["reset", "blackhole"] = "reset",
    ) -> int:
        """Cut all connections. Bytes that were on their way are lost.

        Parameters
        ----------
        how
            "reset": both sides get an RST (ECONNRESET); "end": a FIN, as from a side that closed in
            order; "blackhole": neither side is notified, and nothing is read or delivered any more, as
            when a router has lost its state.
        refuse
            Seconds for which further connections are not carried; None: until resume().
        refusal
            What such a connection finds: "reset": ECONNREFUSED; "blackhole": it is accepted, and never
            answered, also not later.

        Returns
        -------
        int
            The number of connections cut.

        Raises
        ------
        ValueError
            A word is unknown, `refuse` is negative, or the link makes no further connections.
        InvalidCallError
            The link is closed.
        """
        arguments.choice("how", how, _CUTS)
        is_hole = arguments.choice("refusal", refusal, _REFUSALS) == "blackhole"
        length = arguments.timeout(refuse)
        if length != 0 and self._relay.acceptor is None:
            raise ValueError(f"refuse is {refuse}; allowed is 0, because linked sockets are not connected again")
        return self._call(lambda: self._relay.disconnect(how, length, is_hole))

    def record(self, most: int = 1 << 20) -> LinkRecording:
        """Record the bytes that are delivered from now on.

        Parameters
        ----------
        most
            The bytes that are kept, over all connections and both directions.

        Returns
        -------
        LinkRecording
            `recording.read("up")` has the bytes so far.

        Raises
        ------
        ValueError
            `most` is negative.
        InvalidCallError
            The link is closed.
        """
        recording = LinkRecording(most)
        self._call(lambda: self._relay.taps.recordings.append(recording))
        return recording

    def on_bytes(self, direction: Direction, change: Change | None) -> None:
        """Have a function see, and change, the bytes that are delivered: for fuzz and for faults at a point.

        The function is called on the link's thread, with up to 64 KiB of one connection, cut anywhere.
        It may call methods of the link. An exception resets the connection, and close() raises it.

        Parameters
        ----------
        direction
            "up" or "down".
        change
            Gets bytes, and returns those to be delivered, or None for no change. None: no function.

        Raises
        ------
        ValueError
            The direction is unknown.
        InvalidCallError
            The link is closed.
        """
        arguments.choice("direction", direction, DIRECTIONS)
        changes = self._relay.taps.changes
        self._call(lambda: changes.pop(direction, None) if change is None else changes.update({direction: change}))

    def statistics(self) -> LinkStatistics:
        """Return a snapshot of the link's counters.

        Raises
        ------
        InvalidCallError
            The link is closed.
        """
        return self._call(self._relay.statistics)

    def close(self) -> None:
        """Reset all connections, and end the thread. Idempotent.

        Raises
        ------
        Exception
            The first error of a function of on_bytes(), by the first close().
        """
        self._own.check()
        self._closed = True
        self._relay.stop()
        error, self._relay.taps.error = self._relay.taps.error, None
        if error is not None:
            raise error

    def _state(self) -> str:
        """The second half of the repr."""
        try:
            settings, counters = self.settings(), self.statistics()
        except InvalidCallError:
            return "closed" if self._closed else f"of process {self._pid}"
        changed = [
            f"{each.name}={value}"
            for each in dataclasses.fields(settings)
            if (value := getattr(settings, each.name)) != each.default
        ]
        is_stalled = counters.up.is_stalled or counters.down.is_stalled
        return ", ".join([f"{counters.connections} connections", *changed, *(["stalled"] if is_stalled else [])])
