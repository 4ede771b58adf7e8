"""A client's session in the server: its connection, its state, its worker. Only for the loop's thread."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from vkshare import __version__
from vkshare.errors import DeviceLostError, RemoteLostError
from vkshare.ipc import transport
from vkshare.server import trace_points, wire
from vkshare.server.executor import RequestResult
from vkshare.server.loop import HUNG_UP, MALFORMED, READ, WRITE
from vkshare.server.messages import Body, Counters, Event, Hello, Op, Welcome, encode, failure
from vkshare.server.request_types import LATER, Answer, Kind, Request, checked
from vkshare.server.session_state import Action, Decision, Route, SessionState
from vkshare.server.worker import Outcome, without_traceback
from vkshare.util import fd_ops, forks

if TYPE_CHECKING:
    from vkshare.server.server import RenderServer, Worker

_log = logging.getLogger("vkshare.server")

STEPS = 16  # requests of one client in a turn of the loop (rule R8)


@dataclass(slots=True)
class _Unsent:
    """A message, or the rest of one, that the socket did not take. Owns the fds."""

    data: memoryview
    fds: list[int]
    is_counted: bool = False  # the session state counts it as output


class ServedClient:
    """One client of a RenderServer.

    Attributes
    ----------
    number
        The client's number; this server never uses it again.
    name, pid
        Its name, as it sent it, and the pid of its process.
    notes
        For plug-ins: their data about this client, by keys of their own.
    """

    def __init__(self, server: RenderServer, sock: socket.socket, number: int, pid: int, now: float) -> None:
        self.server = server
        self.number = number
        self.name = ""
        self.pid = pid
        self.notes: dict[object, object] = {}
        self.state: SessionState[Request] = SessionState(
            server.generation, now, patience=server.patience, most_output_fds=transport.quota()
        )
        self.worker: Worker | None = None
        self._sock = forks.close_in_child(sock)
        self._splitter = wire.Splitter(lambda opcode, n_fds: checked(server.kinds, opcode, n_fds))
        self._unsent: deque[_Unsent] = deque()
        self._closing: list[Callable[[ServedClient], object]] = []
        self.on_worker_failure: Callable[[], object] | None = None  # called where no worker could be started
        self._requester = trace_points.requester(number)
        server.loop.add(sock.fileno(), READ, self._on_socket_event, self._requester)

    @property
    def is_closed(self) -> bool:
        return self._sock.fileno() < 0

    @property
    def incomplete_fds(self) -> int:
        """File descriptors of an incomplete message (rule R20)."""
        return self._splitter.fd_count

    @contextlib.contextmanager
    def containing_errors(self) -> Iterator[None]:
        """Ends this client, and not the loop, on an unexpected error in the block."""
        try:
            yield
        except Exception:
            _log.exception("client %d: the server failed", self.number)
            self.server.counts.failed += 1
            self.cut_off("the server has failed: see its log")

    # ---- for plug-ins ------------------------------------------------------------------------------------

    def tell(self, opcode: int, body: Body, fds: Sequence[int] = ()) -> None:
        """Sends an event; takes over the fds. No effect if the client is gone."""
        self._send(Op.EVENT, 0, encode(Event(opcode, encode(body))), list(fds))
        # has the loop watch for room, if the socket did not take all of it
        self.server.schedule(self)

    def on_close(self, call: Callable[[ServedClient], object]) -> None:
        """Has the loop call call(client) when the session ends, for any reason."""
        self._closing.append(call)

    # ---- reading --------------------------------------------------------------------------------------------------

    def _on_socket_event(self, events: int, no_ops: Sequence[int]) -> None:
        with self.containing_errors():
            for sequence in no_ops:
                self._send(Op.REPLY, sequence)
            if events & HUNG_UP:  # no process would read a reply
                self.cut_off("")
            elif events & MALFORMED:
                self._protocol_error("file descriptors came with a no-op")
            else:
                if events & WRITE:
                    self._flush()
                if events & READ:
                    self._read()
        self.server.schedule(self)

    def _read(self) -> None:
        try:
            data, fds, has_lost_fds = wire.receive(self._sock, transport.DONT_WAIT)
            if not data:
                return self.cut_off("")
            for message in self._splitter.feed(data, fds, has_lost_fds):
                self._arrived(message)
        except BlockingIOError:
            pass
        except OSError:
            self.cut_off("")
        except wire.ProtocolError as error:
            self._protocol_error(str(error))

    def _arrived(self, message: wire.Message) -> None:
        try:
            if not self.state.is_open:
                return
            request = Request.of(message, self.server.kinds)
            message = wire.Message(0, 0, 0, b"")  # the request owns the message now
            self.state.arrived(request)
        except wire.ProtocolError as error:
            self._protocol_error(str(error))
        finally:
            message.close()

    def _protocol_error(self, why: str) -> None:
        self.server.counts.garbage += 1
        self.cut_off(why)

    # ---- deciding -------------------------------------------------------------------------------------------------

    def serve(self, now: float) -> bool:
        """Dispatches up to STEPS requests; returns whether there may be more (rules R4, R8)."""
        for _ in range(STEPS):
            decision = self.state.step(now)
            if decision is None:
                break
            self._perform(decision)
        self.state.note_incomplete(self.incomplete_fds > 0, now)
        if self.incomplete_fds:
            self.server.bound_incomplete_fds()
        self._watch()
        return decision is not None

    def check_deadlines(self, now: float) -> None:
        """Acts on a deadline that has passed at `now`."""
        self._perform(self.state.check_deadlines(now))
        self._watch()

    def _perform(self, decision: Decision[Request] | None) -> None:
        if decision is None:
            return
        request = decision.request
        if decision.action in (Action.CUT_OFF, Action.ABANDON):
            self.server.counts.lost += decision.action is Action.ABANDON
            self.server.counts.cut_off += decision.action is Action.CUT_OFF
            if decision.action is Action.ABANDON and self.worker is not None:
                self.worker.abandon()
            return self.cut_off(decision.why)
        if decision.action is Action.SEND:
            return self._flush()
        assert request is not None
        if decision.action is Action.ANSWER:
            self._answer(request)
        elif decision.action is Action.START_WORKER:
            self._start_worker()
        elif decision.action is Action.DISPATCH:
            assert self.worker is not None
            with self._step("dispatch", request):
                self.worker.submit(request)
        elif decision.action is Action.FINISH:
            self._finish(request, decision.outcome)
        elif decision.action is Action.REFUSE:
            self._refuse(request, decision.outcome)
        elif decision.action is Action.DEFER:
            assert isinstance(decision.outcome, BaseException)
            self._fail(Op.DEFERRED, request, decision.outcome)

    def _answer(self, request: Request) -> None:
        try:
            with self._step("answer", request):
                if request.refused is not None:
                    raise request.refused
                answer = request.kind.run(self, request)
        except Exception as error:
            self._fail(_failure_op(request), request, without_traceback(error))
        else:
            if answer is not LATER:
                self._reply(request, answer or Answer())
        finally:
            request.close()

    def answer(self, request: Request, outcome: Answer | Exception) -> None:
        """Answers a request for which a plug-in's INLINE run() has returned LATER. No effect if the client is gone."""
        if isinstance(outcome, Exception):
            self._fail(_failure_op(request), request, outcome)
        else:
            self._reply(request, outcome)
        self.server.schedule(self)

    def _start_worker(self) -> None:
        try:
            self.worker = self.server.start_worker(self)
        except Exception as error:  # no memory or no fd: the next request tries again
            _log.exception("client %d: no worker could be started", self.number)
            request = self.state.worker_failed()
            request.close()
            self._fail(_failure_op(request), request, without_traceback(error))
            if self.on_worker_failure is not None:
                self.on_worker_failure()

    def _finish(self, request: Request, outcome: object) -> None:
        try:
            if isinstance(outcome, BaseException):
                self._fail(Op.ERROR, request, outcome)
                return
            assert isinstance(outcome, Answer)
            if request.kind.finish is not None:
                outcome = request.kind.finish(self, request, outcome)
            self._reply(request, outcome)
        except Exception as error:
            self._fail(Op.ERROR, request, without_traceback(error))

    def _refuse(self, request: Request, outcome: object) -> None:
        request.close()
        if isinstance(outcome, Answer):
            fd_ops.close_all(outcome.fds)
        generation = self.state.device_generation
        lost = DeviceLostError(f"the server's device is lost; its next one is generation {generation}")
        self._fail(_failure_op(request), request, lost)

    # ---- events of the worker --------------------------------------------------------------------------------

    def collect_completions(self) -> None:
        """Handles the requests that the worker has completed."""
        if self.worker is not None:
            for request, outcome in self.worker.completions():
                with self._step("collect", request):
                    self.completed(request, outcome)
        self.server.schedule(self)

    def event_arrived(self, serial: int, error: BaseException | None) -> None:
        """Handles an event that the client's executor waits for."""
        found = [] if self.worker is None else self.worker.event_arrived(serial, error)
        if found:
            # `found` may answer a sync; completions of earlier requests may still be behind it in
            # the event queue.
            self.collect_completions()
        for result in found:
            self.deliver(result)

    def deliver(self, result: RequestResult) -> None:
        """Handles a result that did not come from the worker's thread."""
        if result.is_late:
            self.server.check_device_loss(self, result.request, result.outcome)
            self._perform(self.state.failed_late(result.request, result.outcome))
        else:
            with self._step("finish", result.request):
                self.completed(result.request, result.outcome)
        self.server.schedule(self)

    def worker_started(self) -> None:
        """Notes that the worker is ready."""
        self.state.worker_started()
        self.server.schedule(self)

    def worker_exited(self, why: str) -> None:
        """Ends the client, because its worker has exited unexpectedly."""
        self.server.counts.lost += 1
        self.cut_off(f"the worker of client {self.number} has exited: {why}")

    def completed(self, request: Request, outcome: Outcome) -> None:
        """Handles the oldest request in flight: it is complete, or waits without the worker."""
        self.server.schedule(self)
        if isinstance(outcome, wire.ProtocolError):
            self._protocol_error(str(outcome))
        elif isinstance(outcome, (Answer, BaseException)):
            self.server.check_device_loss(self, request, outcome)
            failed = isinstance(outcome, BaseException)
            if self.state.expects(request):
                self._perform(self.state.completed(request, outcome, self.server.now(), failed=failed))
            else:
                self.server.discard(outcome)
        else:
            self.state.waits_without_worker(request)

    # ---- writing --------------------------------------------------------------------------------------------------

    def _reply(self, request: Request, answer: Answer) -> None:
        with self._step("reply", request):
            self._send(Op.REPLY, request.sequence, answer.body, answer.fds)

    def _fail(self, op: Op, request: Request, error: BaseException) -> None:
        with self._step("fail", request):
            self._send(op, request.sequence, encode(failure(error)))

    def _step(self, what: str, request: Request) -> AbstractContextManager[None]:
        """Records the block as a step of the request, in a trace."""
        return trace_points.step(what, request.kind.opcode, self._requester, request.sequence)

    def _send(self, op: Op, sequence: int, body: bytes = b"", fds: list[int] | None = None) -> None:
        """Sends as much as the socket takes, queues the rest; takes over the fds. Never waits (rule R12)."""
        fds = fds or []
        if self.is_closed:
            return fd_ops.close_all(fds)
        try:
            data = wire.pack(op, sequence, self.state.device_generation, body, len(fds))
        except ValueError:
            fd_ops.close_all(fds)
            raise
        last = _Unsent(memoryview(data), fds)
        self._unsent.append(last)
        if self._unsent[0] is last:
            self._flush()
        if self._unsent and not self.is_closed:
            last.is_counted = True
            self._perform(self.state.queued(len(last.data), len(last.fds)))

    def _flush(self) -> None:
        while self._unsent and not self.is_closed:
            head = self._unsent[0]
            try:
                sent = wire.transmit(self._sock, head.data, head.fds, transport.DONT_WAIT)
            except BlockingIOError:
                return
            except OSError as error:
                _log.debug("client %d: %s", self.number, error)
                if error.errno != errno.ETOOMANYREFS:
                    return self.cut_off("")
                # Too many of this user's fds are in flight, over all processes (unix(7)).
                return self._perform(self.state.congested(True, self.server.now()))
            self.state.congested(False, 0.0)
            if head.is_counted:
                self.state.wrote(sent, len(head.fds))
            fd_ops.close_all(head.fds)
            head.fds = []
            head.data = head.data[sent:]
            if not head.data:
                self._unsent.popleft()

    def _watch(self) -> None:
        """Sets the events that the loop watches, and whether C may answer no-ops."""
        if self.is_closed:
            return
        state = self.state
        can_write = self._unsent and not state.is_congested
        interest = (READ if state.accepts_requests else 0) | (WRITE if can_write else 0)
        answers_no_ops = state.is_idle and self._splitter.is_empty and not self._unsent
        self.server.loop.watch(self._sock.fileno(), interest, answers_no_ops)

    # ---- ending ---------------------------------------------------------------------------------------------------

    def cut_off(self, why: str) -> None:
        """Ends the connection; sends the client the reason, if any, as far as the socket takes it. Idempotent."""
        if self.is_closed:
            return
        if why:
            _log.info("client %d %r: %s", self.number, self.name, why)
            self._send_lost(why)
        self.server.loop.remove(self._sock.fileno())
        self._sock.close()
        requests, outcome = self.state.close()
        for request in requests:
            request.close()
        if isinstance(outcome, Answer):
            self.server.discard(outcome)
        self._splitter.close()
        for unsent in self._unsent:
            fd_ops.close_all(unsent.fds)
        self._unsent.clear()
        self.server.remove_client(self)
        for call in self._closing:
            try:
                call(self)
            except Exception:
                _log.exception("client %d: on_close() of a plug-in failed", self.number)

    def _send_lost(self, why: str) -> None:
        if self._unsent:
            return  # part of another message may have been sent
        data = wire.pack(Op.LOST, 0, self.state.device_generation, encode(failure(RemoteLostError(why))))
        with contextlib.suppress(OSError):
            wire.transmit(self._sock, data, (), transport.DONT_WAIT)


def _failure_op(request: Request) -> Op:
    """Returns the opcode of the request's error message."""
    return Op.DEFERRED if request.kind.route is Route.CANNOT_FAIL else Op.ERROR


# ---- the requests that the loop answers itself ----------------------------------------------------------------


def hello(client: ServedClient, request: Request) -> Answer:
    client.name = request.body.name
    adapter = client.server.devices.adapter
    capabilities = adapter.capabilities
    uuids = capabilities.device_uuid, capabilities.driver_uuid
    return Answer.of(Welcome(__version__, client.number, adapter.backend, adapter.name, *uuids))


def no_op(client: ServedClient, request: Request) -> Answer:
    return Answer()


def statistics(client: ServedClient, request: Request) -> Answer:
    return Answer.of(Counters(asdict(client.server.statistics())))


BUILT_IN = (
    Kind(Op.HELLO, Hello, Route.INLINE, hello),
    Kind(Op.NO_OP, None, Route.INLINE, no_op),
    Kind(Op.STATISTICS, None, Route.INLINE, statistics),
)
