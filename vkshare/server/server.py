"""RenderServer: many clients' render requests, each client's in order, nobody waiting for another."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vkshare import _arguments, _fds, _native, _trace, _transport
from vkshare._closing import Closing
from vkshare._forks import OwnLock
from vkshare.errors import DeviceLostError, InvalidCallError
from vkshare.server import built_in_requests, rendering
from vkshare.server.acceptor import Acceptor
from vkshare.server.deadlock_check import WaitGraph
from vkshare.server.devices import Devices, Factory
from vkshare.server.isolation import ProcessWorker
from vkshare.server.loop import READ, Loop
from vkshare.server.request_types import Answer, Kind, Request, table
from vkshare.server.session import ServedClient
from vkshare.server.session_state import PATIENCE, Route
from vkshare.server.socket_path import Listener, checked
from vkshare.server.worker import Outcome, ThreadWorker, Worker

if TYPE_CHECKING:
    from vkshare.device import Device

_log = logging.getLogger("vkshare.server")

MOST_CLIENTS = 256


@dataclass(slots=True)
class ServerStatistics:
    """A snapshot of a render server."""

    clients: int = 0  # connected now
    workers: int = 0  # rendering threads or processes now, those included that are ending
    accepted: int = 0  # clients, ever
    refused: int = 0  # connections: another user's, or no room
    requests: int = 0  # of clients that are gone too; no-ops that the front answered not counted
    no_ops: int = 0  # answered without Python
    garbage: int = 0  # clients cut off for what they sent
    cut_off: int = 0  # for what they did not read, or say
    lost: int = 0  # clients whose worker hung or died
    failed: int = 0  # clients that an error of the server's own has ended
    dropped: int = 0  # results of clients that were gone by then
    device_generation: int = 1
    wakeups: int = 0  # of the loop


@dataclass(slots=True)
class _RetiringWorker:
    """A worker whose client is gone."""

    client: int
    worker: Worker
    deadline: float | None  # when it is taken to hang


class RenderServer(Closing):
    """Renders for other processes of the same user, over a Unix socket. Rules: spec render-server, R1 to R17.

    Parameters
    ----------
    device
        A Device, which stays the caller's; a callable that opens one, called again when that is lost; None: the best
        device there is. With isolation="process", which adapter the children open.
    path
        Of the socket; None: VKSHARE_SERVER, else ``vkshare-server`` in XDG_RUNTIME_DIR.
    isolation
        ``"thread"``: a client that renders has a thread here, and all draw on one device. ``"process"``: it has a
        process and a device of its own, so that no driver's crash or hang is anybody else's.
    kinds
        Further kinds of requests: see vkshare.server.request_types.
    patience
        Seconds that a worker may take for one request before its client is lost (rule R15).

    Thread-safe are close(), shutdown(), call_soon() and statistics(); the rest is for the thread that serves.

    Raises
    ------
    InvalidCallError
        Another server listens at the path, or what is there is no socket.
    """

    def __init__(
        self,
        device: Device | Factory | None = None,
        path: str | os.PathLike[str] | None = None,
        *,
        isolation: str = "thread",
        kinds: Iterable[Kind] = (),
        patience: float = PATIENCE,
    ) -> None:
        self.isolation = _arguments.choice("isolation", isolation, ("thread", "process"))
        self.patience = _arguments.timeout(patience) or PATIENCE
        self.kinds = table((*built_in_requests.KINDS, *rendering.KINDS), kinds)
        # What workers that are processes are told of: the rest runs here, with whatever it is bound to.
        self.plugged_in = tuple(k for k in self.kinds.values() if k.opcode >= 0x100 and k.route is not Route.INLINE)
        self.counts = ServerStatistics()
        self.wait_graph = WaitGraph()
        self.clients: dict[int, ServedClient] = {}
        self._path = checked(path)
        self._numbers = itertools.count(1)
        self._retiring: list[_RetiringWorker] = []
        self._scheduled: deque[ServedClient] = deque()  # with requests that can be dispatched
        self._with_deadline: set[ServedClient] = set()  # with a deadline
        self._stopping = threading.Event()
        self._running = threading.Lock()  # held by the thread that serves
        self._served_by = 0
        self._is_closed = True  # until all of it is there
        self._own = OwnLock(self)
        with contextlib.ExitStack() as made:
            listener = Listener(self._path)
            made.callback(listener.close)
            self.devices = Devices(device, is_for_children=isolation == "process")
            made.callback(self.devices.close)
            self.event_queue = _native.EventQueue()
            self.loop = Loop()
            made.callback(self.loop.close)
            self.loop.server_poll.set_generation(self.generation)
            self._acceptor = Acceptor(listener, self.loop, self.now, self._accept)
            made.callback(self._acceptor.close)
            self.loop.add(self.event_queue.fileno(), READ, self._drain)
            made.pop_all()
        self._is_closed = False
        _log.info("%r", self)

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Of its socket."""
        return self._path

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def generation(self) -> int:
        """Of its device: grows by one when that is lost."""
        return self.devices.generation

    def statistics(self) -> ServerStatistics:
        """A snapshot. Thread-safe."""
        self._own.check()
        if self._is_closed:
            return replace(self.counts)
        clients = list(self.clients.values())
        return replace(
            self.counts,
            clients=len(clients),
            workers=sum(client.worker is not None for client in clients) + len(self._retiring),
            refused=self._acceptor.refused,
            requests=self.counts.requests + sum(client.state.counts.requests for client in clients),
            no_ops=self.loop.server_poll.answered,
            device_generation=self.generation,
            wakeups=self.loop.wakeups,
        )

    def __repr__(self) -> str:
        if self._is_closed:
            return f"<vkshare.RenderServer at {self._path}, closed>"
        return f"<vkshare.RenderServer at {self._path}, {len(self.clients)} clients, isolation {self.isolation!r}>"

    # ---- serving --------------------------------------------------------------------------------------------------

    def serve_forever(self) -> None:
        """Serves until shutdown() or close() is called, or a signal's handler raises. One thread at a time."""
        self._own.check()
        if not self._running.acquire(blocking=False):
            raise InvalidCallError("this server is served by another thread already")
        self._served_by = threading.get_ident()
        try:
            with self.loop.heeding_signals():
                while not self._stopping.is_set() and not self._is_closed:
                    self.serve_once(None)
        finally:
            self._served_by = 0
            self._running.release()

    def serve_once(self, timeout: float | None) -> None:
        """One turn of the loop, for those who have a loop of their own: sleeps at most `timeout` seconds."""
        self._own.check()
        self.loop.turn(self._sleep(timeout))
        if self._with_deadline or self._retiring or self._acceptor.deadline is not None:
            self._check_deadlines(self.now())
        for _ in range(len(self._scheduled)):
            client = self._scheduled.popleft()
            with client.containing_errors():
                if not client.is_closed and client.serve(self.now()):
                    self._scheduled.append(client)
            self._note_deadline(client)
        _trace.span_since("awake", self.loop.awake_since, len(self.clients))

    def _sleep(self, timeout: float | None) -> float | None:
        if self._scheduled:
            return 0.0
        deadlines = [d for client in self._with_deadline if (d := client.state.deadline) is not None]
        deadlines += [left.deadline for left in self._retiring if left.deadline is not None]
        deadlines += [] if self._acceptor.deadline is None else [self._acceptor.deadline]
        if not deadlines:
            return timeout
        until = max(0.0, min(deadlines) - self.now())
        return until if timeout is None else min(until, timeout)

    def _check_deadlines(self, now: float) -> None:
        for client in list(self._with_deadline):
            with client.containing_errors():
                client.check_deadlines(now)
            self._note_deadline(client)
        if self._acceptor.deadline is not None and now >= self._acceptor.deadline:
            self._acceptor.resume()
        for retiring in self._retiring:
            if retiring.deadline is not None and now >= retiring.deadline:
                retiring.deadline = None
                retiring.worker.abandon()

    def _note_deadline(self, client: ServedClient) -> None:
        if client.state.deadline is None:
            self._with_deadline.discard(client)
        else:
            self._with_deadline.add(client)

    def call_soon(self, call: object) -> None:
        """call() is called by the thread that serves, at its next turn. From any thread."""
        self._own.check()
        if not callable(call):
            raise TypeError(f"call must be callable, not {type(call).__name__}")
        self.loop.call_soon(call)

    def shutdown(self) -> None:
        """serve_forever() returns soon. From any thread; idempotent."""
        self._own.check()
        self._stopping.set()
        self.loop.call_soon(lambda: None)

    @staticmethod
    def now() -> float:
        """Seconds of the clock that its deadlines are on."""
        return time.monotonic()

    # ---- clients come and go --------------------------------------------------------------------------------------

    def _accept(self, sock: socket.socket, pid: int) -> bool:
        """A client has come; False: there are as many as there may be."""
        if len(self.clients) >= MOST_CLIENTS:
            return False
        client = ServedClient(self, sock, next(self._numbers), pid, self.now())
        self.clients[client.number] = client
        self.counts.accepted += 1
        if self.devices.is_opening:
            client.state.device_lost(self.generation)
        self._with_deadline.add(client)
        return True

    def start_worker(self, client: ServedClient) -> Worker:
        """A worker for the client's render requests, who tells when it is ready; the one before goes."""
        if client.worker is not None:
            self._retire(client.number, client.worker)
        if self.isolation == "process":
            return ProcessWorker(
                client.number, self.loop, self.devices.adapter, self.plugged_in, client, self._process_exited
            )
        worker = ThreadWorker(client.number, self.event_queue, self.devices, self.wait_graph)
        client.worker_started()
        return worker

    def remove_client(self, client: ServedClient) -> None:
        """By the client, when its connection has ended."""
        if client.worker is not None:
            self._retire(client.number, client.worker)
        del self.clients[client.number]
        self._with_deadline.discard(client)
        self.counts.requests += client.state.counts.requests

    def bound_incomplete_fds(self) -> None:
        """Messages that are not whole hold so many file descriptors of this process at most (rule R20).

        Past that, clients are cut off whose message could be read on, and began first.
        """
        holding = [client for client in self.clients.values() if client.incomplete_fds]
        holding.sort(key=lambda client: (not client.state.accepts_requests, client.incomplete_since))
        excess = sum(client.incomplete_fds for client in holding) - _transport.quota()
        for client in holding:
            if excess <= 0:
                return
            excess -= client.incomplete_fds
            self.counts.cut_off += 1
            client.cut_off("messages that are not whole hold too many file descriptors: send each at once")

    def _retire(self, client: int, worker: Worker) -> None:
        retiring = _RetiringWorker(client, worker, self.now() + self.patience)
        self._retiring.append(retiring)
        worker.close()
        self._reap(retiring)

    def schedule(self, client: ServedClient) -> None:
        """It may have requests to dispatch."""
        if client not in self._scheduled:
            self._scheduled.append(client)

    # ---- what workers tell ----------------------------------------------------------------------------------------

    def _drain(self, events: int, no_ops: Sequence[int]) -> None:
        for token, error in self.event_queue.drain():
            number, serial = token >> 32, token & 0xFFFFFFFF
            client = self.clients.get(number)
            if client is None:
                self._drain_retired(number, serial)
                continue
            with client.containing_errors():
                if serial:
                    client.event_arrived(serial, error)
                else:
                    client.collect_completions()

    def _drain_retired(self, number: int, serial: int) -> None:
        """What belongs to a client that is gone (rule R14)."""
        retiring = [left for left in self._retiring if left.client == number]
        if serial or not retiring:
            self.counts.dropped += 1
        for left in retiring:
            for _, outcome in left.worker.completions():
                self.discard(outcome)
            self._reap(left)

    def _reap(self, retiring: _RetiringWorker) -> None:
        if retiring.worker.has_exited:
            self._retiring.remove(retiring)
            retiring.worker.join()

    def _process_exited(self, worker: Worker) -> None:
        for retiring in [left for left in self._retiring if left.worker is worker]:
            self._reap(retiring)

    def discard(self, outcome: Outcome) -> None:
        """A result that nobody waits for any more."""
        self.counts.dropped += 1
        if isinstance(outcome, Answer):
            _fds.close_all(outcome.fds)

    # ---- the device -----------------------------------------------------------------------------------------------

    def check_device_loss(self, client: ServedClient, request: Request, outcome: Outcome) -> None:
        """An outcome may say that the device is lost, which then is everybody's matter (rule R16)."""
        if not isinstance(outcome, BaseException) or request.generation != client.state.device_generation:
            return
        device = self.devices.current
        if self.isolation == "process" and isinstance(outcome, DeviceLostError):
            self._replace_child(client)
        elif isinstance(outcome, DeviceLostError) or (device is not None and device.is_lost):
            self._device_lost()

    def _replace_child(self, client: ServedClient) -> None:
        """It has a device of its own: its next request gets another child."""
        client.state.device_lost(client.state.device_generation + 1, with_worker=True)
        client.state.device_opened()

    def _device_lost(self) -> None:
        generation = self.devices.replace_lost(lambda: self.loop.call_soon(self._device_opened))
        self.loop.server_poll.set_generation(generation)
        for client in list(self.clients.values()):
            client.state.device_lost(generation)
            if not self.devices.can_reopen:
                client.state.device_opened()
            self.schedule(client)

    def _device_opened(self) -> None:
        for client in list(self.clients.values()):
            client.state.device_opened()
            self.schedule(client)

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends every client, waits for their workers and for the loop, removes the socket. Idempotent.

        A worker that hangs is waited for as long as `patience` says, and left behind then.
        """
        self._own.check()
        if self._served_by == threading.get_ident():
            raise InvalidCallError("this thread serves: call shutdown() here, and close() when serve_forever() is over")
        self.shutdown()
        with self._running:
            if self._is_closed:
                return
            for client in list(self.clients.values()):
                client.cut_off("the server is closed")
            self._await_workers()
            self.counts = self.statistics()
            self._is_closed = True
            self.loop.remove(self.event_queue.fileno())
            self._acceptor.close()
            self.loop.close()
            del self.event_queue
            self.devices.close(leave_open=bool(self._retiring))

    def _await_workers(self) -> None:
        deadline = self.now() + self.patience
        while self._retiring and self.now() < deadline:
            self.loop.turn(min(0.1, deadline - self.now()))
        for retiring in self._retiring:
            _log.warning("the worker of client %d hangs: left behind", retiring.client)
            retiring.worker.abandon()

    def _is_lost(self) -> bool:
        # A thread that serves has a reference: this one is served by nobody.
        return not self._is_closed and self._own.is_here
