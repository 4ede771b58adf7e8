"""The views of one notebook widget: each is a viewer of the encoder, and their messages share one comm.

Free of notebooks: send() and receive() are what carries the messages.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from vkshare.ipc.viewer_events import Held, InputMessage, ViewerEvent, event_of
from vkshare.view import messages

if TYPE_CHECKING:
    from vkshare.view.viewer_session import EncoderViewer

    Attach = Callable[[Callable[[bytes], None], Sequence[str]], EncoderViewer]

MOST_VIEWS = 16  # at once; the oldest gives way, because a page that was reloaded says no farewell
_MOST_ID = 64  # characters
_MOST_MESSAGE = 1 << 14  # characters of a page's message

Send = Callable[[dict[str, Any], list[bytes]], None]


@dataclass
class _View:
    number: int
    viewer: EncoderViewer | None = None
    held: Held = field(default_factory=Held)
    has_events: bool = False


class WidgetViews:
    """Answers the messages of a widget's pages. Thread-safe.

    Parameters
    ----------
    send
        Sends (content, buffers) to all pages. Called on the encoder's thread; must not block.
    attach
        Makes a viewer that sends by a function.
    on_event
        Called with each input event, in order, on the thread of receive().
    """

    def __init__(self, send: Send, attach: Attach, on_event: Callable[[ViewerEvent], object]) -> None:
        self._send, self._attach, self._on_event = send, attach, on_event
        self._lock = threading.RLock()
        self._views: dict[str, _View] = {}  # by the page's id, the oldest first
        self._number = 0
        self._is_closed = False
        self.sent = 0  # messages
        self.garbage = 0  # views that were ended for a malformed message

    def __len__(self) -> int:
        return len(self._views)

    def receive(self, content: Any) -> None:
        """Handles a page's message: ``{"view": id, "message": ...}``, or ``{"view": id, "leaves": true}``."""
        if not isinstance(content, Mapping):
            return
        name = content.get("view")
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_ID:
            return
        with self._lock:
            if self._is_closed:
                return
            if content.get("leaves") is True:
                self._drop(name)
                return
            try:
                self._handle(name, _decoded(content.get("message")))
            except (ValueError, TypeError, msgspec.MsgspecError, RecursionError):
                self.garbage += 1
                self._drop(name)

    def attach_again(self) -> None:
        """The source is another: each page begins anew, with a hello."""
        with self._lock:
            names = list(self._views)
            for view in self._views.values():
                _close(view)
        for name in names:
            self._send({"view": name, "again": True}, [])

    def close(self) -> None:
        """Ends all views. Idempotent."""
        with self._lock:
            self._is_closed = True
            for name in list(self._views):
                self._drop(name)

    def _handle(self, name: str, message: messages.FromPage) -> None:
        if isinstance(message, messages.Hello):
            self._begin(name, message.codecs)
            return
        view = self._views.get(name)
        if view is None or view.viewer is None:  # of a page whose view has given way, or of before its new hello
            return
        match message:
            case messages.Ack():
                view.viewer.acknowledged(message.frame)
            case messages.Mode():
                view.viewer.set_mode(message.mode)
            case InputMessage():
                event = event_of(message, view.number, time.perf_counter())
                view.has_events = True
                if view.held.note(event):
                    self._on_event(event)

    def _begin(self, name: str, codecs: Sequence[str]) -> None:
        view = self._views.get(name)
        if view is None:
            while len(self._views) >= MOST_VIEWS:
                self._drop(next(iter(self._views)))
            self._number += 1
            view = self._views[name] = _View(self._number)
        _close(view)
        view.viewer = self._attach(lambda data: self._pass(name, data), codecs)

    def _pass(self, name: str, data: bytes) -> None:
        self.sent += 1
        self._send({"view": name}, [data])

    def _drop(self, name: str) -> None:
        view = self._views.pop(name, None)
        if view is None:
            return
        _close(view)
        if view.has_events:
            for event in view.held.end(view.number, time.perf_counter()):
                self._on_event(event)


def _close(view: _View) -> None:
    viewer, view.viewer = view.viewer, None
    if viewer is not None:
        viewer.close()


def _decoded(message: Any) -> messages.FromPage:
    """The message, which the notebook has decoded from JSON, checked as those of a page are."""
    text = json.dumps(message)
    if len(text) > _MOST_MESSAGE:
        raise ValueError("the message is too long")
    return messages.decode(text)
