"""The thread of a view server: an event loop with its connections and viewers.

All methods but start(), stop() and snapshot() run on that thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import cast

from aiohttp import WSCloseCode, web

from vkshare.ipc.viewer_events import ViewerEvent
from vkshare.util import forks
from vkshare.view import page_files
from vkshare.view.connections import DEADLINE, MOST_WAITING, TLS_DEADLINE, Bare, BareSocket, Gate, Refused, Waiting
from vkshare.view.security import PROTOCOL, Policy, Refusal
from vkshare.view.viewer_session import HEARTBEAT, MOST_MESSAGE, EncoderViewer, ViewerSession

_log = logging.getLogger("vkshare.view")

MOST_VIEWERS = 32
_SOCKET = "/view"
_BACKLOG = 64
_RETRY = 0.05  # seconds until connections are taken again after an error
_SINGLE = ("Host", "Origin", "Sec-WebSocket-Protocol", "Upgrade")  # fields of which a second one is an attack
_END_DEADLINE = 2.0  # seconds that the end of a server waits for the ends of its connections


@dataclass(frozen=True)
class Limits:
    """Times of a service."""

    deadline: float = DEADLINE  # seconds that a connection has to show the token
    heartbeat: float = HEARTBEAT  # seconds of silence before a viewer is asked for a sign of life


LIMITS = Limits()


@dataclass
class Counts:
    """Numbers of a service; `refused` is by the reason."""

    accepted: int = 0
    connections: int = 0
    viewers: int = 0
    garbage: int = 0
    sent: int = 0


class Service:
    """Serves the page and its WebSockets on a listening socket, which it takes over.

    Parameters
    ----------
    listener
        The socket.
    policy
        What is refused.
    tls
        The TLS context; None: plain HTTP.
    attach
        As of ViewerSession.
    on_event
        Called with the events of all viewers, on the service's thread.
    limits
        Its times.
    """

    def __init__(
        self,
        listener: socket.socket,
        policy: Policy,
        tls: ssl.SSLContext | None,
        attach: Callable[[Callable[[bytes], None], Sequence[str]], EncoderViewer],
        on_event: Callable[[ViewerEvent], None],
        limits: Limits,
    ) -> None:
        self._listener = listener
        self._policy = policy
        self._tls = tls
        self._attach = attach
        self._on_event = on_event
        self._heartbeat = limits.heartbeat
        self._files = page_files.load()
        self._numbers = itertools.count(1)
        self._sessions: set[ViewerSession] = set()
        self._counts = Counts()
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}  # oldest first
        self._retry: asyncio.TimerHandle | None = None  # until connections are taken again
        self._loop = asyncio.new_event_loop()
        self._gate = Gate(self._loop, self._answer, limits.deadline)
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="vkshare-view", daemon=True)

    def start(self) -> None:
        """Begin to serve; returns once connections are taken."""
        started: Future[None] = Future()
        self._loop.call_soon(self._begin, started)
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """End all connections and the thread. Any thread but the service's."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def restart_viewers(self) -> None:
        """Have all pages connect again, because the source has changed. Any thread but the service's."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._restart_viewers)

    def is_current_thread(self) -> bool:
        """Whether the service's thread calls."""
        return threading.current_thread() is self._thread

    def snapshot(self) -> tuple[Counts, dict[str, int]]:
        """Return the counts, and the refusals by their reasons. Any thread."""
        sessions, refused = tuple(self._sessions), dict(self._gate.refused)
        counts = Counts(**vars(self._counts))
        counts.viewers = len(sessions)
        counts.connections = self._gate.accepted
        counts.sent += sum(each.sent for each in sessions)
        return counts, {why.value: refused.get(why, 0) for why in Refusal}

    # ---- the thread

    def _begin(self, started: Future[None]) -> None:
        self._server = self._loop.create_task(self._serve(started))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _serve(self, started: Future[None]) -> None:
        try:
            self._listener.listen(_BACKLOG)
        except OSError as error:  # another socket listens at the address meanwhile
            started.set_exception(error)
            self._loop.stop()
            return
        started.set_result(None)
        self._begin_accepting()
        try:
            await self._stopping.wait()
            self._stop_accepting()
            await self._end()
        finally:
            self._loop.stop()

    def _begin_accepting(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listener, self._accept)

    def _stop_accepting(self) -> None:
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()

    def _accept(self) -> None:
        """Take a connection. TLS handshakes are tasks, of which the oldest gives way to the newest."""
        try:
            sock = Waiting.of(self._listener.accept()[0], has_tls=self._tls is not None)
        except BlockingIOError:  # it has gone already
            return
        except OSError:  # too many fds are open
            self._stop_accepting()
            self._retry = self._loop.call_later(_RETRY, self._begin_accepting)
            return
        if len(self._handshakes) >= MOST_WAITING:
            self._end_handshake(next(iter(self._handshakes)))
            self._gate.count(Refusal.LIMIT)
        task = self._loop.create_task(self._shake_hands(forks.close_in_child(sock)))
        self._handshakes[task] = sock

    async def _shake_hands(self, sock: Waiting) -> None:
        deadline = None if self._tls is None else TLS_DEADLINE
        task = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._gate.protocol(sock),
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=deadline,
                ssl_shutdown_timeout=deadline,
            )
        except OSError:  # no TLS, or it came too late; ssl.SSLError is one
            if task in self._handshakes:
                self._gate.count(Refusal.MALFORMED)
        finally:
            self._handshakes.pop(task, None)

    def _end_handshake(self, task: asyncio.Task[None]) -> None:
        """Let a handshake fail. asyncio leaves the socket open where its task is cancelled before the first byte."""
        with contextlib.suppress(OSError):
            self._handshakes.pop(task).shutdown(socket.SHUT_RDWR)

    async def _end(self) -> None:
        """Every connection ends, and every task with it."""
        handshakes = tuple(self._handshakes)
        for task in handshakes:
            self._end_handshake(task)
        for session in tuple(self._sessions):
            session.end()
        if handshakes:
            await asyncio.wait(handshakes, timeout=_END_DEADLINE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_DEADLINE):
                while self._sessions:
                    await asyncio.sleep(0.01)
        await self._gate.shutdown()
        tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _restart_viewers(self) -> None:
        for session in self._sessions:
            session.end(WSCloseCode.SERVICE_RESTART)

    # ---- requests

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if any(len(request.headers.getall(name, ())) > 1 for name in _SINGLE):
            return self._refuse(Refusal.MALFORMED)
        if request.path == _SOCKET:
            return await self._open_viewer(request)
        why = self._policy.judge_file(request.path, request.method, request.headers, self._files)
        if why is not None:
            return self._refuse(why)
        file = self._files[request.path]
        response = Bare(body=file.body, headers={**page_files.HEADERS, "Content-Type": file.content_type})
        response.enable_compression()
        return response

    def _refuse(self, why: Refusal) -> web.StreamResponse:
        self._gate.count(why)
        return Refused()

    async def _open_viewer(self, request: web.BaseRequest) -> web.StreamResponse:
        why = self._policy.judge_socket(request.method, request.headers)
        if why is None and len(self._sessions) >= MOST_VIEWERS:
            why = Refusal.LIMIT
        if why is not None:
            return self._refuse(why)
        ws = BareSocket(
            protocols=(PROTOCOL,), heartbeat=self._heartbeat, compress=False, max_msg_size=MOST_MESSAGE, timeout=2.0
        )
        transport = request.transport
        if transport is None or not ws.can_prepare(request):
            return self._refuse(Refusal.REQUEST)
        session = ViewerSession(next(self._numbers), self._attach, self._on_event, transport.abort)
        self._sessions.add(session)  # before the handshake: the limit counts those that are in it
        self._counts.accepted += 1
        try:
            await ws.prepare(request)
            if self._gate.trust(transport):
                await session.run(ws)
        finally:
            self._sessions.discard(session)
            self._counts.sent += session.sent
            self._counts.garbage += session.is_garbage
        return ws
