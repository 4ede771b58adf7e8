"""One WebSocket of a page: what the encoder sends goes out in order, what the page sends is checked.

Runs on the server's event loop. The encoder's thread calls send() alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from vkshare.ipc.viewer_events import Held, InputMessage, ViewerEvent, event_of
from vkshare.view import messages

MOST_MESSAGE = 1 << 14  # bytes of a page's message; an event takes some 200
MOST_QUEUED = 32  # messages that wait for the socket; the encoder has three frames and a few words on their way
HEARTBEAT = 15.0  # seconds of silence before a ping; the answer may take half as long
_HELLO_DEADLINE = 10.0  # seconds from the WebSocket to the page's first message


class EncoderViewer(Protocol):
    """The encoder's end of a viewer. No method blocks; a bogus acknowledgement is a ValueError."""

    def acknowledged(self, frame: int) -> None: ...
    def set_mode(self, mode: str) -> None: ...
    def close(self) -> None: ...


class ViewerSession:
    """A viewer that is connected.

    Parameters
    ----------
    number
        Of the connection, from 1; events carry it.
    attach
        Gives the encoder the function that sends and the codecs of the page's hello, and returns the encoder's end.
    on_event
        Called with each input event, in order.
    abort
        Ends the connection without a further byte.
    """

    def __init__(
        self,
        number: int,
        attach: Callable[[Callable[[bytes], None], Sequence[str]], EncoderViewer],
        on_event: Callable[[ViewerEvent], None],
        abort: Callable[[], None],
    ) -> None:
        self.number = number
        self.sent = 0  # messages
        self.received = 0
        self.is_garbage = False  # it was ended for a malformed message
        self._attach = attach
        self._on_event = on_event
        self._abort = abort
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes | str] = deque()
        self._wake = asyncio.Event()
        self._viewer: EncoderViewer | None = None
        self._held = Held()
        self._has_events = False
        self._code: int = WSCloseCode.GOING_AWAY
        self._is_over = False

    def send(self, data: bytes) -> None:
        """Send a message of the encoder. Any thread; never blocks."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._push, data)

    async def run(self, ws: web.WebSocketResponse) -> None:
        """Serve the page until its connection ends."""
        writer = self._loop.create_task(self._write(ws))
        try:
            await self._read(ws)
        finally:
            self._is_over = True
            if self._viewer is not None:
                self._viewer.close()
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await writer
            if self._has_events:
                for event in self._held.end(self.number, time.perf_counter()):
                    self._on_event(event)

    def end(self, code: int = WSCloseCode.GOING_AWAY) -> None:
        """End the connection with a code: the server ends, or the source has changed."""
        self._code = code
        self._is_over = True
        self._wake.set()

    def _push(self, data: bytes | str) -> None:
        if self._is_over:
            return
        if len(self._queue) >= MOST_QUEUED:  # the page asks and does not read the answers
            self._abort()
            return
        self._queue.append(data)
        self._wake.set()

    async def _write(self, ws: web.WebSocketResponse) -> None:
        while not self._is_over:
            await self._wake.wait()
            self._wake.clear()
            while self._queue and not self._is_over:
                data = self._queue.popleft()
                with contextlib.suppress(ConnectionError, RuntimeError):  # it ends: _read() sees it too
                    await (ws.send_str(data) if isinstance(data, str) else ws.send_bytes(data))
                self.sent += 1
        await ws.close(code=self._code)

    async def _read(self, ws: web.WebSocketResponse) -> None:
        timeout: float | None = _HELLO_DEADLINE
        while True:
            try:
                message = await ws.receive(timeout)
            except TimeoutError:
                return
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                return
            self.received += 1
            try:
                if message.type is not WSMsgType.TEXT:
                    raise ValueError("pages send text")
                self._handle(messages.decode(message.data))
            except (ValueError, msgspec.MsgspecError, RecursionError):
                self.is_garbage = True
                await ws.close(code=WSCloseCode.POLICY_VIOLATION, message=b"malformed message")
                return
            timeout = None

    def _handle(self, message: messages.FromPage) -> None:
        viewer = self._viewer
        match message:
            case messages.Hello() if viewer is None:
                self._viewer = self._attach(self.send, message.codecs)
            case _ if viewer is None:
                raise ValueError("the first message is a hello")
            case messages.Ack():
                viewer.acknowledged(message.frame)
            case messages.Mode():
                viewer.set_mode(message.mode)
            case InputMessage():
                self._event(message)
            case messages.Ping():
                self._push(messages.pong(message.time, time.monotonic_ns()))
            case _:
                raise ValueError("one hello is enough")

    def _event(self, message: InputMessage) -> None:
        event = event_of(message, self.number, time.perf_counter())
        self._has_events = True
        if self._held.note(event):
            self._on_event(event)
