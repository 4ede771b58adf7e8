"""A client's worker process: a child with its own device, so that its crash or hang affects only that client.

The loop talks to it as a client talks to the server: it forwards requests over a socket, under
sequence numbers of its own, and receives the answers. The child runs vkshare/server/child.py.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkshare.backends.base import Adapter
from vkshare.ipc import transport
from vkshare.server import wire
from vkshare.server.executor import RequestResult
from vkshare.server.loop import READ, WRITE, Loop
from vkshare.server.messages import Failure, Op, decode, rebuilt
from vkshare.server.request_types import LATER, Answer, Kind, Request
from vkshare.server.session_state import RETRY_INTERVAL
from vkshare.server.worker import Outcome
from vkshare.util import fd_ops

if TYPE_CHECKING:
    from vkshare.server.session import ServedClient

_log = logging.getLogger("vkshare.server")

# Opcodes that a child sends beside REPLY, ERROR and DEFERRED.
READY = 0x8010
IS_LATER = 0x8011  # the answer follows an event, without the worker
IS_HELD = 0x8012  # precedes the reply: the request may fail late
IS_OVER = 0x8013  # the held request has not failed
IS_PROTOCOL_ERROR = 0x8014


@dataclass(frozen=True, slots=True)
class ChildConfig:
    """Parameters of a child, pickled into its standard input."""

    fd: int  # the child's socket
    client: int
    backend: str
    adapter: bytes  # UUID
    import_path: list[str]
    kinds: bytes  # the plug-ins' request types, pickled


class ProcessWorker:
    """A client's child process, spawned, not forked. For the loop's thread.

    `events` receives the results of requests. on_exit(self) is called once, when the process has
    exited and join() will not wait.
    """

    def __init__(
        self,
        client: int,
        loop: Loop,
        adapter: Adapter,
        kinds: tuple[Kind, ...],
        events: ServedClient,
        on_exit: Callable[[ProcessWorker], None],
    ) -> None:
        self.client = client
        self._loop = loop
        self._events: ServedClient | None = events
        self._on_exit = on_exit
        # by the loop's own numbers, because a client may repeat its own
        self._in_flight: dict[int, Request] = {}
        self._held: dict[int, Request] = {}  # replied to, but may fail late
        self._numbers = 0
        self.has_exited = False
        self._splitter = wire.Splitter()
        self._unsent: deque[tuple[memoryview, list[int]]] = deque()
        self._sock, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.ExitStack() as made:
            made.callback(self._sock.close)
            with there:
                config = ChildConfig(
                    there.fileno(), client, adapter.backend, adapter.uuid, sys.path, pickle.dumps(kinds)
                )
                self._child = _start(config)
            made.callback(self.join)
            self._pidfd = os.pidfd_open(self._child.pid)
            made.callback(os.close, self._pidfd)
            self._sock.setblocking(False)
            loop.add(self._sock.fileno(), READ, self._on_events)
            made.callback(loop.remove, self._sock.fileno())
            loop.add(self._pidfd, READ, self._on_process_exit)
            made.pop_all()

    # ---- as of ThreadWorker -----------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        self._numbers += 1
        self._in_flight[self._numbers] = request
        message = request.message
        fds = request.take_fds()
        data = wire.pack(message.opcode, self._numbers, message.generation, message.body, len(fds))
        self._unsent.append((memoryview(data), fds))
        self._flush()

    def completions(self) -> Iterator[tuple[Request, Outcome]]:
        return iter(())

    def event_arrived(self, serial: int, error: BaseException | None) -> list[RequestResult]:
        return []

    def close(self) -> None:
        """Closes the socket: the child then closes its objects and exits."""
        self._events = None
        if self._sock.fileno() >= 0:
            self._loop.remove(self._sock.fileno())
            self._sock.close()
        self._splitter.close()
        for _, fds in self._unsent:
            fd_ops.close_all(fds)
        self._unsent.clear()
        self._in_flight.clear()
        self._held.clear()

    def abandon(self) -> None:
        if not self.has_exited:
            self._child.kill()

    def join(self) -> None:
        self._child.kill()
        self._child.wait()

    # ---- the child --------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._sock.fileno() < 0:
            return
        while self._unsent:
            data, fds = self._unsent[0]
            try:
                sent = wire.transmit(self._sock, data, fds, transport.DONT_WAIT)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:
                    self._flush_later()
                return  # any other error: the child is gone, and its pidfd becomes readable
            fd_ops.close_all(fds)
            self._unsent[0] = data[sent:], []
            if sent == len(data):
                self._unsent.popleft()
        self._loop.watch(self._sock.fileno(), READ | (WRITE if self._unsent else 0))

    def _flush_later(self) -> None:
        """Retries soon, because too many of this user's fds are in flight. The worker's timeout bounds the retries."""
        timer = threading.Timer(RETRY_INTERVAL, self._loop.call_soon, (self._flush,))
        timer.daemon = True
        timer.start()

    def _on_events(self, ready: int, no_ops: Sequence[int]) -> None:
        if ready & WRITE:
            self._flush()
        self._read()

    def _read(self) -> bool:
        """Reads once from the socket; returns whether more may follow."""
        if self._sock.fileno() < 0:
            return False
        try:
            data, fds, has_lost_fds = wire.receive(self._sock, transport.DONT_WAIT)
            messages = self._splitter.feed(data, fds, has_lost_fds)
        except BlockingIOError:
            return False
        except (OSError, wire.ProtocolError) as error:
            _log.warning("process %d of a client: %s", self._child.pid, error)
            data, messages = b"", []
        if not data:  # end of stream, or a malformed message
            self._loop.remove(self._sock.fileno())
            self._sock.close()
            self.abandon()
        for message in messages:
            events = self._events
            if events is not None:
                with events.containing_errors():
                    self._message(events, message)
            message.close()
        return bool(data)

    def _message(self, events: ServedClient, message: wire.Message) -> None:
        if message.opcode == READY:
            events.worker_started()
        elif message.opcode in (Op.DEFERRED, IS_OVER):
            request = self._held.pop(message.sequence, None)
            if request is not None and message.opcode == Op.DEFERRED:
                events.deliver(RequestResult(request, rebuilt(decode(Failure, message.body)), is_late=True))
        elif message.sequence in self._in_flight:
            self._complete(events, message)

    def _complete(self, events: ServedClient, message: wire.Message) -> None:
        """Handles a message about a request in flight."""
        request = self._in_flight[message.sequence]
        if message.opcode == IS_HELD:
            self._held[message.sequence] = request
            return
        if message.opcode == IS_LATER:
            events.completed(request, LATER)
            return
        del self._in_flight[message.sequence]
        if message.has_lost_fds:
            events.completed(request, wire.LostFds("the reply, in the server"))
        elif message.opcode == Op.REPLY:
            events.completed(request, Answer(message.body, message.take_fds()))
        elif message.opcode == IS_PROTOCOL_ERROR:
            events.completed(request, wire.ProtocolError(message.body.decode(errors="replace")))
        else:
            events.completed(request, rebuilt(decode(Failure, message.body)))

    def _on_process_exit(self, ready: int, no_ops: Sequence[int]) -> None:
        while self._read():
            pass  # messages that the child sent before its exit
        self.has_exited = True
        self._loop.remove(self._pidfd)
        os.close(self._pidfd)
        events = self._events
        self._on_exit(self)
        if events is not None:
            with events.containing_errors():
                events.worker_exited(f"its process has ended with status {self._child.wait()}")


def _start(config: ChildConfig) -> subprocess.Popen[bytes]:
    """Starts a child in a session of its own: Ctrl-C in a terminal signals the server only."""
    child = subprocess.Popen(
        [sys.executable, "-m", "vkshare.server.child"],
        stdin=subprocess.PIPE,
        pass_fds=(config.fd,),
        start_new_session=True,
    )
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin as pipe:
        pipe.write(pickle.dumps(config))
    return child
