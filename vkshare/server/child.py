"""The child process of isolation.py: ``python -m vkshare.server.child`` runs one client's requests on its own device.

One thread runs the requests one after the other. The server kills a process that hangs.
"""

from __future__ import annotations

import errno
import pickle
import select
import socket
import sys
import time

from vkshare.core.device import Device
from vkshare.core.opening import open
from vkshare.server import rendering, wire
from vkshare.server.deadlock_check import WaitGraph
from vkshare.server.executor import Executor, RequestResult
from vkshare.server.isolation import IS_HELD, IS_LATER, IS_OVER, IS_PROTOCOL_ERROR, READY, ChildConfig
from vkshare.server.messages import Op, encode, failure
from vkshare.server.request_types import Answer, Later, Request, table
from vkshare.server.session_state import RETRY_INTERVAL
from vkshare.server.worker import Outcome, without_traceback
from vkshare.util import fd_ops
from vkshare.util.event_queue import EventQueue


class Child:
    """One client's executor, and the socket to the server's loop. Sends may block, because the loop always reads."""

    def __init__(self, sock: socket.socket, config: ChildConfig, device: Device) -> None:
        self._sock = sock
        self._event_queue = EventQueue()
        self._kinds = table(rendering.KINDS, pickle.loads(config.kinds))
        self._splitter = wire.Splitter()
        self._executor = Executor(device, config.client, 0, self._event_queue, WaitGraph())
        # sequences of requests that may fail late; the server knows them
        self._held: set[int] = set()

    def run(self) -> None:
        """Serves requests until the server has closed its end."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        poll.register(self._event_queue.fileno(), select.POLLIN)
        try:
            self._send(READY, 0)
            while True:
                ready = {fd for fd, _ in poll.poll()}
                if self._event_queue.fileno() in ready:
                    self._drain()
                if self._sock.fileno() in ready and not self._read():
                    return
        finally:
            self._splitter.close()
            self._executor.close()

    def _read(self) -> bool:
        data, fds, has_lost_fds = wire.receive(self._sock)
        for message in self._splitter.feed(data, fds, has_lost_fds):
            self._message(message)
        return bool(data)

    def _message(self, message: wire.Message) -> None:
        try:
            request = Request.of(message, self._kinds)
            outcome: Outcome | None = self._executor.run(request)
        except BaseException as error:
            outcome = without_traceback(error)
        else:
            if request in self._executor.held:
                self._held.add(message.sequence)
                self._send(IS_HELD, message.sequence)
        finally:
            message.close()
        self._send_outcome(message.sequence, Answer() if outcome is None else outcome)

    def _drain(self) -> None:
        for token, error in self._event_queue.drain():
            for result in self._executor.event_arrived(token & 0xFFFFFFFF, error):
                self._send_result(result)
        for sequence in self._held - {request.sequence for request in self._executor.held}:
            self._held.discard(sequence)
            self._send(IS_OVER, sequence)

    def _send_result(self, result: RequestResult) -> None:
        if result.is_late:
            self._held.discard(result.request.sequence)
            assert isinstance(result.outcome, BaseException)
            self._send(Op.DEFERRED, result.request.sequence, encode(failure(result.outcome)))
        else:
            self._send_outcome(result.request.sequence, result.outcome)

    def _send_outcome(self, sequence: int, outcome: Outcome) -> None:
        if isinstance(outcome, Answer):
            self._send(Op.REPLY, sequence, outcome.body, outcome.fds)
        elif isinstance(outcome, Later):
            self._send(IS_LATER, sequence)
        elif isinstance(outcome, wire.ProtocolError):
            self._send(IS_PROTOCOL_ERROR, sequence, str(outcome).encode())
        else:
            self._send(Op.ERROR, sequence, encode(failure(outcome)))

    def _send(self, opcode: int, sequence: int, body: bytes = b"", fds: list[int] | None = None) -> None:
        fds = fds or []
        left = memoryview(wire.pack(opcode, sequence, 0, body, len(fds)))
        try:
            while left:
                try:
                    sent = wire.transmit(self._sock, left, fds)
                except OSError as error:
                    if error.errno != errno.ETOOMANYREFS:
                        raise
                    # too many of this user's fds are in flight (unix(7))
                    time.sleep(RETRY_INTERVAL)
                    continue
                left = left[sent:]
                fd_ops.close_all(fds)
                fds = []
        finally:
            fd_ops.close_all(fds)


def main() -> int:
    """Reads the ChildConfig from standard input, and serves until the socket is closed."""
    config: ChildConfig = pickle.load(sys.stdin.buffer)
    sys.path[:] = config.import_path
    name = f"vkshare client {config.client}"
    with socket.socket(fileno=config.fd) as sock, open(config.adapter, backend=config.backend, name=name) as device:
        try:
            Child(sock, config, device).run()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server is gone
    return 0


if __name__ == "__main__":
    sys.exit(main())
