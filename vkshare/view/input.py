"""Input events of viewers: to the program that shows the picture, and to its publisher (rule W5)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from vkshare.core.viewer_input import InputSender, ViewerEvents
from vkshare.ipc.viewer_events import ViewerEvent
from vkshare.view.sources import published_name

_log = logging.getLogger("vkshare.view")


class ViewerInput:
    """The events of all viewers of one picture. take() and close() are for one thread at a time, the rest for any.

    A callback gets each event, or else they wait for events(). The publisher gets them too, where the
    source is its name and it asked for input: each viewer has a connection of its own to the
    publisher, which gives it a number.

    Parameters
    ----------
    source
        As of ``vks.view.serve()``.
    on_event
        The callback, or None.

    Raises
    ------
    TypeError
        The callback cannot be called.
    """

    def __init__(self, source: Any, on_event: Callable[[ViewerEvent], object] | None) -> None:
        if on_event is not None and not callable(on_event):
            raise TypeError(f"on_event must be a function of one event, or None, not {type(on_event).__name__}")
        self._name = published_name(source)
        self._on_event = on_event
        self._waiting = ViewerEvents()
        self._senders: dict[int, InputSender] = {}  # by viewer
        self._count = self._lost = 0

    def take(self, event: ViewerEvent) -> None:
        """Passes an event on."""
        self._count += 1
        if self._name:
            self._forward(event)
        if self._on_event is None:
            self._waiting.add(event)
            return
        try:
            self._on_event(event)
        except Exception:
            _log.exception("on_event has raised, %r", self._on_event)

    def events(self, timeout: float | None) -> list[ViewerEvent]:
        """Returns the events since the last call; waits so many seconds for the first, but not after end_waits()."""
        return self._waiting.take(timeout)

    def counts(self) -> tuple[int, int, int]:
        """Returns the events ever, and of these the merged ones, and those that a program did not take in time."""
        lost = self._lost + sum(each.lost for each in list(self._senders.values()))
        return self._count, self._waiting.merged, self._waiting.dropped + lost

    def end_waits(self) -> None:
        """Ends the waits of events()."""
        self._waiting.close()

    def close(self) -> None:
        """Ends the connections to the publisher. Idempotent."""
        senders, self._senders = self._senders, {}
        for sender in senders.values():
            sender.close()

    def _forward(self, event: ViewerEvent) -> None:
        if event.event_type == "close":  # the publisher makes its own at the end of the connection
            if (sender := self._senders.pop(event.viewer, None)) is not None:
                self._lost += sender.lost
                sender.close()
            return
        if event.viewer not in self._senders:
            self._senders[event.viewer] = InputSender(self._name)
        self._senders[event.viewer].send(event)
