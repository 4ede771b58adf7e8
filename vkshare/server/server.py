"""RenderServer: runs many clients' render requests, each client's in order, independent of other clients."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vkshare.core.device import Device
from vkshare.errors import DeviceLostError, InvalidCallError
from vkshare.ipc import transport
from vkshare.server import rendering
from vkshare.server.acceptor import Acceptor
from vkshare.server.deadlock_check import WaitGraph
from vkshare.server.devices import Devices, Factory
from vkshare.server.isolation import ProcessWorker
from vkshare.server.loop import READ, Loop
from vkshare.server.request_types import Answer, Kind, Request, table
from vkshare.server.session import BUILT_IN, ServedClient
from vkshare.server.session_state import PATIENCE, Route
from vkshare.server.socket_path import Listener, checked
from vkshare.server.worker import Outcome, ThreadWorker
from vkshare.util import arguments, fd_ops, trace
from vkshare.util.closing import FlagClosing
from vkshare.util.event_queue import EventQueue
from vkshare.util.forks import OwnLock

_log = logging.getLogger("vkshare.server")

MOST_CLIENTS = 256
Worker = ThreadWorker | ProcessWorker


@dataclass(slots=True)
class ServerStatistics:
    """A snapshot of a render server."""

    clients: int = 0  # connected now
    workers: int = 0  # rendering threads or processes now, including those that are exiting
    accepted: int = 0  # clients, ever
    refused: int = 0  # connections of other users, or above a limit
    requests: int = 0  # of all clients ever; without the no-ops below
    no_ops: int = 0  # answered in C, without Python
    garbage: int = 0  # clients cut off for a malformed message
    cut_off: int = 0  # clients cut off at a limit or a timeout
    lost: int = 0  # clients whose worker hung or died
    failed: int = 0  # clients that ended by an internal error of the server
    dropped: int = 0  # results that arrived after their client had gone
    device_generation: int = 1
    wakeups: int = 0  # of the loop


class RenderServer(FlagClosing):
    """Renders for other processes of the same user, over a Unix socket. Rules R1 to R17 (docs/spec/render-server.md).

    close(), shutdown(), call_soon() and statistics() are thread-safe; the rest is for the thread
    that serves.

    Parameters
    ----------
    device
        A Device, which stays the caller's; a callable that opens one, called again after a device
        loss; None: opens the best device. With isolation="process" the children open this device's
        adapter.
    path
        Path of the socket; None: VKSHARE_SERVER, else ``vkshare-server`` in XDG_RUNTIME_DIR.
    isolation
        ``"thread"``: each client that renders has a thread here, and all draw on one device.
        ``"process"``: it has a process and a device of its own, so that a crash or hang in a driver
        affects no other client.
    kinds
        Further types of requests: see vkshare.server.request_types.
    patience
        Seconds that a worker may take for one request before its client is lost (rule R15).

    Raises
    ------
    InvalidCallError
        Another server listens at the path, the file there is not a socket, or another user can
        write to its folder.
    OSError
        No server can listen at the path, e.g. because its folder does not exist.
    UnsupportedError, ClosedError
        No device could be opened, or `device` is closed.
    ValueError, TypeError
        An argument is not as above, or an opcode of `kinds` is taken.
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
        self.isolation = arguments.choice("isolation", isolation, ("thread", "process"))
        self.patience = arguments.timeout(patience) or PATIENCE
        self.kinds = table((*BUILT_IN, *rendering.KINDS), kinds)
        # Only these are pickled for worker processes; the others run here.
        self.plugged_in = tuple(k for k in self.kinds.values() if k.opcode >= 0x100 and k.route is not Route.INLINE)
        self.counts = ServerStatistics()
        self.wait_graph = WaitGraph()
        self.clients: dict[int, ServedClient] = {}
        self._path = checked(path)
        self._numbers = itertools.count(1)
        # workers that are exiting, because their clients are gone; after the time a worker counts
        # as hung (infinity: it does)
        self._retiring: dict[Worker, float] = {}
        self._scheduled: deque[ServedClient] = deque()  # clients with requests to dispatch
        self._with_deadline: set[ServedClient] = set()  # clients with a deadline
        self._stopping = threading.Event()
        self._running = threading.Lock()  # held by the thread that serves
        self._served_by = 0
        self._closed = True  # until the constructor succeeds
        self._own = OwnLock(self)
        with contextlib.ExitStack() as made:
            listener = Listener(self._path)
            made.callback(listener.close)
            self.devices = Devices(device, is_for_children=isolation == "process")
            made.callback(self.devices.close)
            self.event_queue = EventQueue()
            self.loop = Loop()
            made.callback(self.loop.close)
            self.loop.server_poll.set_generation(self.generation)
            self._acceptor = Acceptor(listener, self.loop, self.now, self._accept)
            made.callback(self._acceptor.close)
            self.loop.add(self.event_queue.fileno(), READ, self._drain)
            made.pop_all()
        self._closed = False
        _log.info("%r", self)

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The path of the socket."""
        return self._path

    @property
    def generation(self) -> int:
        """The generation of the device: grows by one with each device loss."""
        return self.devices.generation

    def statistics(self) -> ServerStatistics:
        """Returns a snapshot of the counters. Thread-safe."""
        self._own.check()
        if self._closed:
            return replace(self.counts)
        clients = list(self.clients.values())
        return replace(
            self.counts,
            clients=len(clients),
            workers=sum(client.worker is not None for client in clients) + len(self._retiring),
            refused=self._acceptor.refused,
            requests=self.counts.requests + sum(client.state.requests for client in clients),
            no_ops=self.loop.server_poll.answered,
            device_generation=self.generation,
            wakeups=self.loop.wakeups,
        )

    def __repr__(self) -> str:
        if self._closed:
            return f"<vkshare.RenderServer at {self._path}, closed>"
        return f"<vkshare.RenderServer at {self._path}, {len(self.clients)} clients, isolation {self.isolation!r}>"

    # ---- serving --------------------------------------------------------------------------------------------------

    def serve_forever(self) -> None:
        """Serves until shutdown() or close() is called, or a signal handler raises.

        Raises
        ------
        InvalidCallError
            Another thread serves already.
        """
        self._own.check()
        if not self._running.acquire(blocking=False):
            raise InvalidCallError("another thread serves this server already")
        self._served_by = threading.get_ident()
        try:
            with self.loop.waking_on_signals():
                while not self._stopping.is_set() and not self._closed:
                    self.serve_once(None)
        finally:
            self._served_by = 0
            self._running.release()

    def serve_once(self, timeout: float | None) -> None:
        """Runs one turn of the loop, for callers with a loop of their own.

        Parameters
        ----------
        timeout
            Seconds to sleep at most; None: until there is something to do.
        """
        self._own.check()
        self.loop.turn(self._sleep(timeout))
        if self._with_deadline or self._retiring or self._acceptor.deadline < math.inf:
            self._check_deadlines(self.now())
        for _ in range(len(self._scheduled)):
            client = self._scheduled.popleft()
            with client.containing_errors():
                if not client.is_closed and client.serve(self.now()):
                    self._scheduled.append(client)
            self._note_deadline(client)
        trace.span_since("awake", self.loop.awake_since, len(self.clients))

    def _sleep(self, timeout: float | None) -> float | None:
        if self._scheduled:
            return 0.0
        deadlines = [self._acceptor.deadline, *self._retiring.values()]
        deadlines += [client.state.deadline for client in self._with_deadline]
        until = min(max(0.0, min(deadlines) - self.now()), math.inf if timeout is None else timeout)
        return None if until == math.inf else until

    def _check_deadlines(self, now: float) -> None:
        for client in list(self._with_deadline):
            with client.containing_errors():
                client.check_deadlines(now)
            self._note_deadline(client)
        if now >= self._acceptor.deadline:
            self._acceptor.resume()
        for worker, deadline in self._retiring.items():
            if now >= deadline:
                self._retiring[worker] = math.inf
                worker.abandon()

    def _note_deadline(self, client: ServedClient) -> None:
        if client.state.deadline == math.inf:
            self._with_deadline.discard(client)
        else:
            self._with_deadline.add(client)

    def call_soon(self, call: object) -> None:
        """Has the thread that serves call call() in its next turn. From any thread."""
        self._own.check()
        if not callable(call):
            raise TypeError(f"call must be callable, not {type(call).__name__}")
        self.loop.call_soon(call)

    def shutdown(self) -> None:
        """Makes serve_forever() return soon. From any thread; idempotent."""
        self._own.check()
        self._stopping.set()
        self.loop.call_soon(lambda: None)

    @staticmethod
    def now() -> float:
        """Returns the time in seconds, on the clock of the deadlines."""
        return time.monotonic()

    # ---- clients --------------------------------------------------------------------------------------

    def _accept(self, sock: socket.socket, pid: int) -> bool:
        """Adds a client for a connection; False: the server has MOST_CLIENTS."""
        if len(self.clients) >= MOST_CLIENTS:
            return False
        client = ServedClient(self, sock, next(self._numbers), pid, self.now())
        self.clients[client.number] = client
        self.counts.accepted += 1
        if self.devices.current is None and self.devices.can_reopen:  # the next one is being opened
            client.state.device_lost(self.generation)
        self._with_deadline.add(client)
        return True

    def start_worker(self, client: ServedClient) -> Worker:
        """Starts a worker for the client's render requests, and retires the previous one.

        Returns
        -------
        Worker
            A thread or a process, as `isolation` says. It reports when it is ready.
        """
        if client.worker is not None:
            self._retire(client.worker)
        if self.isolation == "process":
            return ProcessWorker(client.number, self.loop, self.devices.adapter, self.plugged_in, client, self._reap)
        worker = ThreadWorker(client.number, self.event_queue, self.devices, self.wait_graph)
        client.worker_started()
        return worker

    def remove_client(self, client: ServedClient) -> None:
        """Removes a client whose connection has ended. Called by the client."""
        if client.worker is not None:
            self._retire(client.worker)
        del self.clients[client.number]
        self._with_deadline.discard(client)
        self.counts.requests += client.state.requests

    def bound_incomplete_fds(self) -> None:
        """Bounds the file descriptors that incomplete messages keep open in this process (rule R20).

        Above the bound, cuts off the clients whose connections are read and whose messages began
        first.
        """
        holding = [client for client in self.clients.values() if client.incomplete_fds]
        holding.sort(key=lambda client: (not client.state.accepts_requests, client.state.incomplete_since))
        excess = sum(client.incomplete_fds for client in holding) - transport.quota()
        for client in holding:
            if excess <= 0:
                return
            excess -= client.incomplete_fds
            self.counts.cut_off += 1
            client.cut_off("incomplete messages keep too many file descriptors open: send each message at once")

    def _retire(self, worker: Worker) -> None:
        self._retiring[worker] = self.now() + self.patience
        worker.close()
        self._reap(worker)

    def schedule(self, client: ServedClient) -> None:
        """Has the client dispatch requests in this turn."""
        if client not in self._scheduled:
            self._scheduled.append(client)

    # ---- events of workers ----------------------------------------------------------------------------------------

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
        """Handles an event for a client that is gone (rule R14)."""
        retiring = [worker for worker in self._retiring if worker.client == number]
        if serial or not retiring:
            self.counts.dropped += 1
        for worker in retiring:
            for _, outcome in worker.completions():
                self.discard(outcome)
            self._reap(worker)

    def _reap(self, worker: Worker) -> None:
        if worker in self._retiring and worker.has_exited:
            del self._retiring[worker]
            worker.join()

    def discard(self, outcome: Outcome) -> None:
        """Drops a result whose client is gone."""
        self.counts.dropped += 1
        if isinstance(outcome, Answer):
            fd_ops.close_all(outcome.fds)

    # ---- the device -----------------------------------------------------------------------------------------------

    def check_device_loss(self, client: ServedClient, request: Request, outcome: Outcome) -> None:
        """Checks whether an outcome reports a device loss, which affects all clients (rule R16).

        Parameters
        ----------
        client, request
            The client, and its request.
        outcome
            The request's answer or error.
        """
        if not isinstance(outcome, BaseException) or request.generation != client.state.device_generation:
            return
        device = self.devices.current
        if self.isolation == "process" and isinstance(outcome, DeviceLostError):
            # the client's child process, which has lost its own device, is replaced at the next
            # request
            client.state.device_lost(client.state.device_generation + 1, with_worker=True)
            client.state.device_opened()
        elif isinstance(outcome, DeviceLostError) or (device is not None and device.is_lost):
            self._device_lost()

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
        """Ends every client, waits for the workers and for the loop, removes the socket. Idempotent.

        Waits for a worker that hangs for `patience` seconds, and then abandons it.

        Raises
        ------
        InvalidCallError
            This thread serves: call shutdown() in place of close().
        """
        self._own.check()
        if self._served_by == threading.get_ident():
            raise InvalidCallError(
                "this thread serves: call shutdown() here, and close() after serve_forever() has returned"
            )
        self.shutdown()
        with self._running:
            if self._closed:
                return
            for client in list(self.clients.values()):
                client.cut_off("the server is closed")
            self._await_workers()
            self.counts = self.statistics()
            self._closed = True
            self.loop.remove(self.event_queue.fileno())
            self._acceptor.close()
            self.loop.close()
            del self.event_queue
            self.devices.close(leave_open=bool(self._retiring))

    def _await_workers(self) -> None:
        deadline = self.now() + self.patience
        while self._retiring and self.now() < deadline:
            self.loop.turn(min(0.1, deadline - self.now()))
        for worker in self._retiring:
            _log.warning("the worker of client %d hangs: it is abandoned", worker.client)
            worker.abandon()

    def _is_lost(self) -> bool:
        # A thread that serves would have a reference, so no thread serves this server.
        return not self._closed and self._own.is_here
